"""An invoice as a PDF: what stands in it is read back out of the file."""

import io
from datetime import timedelta

import pytest
import time_machine
from django.urls import reverse
from django.utils import translation
from pypdf import PdfReader

from billing import actions, paper
from billing.models import Invoice, ReceivingAccount
from billing.paper import glyphs, pieces, qr, typesetting
from billing.remarks import remark_code
from tests import factories
from tests.billing import builders

pytestmark = pytest.mark.django_db
SELLER = {"name": "福建某某智算有限公司", "tax_number": "91350100MA00000155", "address": "福州市鼓楼区"}


@pytest.fixture(autouse=True)
def seller(settings):
    settings.SELLER, settings.BANK_ACCOUNT = SELLER, "某某银行 1234"


def pages(pdf):
    return [page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages]


def text(pdf):
    return "\n".join(pages(pdf))


def prepaid(organization=None, **fields):
    """¥12,000.00 for two cards over three months."""
    order = builders.order(organization, **({"quantity": 2, "periods": 3, "rate": "2000"} | fields))
    return actions.draft_order_invoice(order=order, at=builders.NOVEMBER)


def used(organization, *, machines=1, name="train-1", **fields):
    """An invoice of a month in which each machine ran 31:01:17 h."""
    offer = factories.offer(cards=1)
    for machine in range(machines):
        rental = builders.rental(organization, offer=offer, name=f"{name}{machine or ''}", **fields)
        builders.used(rental, builders.NOVEMBER, builders.NOVEMBER + timedelta(hours=31, seconds=77))
    (invoice,) = actions.draft_usage_invoices(at=builders.DECEMBER).invoices
    return Invoice.objects.select_related("organization", "account").get(pk=invoice.pk)


def signed_in(client, organization):
    client.force_login(organization.members.first(), backend="django.contrib.auth.backends.ModelBackend")


# --- what stands in it ---


def test_it_holds_both_parties_number_dates_lines_sums_and_where_to_pay():
    invoice = prepaid(factories.organization(name="买方（福州）公司"))

    shown = text(paper.invoice_pdf(invoice, language="zh-hans"))

    for words in (
        "账单", "Invoice", "福建某某智算有限公司", "91350100MA00000155", "福州市鼓楼区", "买方（福州）公司",
        invoice.number, invoice.order.number, "2026-11-01", "2 卡 × 3 个月 × ¥2,000.00", "6%", "¥679.25", "¥11,320.75",
        "¥12,000.00", "人民币壹万贰仟元整", "某某银行 1234", "Asia/Shanghai",
    ):  # fmt: skip
        assert words in shown


def test_each_language_comes_first_on_its_own_paper_and_second_on_the_other():
    invoice = prepaid()

    chinese = text(paper.invoice_pdf(invoice, language="zh-hans"))
    english = text(paper.invoice_pdf(invoice, language="en"))

    assert chinese.index("买方") < chinese.index("Buyer")
    assert english.index("Buyer") < english.index("买方")
    assert "2 cards × 3 months × ¥2,000.00" in english


def test_the_language_of_whoever_asks_decides_nothing_but_the_argument_does():
    invoice = prepaid()
    with translation.override("en"):
        one = paper.invoice_pdf(invoice, language="zh-hans")
    with translation.override("zh-hans"):
        other = paper.invoice_pdf(invoice, language="zh-hans")

    assert one == other


def test_a_month_is_cut_in_the_organizations_zone():
    invoice = used(factories.organization())

    shown = text(paper.invoice_pdf(invoice, language="en"))

    assert "2026-11-01 – 2026-11-30" in " ".join(shown.split())
    assert "1 card × 31:01:17 h × ¥2.50" in shown


def test_the_buyer_is_as_the_invoices_own_copy_has_it():
    invoice = prepaid()
    invoice.buyer = {
        "title": "福州智算研究院", "tax_id": "12110000400000018T", "address": "五一路1号", "phone": "0591-1234567",
        "bank": "兴业银行", "bank_account": "1170 10", "email": "tax@example.com",
    }  # fmt: skip

    shown = text(paper.invoice_pdf(invoice, language="zh-hans"))

    for words in ("福州智算研究院", "12110000400000018T", "五一路1号", "0591-1234567", "兴业银行 1170 10", "tax@"):
        assert words in shown
    assert invoice.organization.name not in shown


