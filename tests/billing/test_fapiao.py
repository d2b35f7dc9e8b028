"""发票: what may be invoiced, who may do what when, the bureau's file, and what voids and credit notes do to them."""

import io
from datetime import date, timedelta
from decimal import Decimal

import openpyxl
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import IntegrityError, InternalError, transaction
from django.urls import reverse
from django.utils import translation

from accounts.models import Notification
from billing import actions, fapiao_template
from billing.actions import fapiao as verbs
from billing.fapiao import Detail, Entitlement, NothingToInvoice, entitled
from billing.models import CreditNote, CreditNoteLine, Fapiao, Invoice
from tests import factories
from tests.billing import builders
from tests.billing.test_tax_profile import COMPANY
from tests.factories import NOON

pytestmark = pytest.mark.django_db
PDF, OFD = b"%PDF-1.7 of the bureau", b"PK\x03\x04 of the bureau"
NUMBER, RED = "25352000000012345678", "25352000000087654321"
TODAY = date(2026, 11, 30)


@pytest.fixture(autouse=True)
def _files(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path
    with translation.override("en"):
        yield


def prepaid(organization=None, *, profile=COMPANY, **fields):
    """¥12,000.00 with ¥679.25 tax for an organization with a tax profile."""
    organization = organization or factories.organization()
    if profile:
        actions.save_tax_profile(organization=organization, entered=profile, actor=None, at=NOON)
    order = builders.order(organization, **({"quantity": 2, "periods": 3, "rate": "2000"} | fields))
    return actions.draft_order_invoice(order=order, at=builders.NOVEMBER)


def requested(invoice=None, kind="special"):
    return actions.request_fapiao(invoice=invoice or prepaid(), kind=kind, actor=None, at=NOON)


def issued(invoice=None, number=NUMBER):
    return issue(requested(invoice), number=number)


def issue(fapiao, **changed):
    fields = {"number": NUMBER, "issued_on": TODAY, "content": PDF, "actor": None, "at": NOON} | changed
    return actions.issue_fapiao(fapiao=fapiao, **fields)


def credit(invoice, amount, tax):
    """A credit note's rows, as the action that makes them leaves them, and what it then calls."""
    note = CreditNote.objects.create(
        account=invoice.account, invoice=invoice, number=f"CN-{amount}", request_key=str(amount), currency="CNY",
        total_minor=amount, tax_minor=tax, unpaid_minor=amount, destination="balance", reason="x", issued_at=NOON,
    )  # fmt: skip
    CreditNoteLine.objects.create(note=note, line=invoice.lines.get(), amount_minor=amount, tax_minor=tax)
    Invoice.objects.filter(pk=invoice.pk).update(credited_minor=amount)
    invoice.refresh_from_db()
    with transaction.atomic():
        actions.follow_credit(invoice=Invoice.objects.select_for_update().get(pk=invoice.pk), at=NOON, note=note.number)


def code_of(refusal):
    return refusal.value.code


# --- what may be invoiced ---


def test_it_is_the_invoices_lines_by_product():
    (detail,) = entitled(prepaid()).details

    assert detail == Detail(
        "NVIDIA GeForce RTX 4090 24GB × 1", "3040203000000000000", Decimal(6), "卡月", Decimal(6), Decimal(2000),
        1_200_000, 0, 67_925,
    )  # fmt: skip


def test_gifted_credit_is_a_discount_and_no_part_of_it():
    invoice = prepaid()
    Invoice.objects.filter(pk=invoice.pk).update(paid_minor=200_000, gift_minor=200_000)
    invoice.refresh_from_db()

    made = entitled(invoice)

    assert (made.total_minor, made.tax_minor) == (1_000_000, 56_604)
    assert (made.details[0].amount_minor, made.details[0].discount_minor) == (1_200_000, 200_000)


def test_what_was_credited_is_gone():
    invoice = prepaid()
    credit(invoice, 300_000, 16_981)

    made = entitled(invoice)

    assert (made.total_minor, made.tax_minor) == (900_000, 50_944)
    assert made.details[0].quantity is None


def test_nothing_is_left_of_an_invoice_that_was_gifted_whole():
    invoice = prepaid()
    Invoice.objects.filter(pk=invoice.pk).update(paid_minor=1_200_000, gift_minor=1_200_000)
    invoice.refresh_from_db()

    with pytest.raises(NothingToInvoice):
        entitled(invoice)
    with pytest.raises(NothingToInvoice):
        requested(invoice)
    assert not Fapiao.objects.exists()


def test_a_line_below_zero_lowers_the_others_of_its_rate():
    organization = factories.organization()
    rental = builders.rental(organization)
    first = builders.used(rental, builders.NOVEMBER, builders.NOVEMBER + timedelta(hours=10))
    builders.used(rental, builders.NOVEMBER, builders.NOVEMBER + timedelta(hours=10), reverses=first)
    other = builders.rental(organization, rate="4.00")
    builders.used(other, builders.NOVEMBER, builders.NOVEMBER + timedelta(hours=3, seconds=20))
    (invoice,) = actions.draft_usage_invoices(at=builders.DECEMBER).invoices

    made = entitled(invoice)

    assert made.total_minor == invoice.total_minor == 1202
    assert [(d.quantity, d.unit) for d in made.details] == [(Decimal("3.0055555555556"), "卡时")]


@pytest.mark.parametrize("gift", [1, 333, 9_999])
def test_shares_of_a_discount_add_up_to_the_fen(gift):
    organization = factories.organization()
    for rate in ("1.11", "2.22", "3.37"):
        rental = builders.rental(organization, rate=rate)
        builders.used(rental, builders.NOVEMBER, builders.NOVEMBER + timedelta(hours=17, seconds=1))
    (invoice,) = actions.draft_usage_invoices(at=builders.DECEMBER).invoices
    invoice.gift_minor = gift

    made = entitled(invoice)

    assert sum(d.discount_minor for d in made.details) == gift
    assert made.total_minor == invoice.total_minor - gift
    assert all(0 <= d.discount_minor <= d.amount_minor for d in made.details)


# --- asking ---


def test_a_request_keeps_the_buyer_and_the_amounts():
    invoice = prepaid()

    fapiao = requested(invoice)

    assert fapiao.serial == "INV202600000101"
    assert (fapiao.status, fapiao.total_minor, fapiao.tax_minor) == ("requested", 1_200_000, 67_925)
    assert fapiao.buyer == COMPANY | {"country": "CN"}
    assert [event.status for event in fapiao.events.all()] == ["requested"]


@pytest.mark.parametrize(
    ("profile", "kind", "code"),
    [
        (None, "ordinary", "no_profile"),
        ({"kind": "individual", "title": "张三"}, "special", "needs_company"),
        ({"kind": "foreign", "country": "DE", "title": "Møller GmbH"}, "ordinary", "characters"),
        (COMPANY, "paper", "kind"),
    ],
)
def test_a_request_without_what_it_takes_is_refused(profile, kind, code):
    invoice = prepaid(profile=profile)

    with pytest.raises(actions.FapiaoRefused) as refusal:
        requested(invoice, kind)

    assert code_of(refusal) == code
    assert not Fapiao.objects.exists()


def test_there_is_one_at_a_time():
    invoice = prepaid()
    requested(invoice)

    with pytest.raises(actions.FapiaoRefused) as refusal:
        requested(invoice)

    assert code_of(refusal) == "exists"
    assert Fapiao.objects.count() == 1


def test_dollars_and_void_invoices_have_none():
    dollars = prepaid(factories.organization(currency="USD"), rate="100")
    void = prepaid()
    actions.void_invoice(invoice=void, at=builders.NOVEMBER)

    for invoice, code in ((dollars, "currency"), (void, "not_issued")):
        with pytest.raises(actions.FapiaoRefused) as refusal:
            requested(invoice)
        assert code_of(refusal) == code


# --- finance ---


def test_issuing_keeps_number_day_and_file_and_tells_the_customer():
    fapiao = issued()

    assert (fapiao.status, fapiao.number, fapiao.issued_on) == ("issued", NUMBER, TODAY)
    with fapiao.file.open() as file:
        assert file.read() == PDF
    assert fapiao.file.name.endswith(f"{fapiao.key}.pdf")
    notice = Notification.objects.get(kind="fapiao_issued")
    assert notice.params == {"invoice": fapiao.invoice.number, "amount": "¥12,000.00"}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"number": "123"}, "number"), ({"number": "2535200000001234567x"}, "number"),
        ({"issued_on": date(2026, 12, 1)}, "future"), ({"content": b"<html>"}, "file_kind"),
        ({"content": b"%PDF-" + b"x" * verbs.MOST_FILE_BYTES}, "file_size"),
    ],
)  # fmt: skip
def test_a_wrong_answer_of_the_bureau_is_refused(changed, code):
    fapiao = requested()

    with pytest.raises(actions.FapiaoRefused) as refusal:
        issue(fapiao, **changed)

    fapiao.refresh_from_db()
    assert (code_of(refusal), fapiao.status, fapiao.number, fapiao.file.name) == (code, "requested", "", "")


