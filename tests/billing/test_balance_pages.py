"""The pages of the balance: who sees, who pays, what a refusal looks like."""

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation

from billing import actions, ledger
from billing.models import Book, ReceivingAccount, TopUp, TransferSlip
from billing.remarks import remark_code
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, order, rental, used

pytestmark = pytest.mark.django_db(transaction=True)

PAGES = ("billing:balance", "billing:top_up", "billing:transfer", "billing:voucher")


@pytest.fixture(autouse=True)
def _surroundings(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path
    with translation.override("en"):
        yield


@pytest.fixture
def lab():
    return factories.organization()


@pytest.fixture
def owner(client, lab):
    client.force_login(lab.memberships.get().user)
    return client


def pay_in(of, amount, intent="pi_1"):
    top_up = actions.begin_top_up(organization=of, amount_minor=amount, request_key=intent, at=NOVEMBER)
    actions.record_top_up(
        top_up_id=top_up.pk, payment_intent=intent, amount_minor=amount, currency=of.currency, at=NOVEMBER
    )


def balance(of):
    return ledger.balance(actions.account_of(organization=of), Book.WALLET)


def test_the_balance_shows_what_there_is_and_every_movement(owner, lab):
    pay_in(lab, 123_456)
    actions.grant_gift(organization=lab, amount_minor=5_000, reason="Welcome", request_key="g", at=NOVEMBER)

    page = owner.get(reverse("billing:balance")).text

    for text in ("¥1,234.56", "¥50.00", "Paid in online", "Welcome", "nothing runs"):
        assert text in page


def test_it_takes_as_many_queries_for_many_movements(owner, lab):
    pay_in(lab, 1_000, "pi_0")
    owner.get(reverse("billing:balance"))
    with CaptureQueriesContext(connection) as one:
        owner.get(reverse("billing:balance"))
    for number in range(1, 4):
        pay_in(lab, 1_000, f"pi_{number}")
    with CaptureQueriesContext(connection) as many:
        owner.get(reverse("billing:balance"))

    assert len(many) == len(one)


@pytest.mark.parametrize(("role", "sees", "pays"), [
    ("admin", 200, True), ("finance", 200, True), ("viewer", 200, False), ("engineer", 403, False),
])  # fmt: skip
def test_who_sees_and_who_pays(client, lab, role, sees, pays):
    client.force_login(factories.member(lab, role))

    assert {client.get(reverse(name)).status_code for name in PAGES} == {sees}
    answer = client.post(reverse("billing:voucher"), {"code": "ABCD"})
    assert answer.status_code == (422 if pays else 403)
    assert client.post(reverse("billing:top_up"), {"amount": "x"}).status_code == (422 if pays else 403)
    assert not TopUp.objects.exists()


def test_a_top_up_goes_to_the_payment_page_and_back(owner, lab, sandbox):
    form = owner.get(reverse("billing:top_up")).text
    key = re.search(r'name="request_key" value="([^"]+)"', form)[1]

    answers = [owner.post(reverse("billing:top_up"), {"amount": "500", "request_key": key}) for _press in range(2)]

    made = TopUp.objects.get()
    assert [(answer.status_code, answer.url) for answer in answers] == [(302, made.checkout_url)] * 2
    done = reverse("billing:top_up_done", args=[made.key])
    assert "We are waiting" in owner.get(done).text
    sandbox.pay_checkout(made.stripe_session_id, method="wechat_pay")
    page = owner.get(done).text
    assert "is in your balance" in page
    assert "hx-get" not in page.split('id="top-up"')[1].split(">")[0]
    assert balance(lab) == 50_000


@pytest.mark.parametrize("amount", ["", "0", "3.99", "1000000", "12.345", "abc", "-5"])
def test_an_amount_that_cannot_be_is_said_beside_the_field(owner, amount):
    answer = owner.post(
        reverse("billing:top_up"), {"amount": amount, "request_key": "8a4d9d0e-3f0b-4a35-9d3b-2a55ad1b7a11"}
    )

    assert answer.status_code == 422
    assert "data-invalid" in answer.text
    assert not TopUp.objects.exists()


def test_without_stripe_nothing_is_charged_and_the_form_stays(owner):
    answer = owner.post(
        reverse("billing:top_up"), {"amount": "500", "request_key": "8a4d9d0e-3f0b-4a35-9d3b-2a55ad1b7a11"}
    )

    assert answer.status_code == 503
    assert "Nothing was charged" in answer.text
    assert TopUp.objects.get().status == "created"


def test_wrong_codes_are_counted(owner, settings):
    settings.VOUCHER_TRIES_PER_HOUR = 3

    answers = [owner.post(reverse("billing:voucher"), {"code": f"WRONG{n}"}).status_code for n in range(4)]

    assert answers == [422, 422, 422, 429]


def test_a_voucher_is_redeemed(owner, lab):
    (voucher,) = actions.create_vouchers(
        count=1, amount_minor=700, currency="CNY", reason="Fair", valid_until=timezone.now() + HOUR, at=timezone.now()
    )

    page = owner.post(reverse("billing:voucher"), {"code": voucher.code.lower()}, follow=True)

    assert "¥7.00" in page.text
    assert "Fair" in page.text


def test_a_transfer_shows_the_account_and_takes_a_slip(owner, lab):
    ReceivingAccount.objects.create(currency="CNY", holder="福州算力", bank="工商银行", number="1402 0001")
    ReceivingAccount.objects.create(currency="USD", holder="x", bank="Bank of Dollars", number="9")
    fields = {"amount": "1000.50", "payer": "福州智算", "sent_on": "2026-11-01"}

    page = owner.get(reverse("billing:transfer")).text
    assert remark_code(lab.billing_account) in page
    assert "1402 0001" in page
    assert "Bank of Dollars" not in page
    wrong = owner.post(reverse("billing:transfer"), {**fields, "file": SimpleUploadedFile("a.pdf", b"<html>")})
    assert wrong.status_code == 422
    assert "PDF, PNG or JPEG" in wrong.text
    right = owner.post(reverse("billing:transfer"), {**fields, "file": SimpleUploadedFile("a.exe", b"%PDF-1.7")})
    assert right.status_code == 302
    made = TransferSlip.objects.get()
    assert (made.amount_minor, balance(lab)) == (100_050, 0)
    download = owner.get(reverse("billing:slip", args=[made.key]))
    assert b"".join(download.streaming_content) == b"%PDF-1.7"
    assert download["Content-Disposition"].startswith("attachment;")
    assert "Submitted" in owner.get(reverse("billing:transfer")).text


def test_an_invoice_is_paid_from_the_balance_by_its_button(client):
    machine = rental()
    used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)
    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    client.force_login(machine.organization.memberships.get().user)
    page, button = reverse("billing:invoice", args=[invoice.key]), reverse("billing:balance_pay", args=[invoice.key])

    assert button not in client.get(page).text
    assert "comes to" not in client.post(button, follow=True).text
    pay_in(machine.organization, 5_000)
    assert button in client.get(page).text
    client.post(button)

    invoice.refresh_from_db()
    assert (invoice.status, balance(machine.organization)) == ("paid", 4_000)
    assert button not in client.get(page).text


def test_an_order_is_paid_from_the_balance_by_its_button(client):
    made = order(at=timezone.now())
    client.force_login(made.organization.memberships.get().user)
    page, button = reverse("orders:detail", args=[made.key]), reverse("billing:order_balance_pay", args=[made.key])
    pay_in(made.organization, 127_999)
    assert button not in client.get(page).text
    pay_in(made.organization, 500, "pi_2")

    assert button in client.get(page).text
    client.post(button)

    made.refresh_from_db()
    assert (made.status, balance(made.organization)) == ("confirmed", 499)