def test_our_bank_accounts_of_its_currency_stand_there_with_the_customers_own_remark():
    for currency, number in (("CNY", "1170 1010"), ("USD", "9999")):
        ReceivingAccount.objects.create(currency=currency, holder="福建公司", bank="兴业银行", number=number)
    invoice = prepaid()

    shown = text(paper.invoice_pdf(invoice, language="zh-hans"))

    for words in ("福建公司", "兴业银行", "1170 1010", remark_code(invoice.account)):
        assert words in shown
    assert "9999" not in shown
    assert "某某银行 1234" not in shown


def test_tax_is_summed_by_rate():
    class Line:
        def __init__(self, percent, amount, tax):
            self.tax_percent, self.amount_minor, self.tax_minor = percent, amount, tax

    table = pieces.tax_table([Line(13, 11300, 1300), Line(6, 10600, 600), Line(13, 1130, 130)], "CNY")

    assert table.rows == [["6%", "¥100.00", "¥6.00", "¥106.00"], ["13%", "¥110.00", "¥14.30", "¥124.30"]]


def test_dollars_have_no_chinese_capitals():
    shown = text(paper.invoice_pdf(prepaid(factories.organization(currency="USD"), rate="180"), language="zh-hans"))

    assert "US$1,080.00" in shown
    assert "人民币" not in shown


def test_a_void_invoice_says_so_and_asks_for_no_money():
    invoice = prepaid()
    actions.void_invoice(invoice=invoice, at=builders.NOVEMBER, actor=None, note="x")
    invoice.refresh_from_db()

    shown = text(paper.invoice_pdf(invoice, language="en"))

    assert "Void" in shown
    assert "某某银行 1234" not in shown


def test_a_demonstration_says_so(settings):
    settings.DEBUG = True
    assert "演示" in text(paper.invoice_pdf(prepaid(), language="en"))


def test_a_draft_has_no_paper():
    invoice = prepaid()
    invoice.issued_at = None
    with pytest.raises(ValueError, match="nobody's document"):
        paper.invoice_pdf(invoice, language="en")


# --- how the file is made ---


def test_the_same_invoice_gives_the_same_bytes_whatever_the_time():
    invoice = used(factories.organization(), machines=3)
    with time_machine.travel("2026-12-01"):
        first = paper.invoice_pdf(invoice, language="zh-hans")
    with time_machine.travel("2031-05-17"):
        second = paper.invoice_pdf(invoice, language="zh-hans")

    assert first == second
    assert PdfReader(io.BytesIO(first)).metadata.creation_date == invoice.issued_at.replace(microsecond=0)


def test_its_only_font_is_ours_and_lies_within():
    reader = PdfReader(io.BytesIO(paper.invoice_pdf(prepaid(), language="zh-hans")))
    fonts = [font.get_object() for font in reader.pages[0]["/Resources"]["/Font"].values()]

    assert fonts
    for font in fonts:
        inner = font["/DescendantFonts"][0].get_object()
        assert "WenQuanYiMicroHei" in inner["/BaseFont"]
        assert inner["/FontDescriptor"].get_object().keys() & {"/FontFile2", "/FontFile3"}


@pytest.mark.parametrize(
    "evil",
    ["#evil[]", "$x^2$ *b* _i_", '#read("/etc/passwd")', "</script><script>alert(1)</script>", "\\u{41} // \\ @x <y>"],
)  # fmt: skip
def test_markup_in_a_name_stays_text(evil):
    organization = factories.organization(name=evil)

    assert evil in text(paper.invoice_pdf(prepaid(organization), language="en"))