def test_a_number_belongs_to_one():
    issued()
    other = requested()

    with pytest.raises(actions.FapiaoRefused) as refusal:
        issue(other)

    assert code_of(refusal) == "taken"


def test_it_is_issued_once():
    fapiao = issued()

    with pytest.raises(verbs.IllegalFapiaoMove, match=r"“Issued by the tax bureau” and cannot become"):
        issue(fapiao, number=RED)


def test_what_changed_since_it_was_asked_for_must_be_recalculated():
    fapiao = requested()
    Invoice.objects.update(paid_minor=100_000, gift_minor=100_000)
    with pytest.raises(actions.FapiaoRefused) as refusal:
        issue(fapiao)
    assert code_of(refusal) == "amount_changed"
    assert "¥11,000.00" in str(refusal.value)

    actions.recalculate_fapiao(fapiao=fapiao, actor=None, at=NOON)

    assert issue(fapiao).total_minor == 1_100_000


def test_a_refused_one_can_be_asked_for_again_after_the_profile_was_mended():
    invoice = prepaid()
    fapiao = actions.refuse_fapiao(fapiao=requested(invoice), reason="抬头不符", actor=None, at=NOON)
    assert Notification.objects.get(kind="fapiao_refused").params["reason"] == "抬头不符"
    actions.save_tax_profile(
        organization=invoice.organization, entered=COMPANY | {"title": "新名"}, actor=None, at=NOON
    )

    again = requested(invoice, "ordinary")

    assert (again.pk, again.serial, again.status, again.reason) == (fapiao.pk, fapiao.serial, "requested", "")
    assert (again.buyer["title"], again.kind) == ("新名", "ordinary")


