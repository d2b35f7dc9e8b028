"""The buyer's tax profile: what is refused and where the message stands, and the copy on an invoice."""

import pytest
from django.db import IntegrityError, transaction
from django.urls import reverse

from billing import actions, tax
from billing.models import TaxProfile
from tests import factories
from tests.billing import builders
from tests.factories import NOON

COMPANY = {
    "kind": "company", "title": "福建某某智算有限公司（福州）", "tax_id": "91350100MA00000155",
    "address": "福州市鼓楼区软件大道89号", "phone": "0591-12345678", "bank": "兴业银行福州分行",
    "bank_account": "1170 1010 0100 1234 56", "email": "tax@example.com",
}  # fmt: skip
FOREIGN = {"kind": "foreign", "country": "DE", "title": "Møller GmbH", "tax_id": "DE136695976"}


def problems(**changed):
    """Fields that are complained about."""
    try:
        tax.checked(COMPANY | changed)
    except tax.TaxProfileInvalid as refusal:
        return sorted(refusal.problems)
    return []


# --- the rules, by GB 32100-2015 and the bureau's limits ---


@pytest.mark.parametrize(
    "code",
    ["91110000600037341L", "9144030071526726XG", "91350100MA00000155", "91370100MA0000A27D", "12110000400000018T",
     "92330100MA00000T4G"],
)  # fmt: skip
def test_a_real_credit_code_is_taken(code):
    assert tax.is_credit_code(code)
    assert problems(tax_id=code) == []


@pytest.mark.parametrize(
    "code",
    ["91110000600037341M", "91110000600037341", "9111000060003734IL", "91110000600037314L", "", "91110000600037341LL"],
)
def test_a_wrong_credit_code_is_refused(code):
    assert not tax.is_credit_code(code)
    assert problems(tax_id=code) == ["tax_id"]


def test_letters_may_stand_among_the_first_eight():
    """The standard allows them; python-stdnum's own check does not."""
    from stdnum.cn import uscc  # noqa: PLC0415

    start = "9N350100MA0000015"
    assert tax.is_credit_code(start + uscc.calc_check_digit(start))
    assert not uscc.is_valid(start + uscc.calc_check_digit(start))


def test_numbers_are_tidied_and_full_width_brackets_kept():
    kept = tax.checked(COMPANY | {"tax_id": " 9135 0100-ma00000155 ", "title": "  福建 （福州）  公司 "})

    assert kept["tax_id"] == "91350100MA00000155"
    assert kept["title"] == "福建 （福州） 公司"
    assert kept["country"] == "CN"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", ""), ("title", "   "), ("title", "智算<b>"), ("title", "𠮷野家"), ("title", "智算🚀"),
        ("title", "ÜBER"), ("title", "a\u202eb"), ("address", "五一路>1号"), ("phone", "12345"), ("phone", "电话"),
        ("email", "nobody"),
        ("bank_account", "第一账户"), ("bank_account", "12"), ("kind", "ghost"), ("bank", "🏦"),
    ],
)  # fmt: skip
def test_each_problem_stands_beside_its_field(field, value):
    assert problems(**{field: value}) == [field]


def test_length_is_counted_in_bytes_of_gbk():
    assert problems(title="福" * 50) == []
    assert problems(title="福" * 50 + "a") == ["title"]
    # Eleven digits and the blank between leave 88 bytes.
    assert problems(address="福" * 44, phone="13800138000") == []
    assert problems(address="福" * 44 + "a", phone="13800138000") == ["address"]
    assert problems(bank="福" * 44, bank_account="12345678901") == []
    assert problems(bank="福" * 45, bank_account="12345678901") == ["bank"]


def test_bank_and_account_come_together():
    assert problems(bank="") == ["bank"]
    assert problems(bank_account="") == ["bank_account"]
    assert problems(bank="", bank_account="") == []


def test_every_problem_is_told_at_once():
    assert problems(title="", tax_id="x", phone="1", email="y") == ["email", "phone", "tax_id", "title"]


def test_a_person_needs_no_number_but_a_given_one_must_be_right():
    assert problems(kind="individual", tax_id="") == []
    assert problems(kind="individual", tax_id="11010519491231002X") == []
    assert problems(kind="individual", tax_id="110105194912310021") == ["tax_id"]


@pytest.mark.parametrize(
    ("country", "number", "fine"),
    [("DE", "DE136695976", True), ("DE", "DE136695978", False), ("GB", "980780684", True), ("GB", "802311781", False),
     ("HK", "12345678", True), ("US", "", True), ("HK", "AB/12", False)],
)  # fmt: skip
def test_a_number_abroad_follows_its_countrys_rule(country, number, fine):
    assert problems(**FOREIGN | {"country": country, "tax_id": number}) == ([] if fine else ["tax_id"])


def test_a_name_abroad_may_have_letters_that_gbk_has_not():
    assert tax.checked(COMPANY | FOREIGN)["title"] == "Møller GmbH"
    assert problems(**FOREIGN | {"country": "CN"}) == ["country"]
    assert problems(**FOREIGN | {"country": ""}) == ["country"]