@pytest.mark.parametrize(("name", "code"), [("𠮷野家", "U+20BB7"), ("智算🚀", "U+1F680"), ("a\u202eb", "U+202E")])
def test_a_buyer_whose_name_cannot_be_printed_is_refused(name, code):
    invoice = prepaid(factories.organization(name=name))

    with translation.override("en"), pytest.raises(paper.Unprintable) as refused:
        paper.invoice_pdf(invoice, language="zh-hans")

    assert refused.value.code == "unprintable_character"
    assert code in str(refused.value)


def test_what_machines_are_called_never_stops_a_paper():
    organization = factories.organization()
    invoice = used(organization, name="𠮷-🚀")

    assert "[U+20BB7]-[U+1F680]" in text(paper.invoice_pdf(invoice, language="zh-hans")).replace("\n", "")


def test_the_font_has_every_character_of_gb_2312():
    pairs = (bytes([row, cell]) for row in range(0xA1, 0xF8) for cell in range(0xA1, 0xFF))
    characters = "".join(pair.decode("gb2312", "ignore") for pair in pairs)

    assert len(characters) == 7445
    assert [c for c in characters if not glyphs.can_print(c) and c != "\u3000"] == []


def test_an_unknown_font_is_a_fault(monkeypatch):
    monkeypatch.setattr(typesetting, "FONT_NAME", "No Such Font")
    with pytest.raises(typesetting.TypesettingFailed, match="unknown font family"):
        paper.invoice_pdf(prepaid(), language="en")


def test_a_code_to_scan_is_the_same_picture_every_time():
    assert qr.svg("https://example.com/") == qr.svg("https://example.com/")
    assert qr.svg("https://example.com/").startswith("<svg ")


# --- long ones ---


def test_up_to_250_lines_stand_on_the_paper_itself():
    shown = pages(paper.invoice_pdf(used(factories.organization(), machines=250), language="en"))

    assert "Annex" not in "".join(shown)
    assert "train-1249" in "".join(shown)


def test_251_lines_are_summed_up_first_and_whole_in_the_annex():
    shown = pages(paper.invoice_pdf(used(factories.organization(), machines=251), language="en"))

    assert "251 lines, see the annex" in shown[0]
    assert "¥19,465.05" in shown[0]
    assert "Annex: all lines" in shown[1]
    annex = "".join(shown[1:])
    assert all(f"train-1{machine} ·" in annex for machine in range(1, 251))
    for number, page in enumerate(shown, start=1):
        assert f"Page {number} of {len(shown)}" in page
    assert all("Arithmetic" in page for page in shown)


# --- the download ---


def test_it_is_downloaded_from_the_invoices_page(client):
    organization = factories.organization()
    invoice = prepaid(organization)
    signed_in(client, organization)
    address = reverse("billing:invoice_pdf", args=[invoice.key])
    assert f'href="{address}"' in client.get(reverse("billing:invoice", args=[invoice.key])).text

    answer = client.get(address)

    assert answer["Content-Type"] == "application/pdf"
    assert answer["Content-Disposition"] == f'attachment; filename="{invoice.number}.pdf"'
    assert answer.content == paper.invoice_pdf(invoice, language="zh-hans")
    with translation.override("en"):
        english = reverse("billing:invoice_pdf", args=[invoice.key])
    assert client.get(english).content == paper.invoice_pdf(invoice, language="en")


def test_somebody_elses_is_not_found(client):
    invoice = prepaid()
    signed_in(client, factories.organization())

    assert client.get(reverse("billing:invoice_pdf", args=[invoice.key])).status_code == 404


def test_a_refusal_is_told_on_the_invoices_page(client):
    organization = factories.organization(name="𠮷野家")
    invoice = prepaid(organization)
    signed_in(client, organization)

    answer = client.get(reverse("billing:invoice_pdf", args=[invoice.key]), follow=True)

    assert answer.redirect_chain[0][0] == reverse("billing:invoice", args=[invoice.key])
    assert "U+20BB7" in answer.text


def test_finance_takes_it_from_the_desk(admin_client):
    invoice = prepaid()

    answer = admin_client.post(reverse("admin:billing_invoice_press", args=[invoice.pk, "download_pdf"]))

    assert answer.content == paper.invoice_pdf(invoice, language="zh-hans")