def test_a_red_flush_frees_the_invoice_for_another():
    invoice = prepaid()
    fapiao = issued(invoice)
    actions.open_red_flush(fapiao=fapiao, reason="01", actor=None, at=NOON)
    with pytest.raises(actions.FapiaoRefused) as refusal:
        requested(invoice)
    assert code_of(refusal) == "exists"

    flushed = actions.finish_red_flush(fapiao=fapiao, red_number=RED, flushed_on=TODAY, actor=None, at=NOON)

    assert (flushed.status, flushed.red_reason, flushed.red_number) == ("red_flushed", "01", RED)
    assert requested(invoice).serial == "INV202600000102"
    assert [e.status for e in flushed.events.all()] == ["requested", "issued", "red_pending", "red_flushed"]
    assert Notification.objects.get(kind="fapiao_flushed").params["number"] == NUMBER


def test_a_red_flush_that_was_not_confirmed_is_cancelled():
    fapiao = actions.open_red_flush(fapiao=issued(), reason="02", actor=None, at=NOON)

    fapiao = actions.cancel_red_flush(fapiao=fapiao, actor=None, at=NOON)

    assert (fapiao.status, fapiao.red_reason) == ("issued", "")


@pytest.mark.parametrize(
    ("changed", "code"),
    [({"red_number": "1"}, "number"), ({"red_number": NUMBER}, "taken"), ({"flushed_on": date(2026, 12, 1)}, "day"),
     ({"flushed_on": date(2026, 11, 29)}, "day")],
)  # fmt: skip
def test_a_wrong_red_flush_is_refused(changed, code):
    fapiao = actions.open_red_flush(fapiao=issued(), reason="01", actor=None, at=NOON)
    fields = {"red_number": RED, "flushed_on": TODAY, "actor": None, "at": NOON} | changed

    with pytest.raises(actions.FapiaoRefused) as refusal:
        actions.finish_red_flush(fapiao=fapiao, **fields)

    assert code_of(refusal) == code


def test_the_database_keeps_an_issued_one_as_it_is():
    fapiao = issued()
    for changed in ({"total_minor": 1}, {"number": RED}, {"status": "requested"}):
        with pytest.raises((InternalError, IntegrityError)), transaction.atomic():
            Fapiao.objects.filter(pk=fapiao.pk).update(**changed)
    with pytest.raises(InternalError), transaction.atomic():
        fapiao.delete()


# --- the invoice behind it ---