# --- the actions ---


@pytest.mark.django_db
def test_it_is_kept_and_copied_onto_documents():
    organization = factories.organization()
    actions.save_tax_profile(organization=organization, entered=COMPANY, actor=None, at=NOON)

    invoice = actions.draft_order_invoice(order=builders.order(organization), at=builders.NOVEMBER)
    invoice.refresh_from_db()
    assert {name: invoice.buyer[name] for name in tax.FIELDS} == COMPANY | {"country": "CN"}


@pytest.mark.django_db
def test_a_refusal_keeps_what_was_there():
    organization = factories.organization()
    actions.save_tax_profile(organization=organization, entered=COMPANY, actor=None, at=NOON)

    with pytest.raises(tax.TaxProfileInvalid):
        actions.save_tax_profile(organization=organization, entered=COMPANY | {"tax_id": "1"}, actor=None, at=NOON)

    assert TaxProfile.objects.get().tax_id == "91350100MA00000155"


@pytest.mark.django_db
def test_changes_are_recorded_and_saving_the_same_is_none():
    organization = factories.organization()
    profile = actions.save_tax_profile(organization=organization, entered=COMPANY, actor=None, at=NOON)
    actions.save_tax_profile(organization=organization, entered=COMPANY, actor=None, at=NOON)
    actions.save_tax_profile(organization=organization, entered=COMPANY | {"title": "新名"}, actor=None, at=NOON)

    assert list(profile.events.order_by("pgh_id").values_list("title", flat=True)) == [COMPANY["title"], "新名"]


@pytest.mark.django_db
def test_a_seat_abroad_is_confirmed_by_finance_and_a_change_takes_that_back():
    organization, finance = factories.organization(), factories.user()
    profile = actions.save_tax_profile(organization=organization, entered=FOREIGN, actor=None, at=NOON)
    actions.confirm_export(profile=profile, actor=finance, at=NOON)
    profile.refresh_from_db()
    assert (profile.export_confirmed_at, profile.export_confirmed_by) == (NOON, finance)
    organization.refresh_from_db()
    assert organization.is_export

    actions.save_tax_profile(organization=organization, entered=FOREIGN | {"title": "Other"}, actor=None, at=NOON)

    profile.refresh_from_db()
    organization.refresh_from_db()
    assert profile.export_confirmed_at is None
    assert not organization.is_export


@pytest.mark.django_db
def test_a_buyer_in_china_is_no_export():
    profile = actions.save_tax_profile(organization=factories.organization(), entered=COMPANY, actor=None, at=NOON)

    with pytest.raises(actions.ExportNotConfirmed):
        actions.confirm_export(profile=profile, actor=factories.user(), at=NOON)
    with pytest.raises(IntegrityError), transaction.atomic():
        TaxProfile.objects.update(export_confirmed_at=NOON)


# --- the page ---


@pytest.fixture
def page(client, db):
    """(client of a finance member, its organization, the address)."""
    organization = factories.organization()
    client.force_login(factories.member(organization, "finance"), backend="django.contrib.auth.backends.ModelBackend")
    return client, organization, reverse("billing:tax_profile")


def test_finance_fills_it_in(page):
    client, organization, address = page
    assert f'value="{organization.name}"' in client.get(address).text

    answer = client.post(address, COMPANY)

    assert answer.status_code == 302
    profile = organization.tax_profile
    assert {name: getattr(profile, name) for name in COMPANY} == COMPANY
    assert profile.updated_by.memberships.get().role == "finance"
    assert "91350100MA00000155" in client.get(address).text


def test_mistakes_are_told_beside_their_fields_and_nothing_is_saved(page):
    client, _organization, address = page

    answer = client.post(address, COMPANY | {"tax_id": "91350100MA00000156", "title": "𠮷"})

    assert answer.status_code == 422
    assert sorted(answer.context["form"].errors) == ["tax_id", "title"]
    assert "U+20BB7" in answer.text
    assert not TaxProfile.objects.exists()


def test_an_unknown_kind_or_country_is_no_server_error(page):
    client, _organization, address = page

    assert client.post(address, COMPANY | {"kind": "x", "country": "../"}).status_code == 422
    assert client.post(address, {}).status_code == 422


def test_a_viewer_reads_and_an_engineer_does_not(page):
    client, organization, address = page
    client.post(address, COMPANY)
    client.force_login(factories.member(organization, "viewer"), backend="django.contrib.auth.backends.ModelBackend")
    shown = client.get(address)
    assert COMPANY["title"] in shown.text
    assert 'name="title"' not in shown.text
    assert client.post(address, COMPANY | {"title": "x"}).status_code == 403

    client.force_login(factories.member(organization), backend="django.contrib.auth.backends.ModelBackend")
    assert client.get(address).status_code == 403
    assert TaxProfile.objects.get().title == COMPANY["title"]