def test_an_invoice_with_a_fapiao_is_not_voided():
    invoice = prepaid()
    issued(invoice)

    with pytest.raises(actions.VoidRefused) as refusal:
        actions.void_invoice(invoice=invoice, at=builders.NOVEMBER)

    invoice.refresh_from_db()
    assert (code_of(refusal), invoice.status) == ("fapiao", "issued")


def test_a_void_withdraws_a_request():
    invoice = prepaid()
    fapiao = requested(invoice)

    actions.void_invoice(invoice=invoice, at=builders.NOVEMBER)

    fapiao.refresh_from_db()
    assert fapiao.status == "withdrawn"


@pytest.mark.parametrize(("amount", "tax", "reason"), [(300_000, 16_981, "04"), (1_200_000, 67_925, "03")])
def test_a_credit_note_opens_the_red_flush_of_an_issued_one(amount, tax, reason):
    invoice = prepaid()
    fapiao = issued(invoice)

    credit(invoice, amount, tax)

    fapiao.refresh_from_db()
    assert (fapiao.status, fapiao.red_reason) == ("red_pending", reason)
    assert fapiao.events.last().note == f"CN-{amount}"


def test_a_credit_note_lowers_a_request_and_ends_it_when_nothing_is_left():
    first, second = prepaid(), prepaid()
    part, whole = requested(first), requested(second)

    credit(first, 300_000, 16_981)
    credit(second, 1_200_000, 67_925)

    part.refresh_from_db()
    whole.refresh_from_db()
    assert (part.status, part.total_minor, part.tax_minor) == ("requested", 900_000, 50_944)
    assert whole.status == "withdrawn"


# --- the bureau's file ---


def template(*fapiao):
    return fapiao_template.filled_in([(one, entitled(one.invoice)) for one in fapiao])


def test_the_file_is_the_bureaus_template():
    fapiao = requested()
    content = actions.export_fapiao(fapiao_ids=[fapiao.pk], actor=None, at=NOON)

    book = openpyxl.load_workbook(io.BytesIO(content))
    heads, details = book["1-发票基本信息"], book["2-发票明细信息"]
    head = dict(zip((c.value for c in heads[3]), (c.value for c in heads[4]), strict=True))
    detail = dict(zip((c.value for c in details[3]), (c.value for c in details[4]), strict=True))
    assert {name: value for name, value in head.items() if value is not None} == {
        "发票流水号": fapiao.serial, "发票类型": "增值税专用发票", "是否含税": "是", "受票方自然人标识": "否",
        "购买方名称": COMPANY["title"], "购买方纳税人识别号": COMPANY["tax_id"], "购买方地址": COMPANY["address"],
        "购买方电话": COMPANY["phone"], "购买方开户银行": COMPANY["bank"], "购买方银行账号": COMPANY["bank_account"],
        "备注": fapiao.invoice.number, "是否展示购买方地址电话银行账号": "是", "购买方邮箱": COMPANY["email"],
    }  # fmt: skip
    assert {name: value for name, value in detail.items() if value is not None} == {
        "发票流水号": fapiao.serial, "项目名称": "NVIDIA GeForce RTX 4090 24GB × 1",
        "商品和服务税收编码": "3040203000000000000", "单位": "卡月", "数量": 6, "单价": 2000, "金额": 12000,
        "税率": 0.06,
    }  # fmt: skip
    assert details["C4"].data_type == "s"
    assert heads.max_row == details.max_row == 4
    assert fapiao.events.last().note == "exported for the tax bureau"


def broken(**sheets):
    """Refusals of a good template with cells changed: head or detail = {column: value}."""
    made = template(requested())
    made.headers[0].update(sheets.get("head", {}))
    made.details[0].update(sheets.get("detail", {}))
    return [(one.sheet[0], one.row, str(one.problem)) for one in fapiao_template.refusals(made)]


@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        ({}, []),
        ({"head": {"购买方纳税人识别号": ""}}, [("1", 4, "A special VAT invoice needs the buyer's tax number.")]),
        ({"head": {"购买方纳税人识别号": "9135"}},
         [("1", 4, "The buyer's tax number must be 15 to 20 digits and capitals.")]),
        ({"head": {"购买方名称": ""}}, [("1", 4, "The buyer's title is missing.")]),
        ({"head": {"购买方名称": "福" * 51}}, [("1", 4, "The buyer's title: longer than 100 bytes of GBK.")]),
        ({"head": {"购买方地址": "福" * 46}}, [("1", 4, "Address and phone together: longer than 100 bytes of GBK.")]),
        ({"head": {"购买方开户银行": "福" * 46}},
         [("1", 4, "Bank and account together: longer than 100 bytes of GBK.")]),
        ({"head": {"备注": "x" * 231}}, [("1", 4, "The remark is longer than 230 characters.")]),
        ({"head": {"购买方名称": "𠮷"}},
         [("1", 4, "购买方名称 has the character 𠮷 (U+20BB7), which the bureau does not take.")]),
        ({"head": {"购买方名称": "a<b"}},
         [("1", 4, "购买方名称 has the character < (U+003C), which the bureau does not take.")]),
        ({"detail": {"商品和服务税收编码": "3040203"}}, [("2", 4, "The tax code must have 19 digits.")]),
        ({"detail": {"商品和服务税收编码": "3040200000000000000"}},
         [("2", 4, "The tax code 3040200000000000000 is a heading; goods under it have codes of their own.")]),
        ({"detail": {"税率": "6%"}},
         [("2", 4, "The tax rate must be written as a decimal such as 0.06, not in percent.")]),
        ({"detail": {"税率": "0.07"}}, [("2", 4, "The tax rate 0.07 is none that the law knows.")]),
        ({"detail": {"金额": "0.00"}}, [("2", 4, "The amount must be above zero, with two decimals.")]),
        ({"detail": {"折扣金额": "12000.01"}},
         [("2", 4, "The discount must have two decimals and cannot be above the amount.")]),
        ({"detail": {"单价": ""}}, [("2", 4, "Quantity and unit price come together.")]),
        ({"detail": {"数量": "0.12345678901234"}},
         [("2", 4, "Quantity and unit price have at most 17 characters and 13 decimals.")]),
        ({"head": {"发票流水号": "INV-1"}},
         [("1", 4, "The serial must be 1 to 20 letters and digits."), ("1", 4, "There are no lines to this serial."),
          ("2", 4, "There is no head to this serial.")]),
    ],
)  # fmt: skip
def test_each_of_the_bureaus_rules_names_its_row(changed, refused):
    assert broken(**changed) == refused


def test_a_serial_twice_is_refused_on_both_rows():
    made = template(requested())
    made.headers.append(made.headers[0])

    assert [(one.row, str(one.problem)) for one in fapiao_template.refusals(made)] == [
        (4, "The serial stands more than once."), (5, "The serial stands more than once."),
    ]  # fmt: skip


def test_one_bad_row_and_nothing_is_exported():
    good, bad = requested(), requested()
    Fapiao.objects.filter(pk=bad.pk).update(buyer=bad.buyer | {"tax_id": ""})

    with pytest.raises(fapiao_template.ExportRefused) as refusal:
        actions.export_fapiao(fapiao_ids=[good.pk, bad.pk], actor=None, at=NOON)

    (refused,) = refusal.value.refused
    assert str(refused) == (
        f"1-发票基本信息, row 5 ({bad.serial}): A special VAT invoice needs the buyer's tax number."
    )
    assert not any(one.events.filter(note__startswith="exported").exists() for one in (good, bad))


def test_only_requested_ones_are_exported():
    with pytest.raises(actions.FapiaoRefused) as refusal:
        actions.export_fapiao(fapiao_ids=[issued().pk], actor=None, at=NOON)

    assert code_of(refusal) == "none"


def test_a_persons_is_marked_as_one():
    person = requested(prepaid(profile={"kind": "individual", "title": "张三"}), "ordinary")

    made = template(person)

    head = made.headers[0]
    assert (head["发票类型"], head["受票方自然人标识"], head["购买方纳税人识别号"]) == ("普通发票", "是", "")
    assert fapiao_template.refusals(made) == []


def test_a_discount_and_an_untaxed_rate_are_written_as_figures():
    fapiao = Fapiao(serial="A1", kind="ordinary", buyer={"title": "甲"}, currency="CNY", invoice=Invoice(number="I"))
    detail = Detail("x", "3040203000000000000", Decimal("0.00"), "", None, None, 1000, 1, 0)

    made = fapiao_template.filled_in([(fapiao, Entitlement([detail]))])

    assert (made.details[0]["税率"], made.details[0]["折扣金额"], made.details[0]["数量"]) == ("0", "0.01", "")
    assert fapiao_template.refusals(made) == []


# --- the pages ---


def signed_in(client, organization, role="finance"):
    client.force_login(factories.member(organization, role), backend="django.contrib.auth.backends.ModelBackend")


def test_the_customer_asks_on_the_invoices_page_and_takes_the_file(client):
    invoice = prepaid()
    signed_in(client, invoice.organization)
    page = reverse("billing:invoice", args=[invoice.key])
    assert "Ask for a fapiao" in client.get(page).text

    assert client.post(reverse("billing:fapiao_request", args=[invoice.key]), {"kind": "special"}).url == page
    fapiao = issue(invoice.fapiao.get())

    shown = client.get(page).text
    assert NUMBER in shown
    assert "Ask for a fapiao" not in shown
    answer = client.get(reverse("billing:fapiao_file", args=[fapiao.key]))
    assert b"".join(answer.streaming_content) == PDF
    assert answer["Content-Disposition"] == f'attachment; filename="fapiao-{NUMBER}.pdf"'


def test_a_refusal_is_told_and_nothing_is_asked_for(client):
    invoice = prepaid(profile=None)
    signed_in(client, invoice.organization)

    answer = client.post(reverse("billing:fapiao_request", args=[invoice.key]), {"kind": "ordinary"}, follow=True)

    assert "Fill in the tax profile first" in answer.text
    assert not Fapiao.objects.exists()


def test_a_viewer_sees_but_does_not_ask_and_a_request_can_be_withdrawn(client):
    invoice = prepaid()
    signed_in(client, invoice.organization, "viewer")
    assert client.post(reverse("billing:fapiao_request", args=[invoice.key]), {"kind": "special"}).status_code == 403
    fapiao = requested(invoice)
    assert fapiao.serial in client.get(reverse("billing:invoice", args=[invoice.key])).text

    signed_in(client, invoice.organization)
    client.post(reverse("billing:fapiao_withdraw", args=[fapiao.key]))

    fapiao.refresh_from_db()
    assert fapiao.status == "withdrawn"


def test_a_file_that_is_not_there_or_somebody_elses_is_not_found(client):
    fapiao = requested()
    signed_in(client, fapiao.invoice.organization)
    assert client.get(reverse("billing:fapiao_file", args=[fapiao.key])).status_code == 404
    issue(fapiao)
    signed_in(client, factories.organization())
    assert client.get(reverse("billing:fapiao_file", args=[fapiao.key])).status_code == 404


# --- the desk ---


def press(client, fapiao, name, **data):
    return client.post(reverse("admin:billing_fapiao_press", args=[fapiao.pk, name]), data)


def test_finance_works_the_queue(admin_client):
    fapiao = requested()
    day = {"issued_on": "2026-11-30"}
    assert (
        press(admin_client, fapiao, "issue", number="1", file=SimpleUploadedFile("f.pdf", PDF), **day).status_code
        == 200
    )
    done = press(admin_client, fapiao, "issue", number=NUMBER, file=SimpleUploadedFile("f.pdf", PDF), **day)
    assert done.status_code == 302
    taken = admin_client.get(reverse("admin:billing_fapiao_file", args=[fapiao.pk]))
    assert b"".join(taken.streaming_content) == PDF
    assert press(admin_client, fapiao, "open_red", reason="01").status_code == 302
    assert press(admin_client, fapiao, "finish_red", red_number=RED, flushed_on="2026-11-30").status_code == 302

    fapiao.refresh_from_db()
    assert (fapiao.status, fapiao.red_number) == ("red_flushed", RED)
    assert NUMBER in admin_client.get(reverse("admin:billing_fapiao_change", args=[fapiao.pk])).text


def test_the_batch_is_a_file_or_every_refusal(admin_client):
    good, bad = requested(), requested()
    Fapiao.objects.filter(pk=bad.pk).update(buyer=bad.buyer | {"tax_id": "", "title": ""})
    address = reverse("admin:billing_fapiao_changelist")
    chosen = {"action": "export_batch", "_selected_action": [good.pk, bad.pk]}

    refused = admin_client.post(address, chosen, follow=True)

    told = [str(message) for message in refused.context["messages"]]
    assert len(told) == 3
    assert all(bad.serial in line for line in told[1:])
    answer = admin_client.post(address, chosen | {"_selected_action": [good.pk]})
    assert answer["Content-Disposition"].endswith('.xlsx"')
    assert openpyxl.load_workbook(io.BytesIO(answer.content)).sheetnames == ["1-发票基本信息", "2-发票明细信息"]
