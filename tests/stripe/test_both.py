"""What must hold at Stripe itself too: run against the sandbox here, and against test mode by `make test-stripe`.

Names and keys are new every time, nothing counts what others left behind, and no clock is moved.
"""

import os
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import stripe

from billing import stripe_gateway as gw
from tests.stripe.conftest import point_at, sandbox_server

pytestmark = pytest.mark.stripe

# Both are needed: a developer's own key in the environment shall not send the ordinary suite out.
SECRET = os.environ.get("STRIPE_SECRET_KEY", "") if os.environ.get("STRIPE_TEST_MODE") else ""
START, END = datetime(2026, 10, 31, 16, tzinfo=UTC), datetime(2026, 11, 30, 16, tzinfo=UTC)
TEST_MODE = ("sk_test_", "rk_test_")


@pytest.fixture
def api(settings):
    """The SDK; the gateway speaks to the same side."""
    if not SECRET:
        with sandbox_server() as server:
            point_at(settings, server)
            yield services(settings)
            assert server.take_violations() == []
        return
    assert SECRET.startswith(TEST_MODE), "STRIPE_SECRET_KEY is not a key of test mode"
    settings.STRIPE_API_KEY, settings.STRIPE_API_BASE, settings.STRIPE_TIMEOUT = SECRET, "https://api.stripe.com", 30
    yield services(settings)


def services(settings):
    key, base = settings.STRIPE_API_KEY, settings.STRIPE_API_BASE
    return stripe.StripeClient(key, base_addresses={"api": base}, max_network_retries=2).v1


@pytest.fixture
def run():
    """A name that nobody has used before."""
    return uuid.uuid4().hex


@pytest.fixture
def customer(api, run):
    return gw.ensure_customer(key=run, name="甲公司", email=f"{run}@example.com")


@pytest.fixture
def invoice(api, run, customer):
    """Two lines, 6 % inside: 12,445.67 yuan."""
    rate = gw.ensure_tax_rate(percent=Decimal(6), inclusive=True, country="CN", display_name="增值税 VAT")
    lines = (
        gw.LineDraft(f"{run}-1", 1_200_000, "RTX 4090 × 2", START, END, rate),
        gw.LineDraft(f"{run}-2", 44_567, "磁盘", START, END, rate),
    )
    draft = gw.InvoiceDraft(
        uuid=run, version=1, customer=customer, currency="CNY", number=f"T-{run[:20]}", days_until_due=15, lines=lines
    )
    return gw.push_invoice(draft, look_up=False)


def soon():
    return datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)


def card(api, customer, token="pm_card_visa"):
    return api.payment_methods.attach(token, {"customer": customer}).id


def charge(customer, method, key, amount=20_000):
    return gw.charge_saved(
        topup_key=key, version=1, amount=amount, currency="CNY", customer=customer, payment_method=method,
        description="top-up",
    )  # fmt: skip


def test_a_pushed_invoice_is_open_over_our_total(run, customer, invoice):
    assert (invoice.status, invoice.total, invoice.amount_remaining, invoice.currency) == (
        "open", 1_244_567, 1_244_567, "CNY",
    )  # fmt: skip
    assert invoice.hosted_invoice_url.startswith("http")
    assert gw.find_invoice(customer=customer, invoice_uuid=run).id == invoice.id
    assert {line.line_uuid: line.amount for line in gw.list_lines(invoice_id=invoice.id)} == {
        f"{run}-1": 1_200_000,
        f"{run}-2": 44_567,
    }


def test_a_key_repeats_its_answer_and_nothing_else(api, run):
    params, options = {"email": f"{run}@example.com", "name": "甲"}, {"idempotency_key": f"test:{run}"}
    first = api.customers.create(params, options)

    assert api.customers.create(params, options).id == first.id
    with pytest.raises(stripe.IdempotencyError):
        api.customers.create(params | {"name": "乙"}, options)


def test_a_void_invoice_stays_void(run, invoice):
    named = {"invoice_id": invoice.id, "invoice_uuid": run, "version": 1}

    assert [gw.void_invoice(**named).status for _ in range(2)] == ["void", "void"]


def test_an_invoice_is_given_up_and_paid_out_of_band(run, invoice):
    named = {"invoice_id": invoice.id, "invoice_uuid": run, "version": 1}

    assert gw.mark_uncollectible(**named).status == "uncollectible"
    assert gw.pay_out_of_band(**named).status == "paid"


def test_money_from_outside_lowers_what_remains_once(customer, invoice):
    facts = {
        "invoice_id": invoice.id, "payment_key": f"bank:{invoice.id}", "version": 1, "amount": 400_000,
        "currency": "CNY", "customer": customer, "reference": "ICBC-1", "method": "bank transfer",
        "received_at": datetime.now(UTC) - timedelta(hours=1),
    }  # fmt: skip
    for _ in range(2):
        after = gw.report_partial_payment(**facts)

    assert (after.status, after.amount_remaining) == ("open", 844_567)
    assert [record.amount for record in gw.attached_records(invoice_id=invoice.id)] == [400_000]
    assert [payment for payment in gw.list_payments(invoice_id=invoice.id) if payment.status == "paid"] == []


def test_a_credit_note_lowers_what_is_due(run, invoice):
    line = gw.list_lines(invoice_id=invoice.id)[0]

    note = gw.create_credit_note(
        invoice_id=invoice.id, note_key=run, version=1, lines=[gw.CreditLine(line.id, 44_567)], memo="CN-1"
    )

    assert (note.amount, note.pre_payment_amount, note.post_payment_amount) == (44_567, 44_567, 0)
    assert gw.retrieve_invoice(invoice_id=invoice.id).amount_remaining == 1_200_000
    assert gw.find_credit_note(invoice_id=invoice.id, note_key=run).id == note.id


def test_after_payment_a_credit_note_says_where_the_money_went(api, run, customer, invoice):
    paid = api.invoices.pay(invoice.id, {"payment_method": card(api, customer)})
    assert paid.status == "paid"
    line = gw.list_lines(invoice_id=invoice.id)[0]
    facts = {"invoice_id": invoice.id, "version": 1, "lines": [gw.CreditLine(line.id, 5_000)], "memo": "CN"}
    with pytest.raises(gw.Refused):
        gw.create_credit_note(note_key=f"{run}-a", **facts)

    outside = gw.create_credit_note(note_key=f"{run}-b", out_of_band=5_000, **facts)
    (payment,) = gw.list_payments(invoice_id=invoice.id)
    back = gw.create_refund(payment_intent=payment.payment_intent, amount=5_000, refund_key=run, version=1)
    inside = gw.create_credit_note(note_key=f"{run}-c", refunds=[(back.id, 5_000)], **facts)

    assert (outside.out_of_band_amount, outside.post_payment_amount) == (5_000, 5_000)
    assert inside.post_payment_amount == 5_000


def test_a_saved_card_is_charged_once_and_refunded(api, run, customer):
    method = card(api, customer)
    first = charge(customer, method, run)
    assert charge(customer, method, run) == first
    assert (first.status, first.amount_received) == ("succeeded", 20_000)

    back = gw.create_refund(payment_intent=first.id, amount=5_000, refund_key=run, version=1)
    with pytest.raises(gw.Refused):
        gw.create_refund(payment_intent=first.id, amount=15_001, refund_key=f"{run}-2", version=1)

    assert back.status in {"pending", "succeeded"}
    assert gw.find_refund(payment_intent=first.id, refund_key=run).id == back.id
    assert [method.id for method in gw.list_saved_methods(customer=customer)] == [method]
    gw.detach_method(payment_method=method)
    assert gw.list_saved_methods(customer=customer) == ()


def test_a_refusing_bank_is_told_apart(api, run, customer):
    method = card(api, customer, "pm_card_chargeCustomerFail")

    with pytest.raises(gw.CardDeclined) as caught:
        charge(customer, method, run)

    assert (caught.value.reason, bool(caught.value.payment_intent)) == ("card_declined", True)
    (intent,) = gw.find_charges(customer=customer, topup_key=run)
    assert intent.status == "requires_payment_method"


def test_a_page_is_opened_found_and_ended(run, customer):
    facts = {
        "topup_key": run, "version": 1, "amount": 50_000, "currency": "CNY", "customer": customer, "methods": ("card",),
        "success_url": "https://example.com/?session={CHECKOUT_SESSION_ID}", "cancel_url": "https://example.com/",
        "expires_at": soon(), "description": "余额充值",
    }  # fmt: skip
    made = gw.create_checkout(**facts)

    assert gw.create_checkout(**facts).id == made.id
    assert (made.status, made.payment_status, made.amount_total, made.client_reference_id) == (
        "open", "unpaid", 50_000, run,
    )  # fmt: skip
    assert [session.id for session in gw.find_checkouts(customer=customer, topup_key=run)] == [made.id]
    assert [gw.expire_checkout(session_id=made.id).status for _ in range(2)] == ["expired", "expired"]


def test_a_page_that_keeps_a_card_takes_nothing(run, customer):
    made = gw.create_setup_checkout(
        setup_key=run, version=1, currency="CNY", customer=customer, success_url="https://example.com/",
        cancel_url="https://example.com/", expires_at=soon(),
    )  # fmt: skip

    assert (made.mode, made.payment_status, made.amount_total) == ("setup", "no_payment_required", 0)


def test_what_stripe_does_not_have_is_a_refusal(api):
    for look_up in (
        lambda: gw.retrieve_invoice(invoice_id="in_doesnotexist"),
        lambda: gw.retrieve_refund(refund_id="re_doesnotexist"),
        lambda: gw.retrieve_checkout(session_id="cs_test_doesnotexist"),
        lambda: gw.retrieve_dispute(dispute_id="dp_doesnotexist"),
    ):
        with pytest.raises(gw.Refused) as caught:
            look_up()
        assert caught.value.reason == "resource_missing"
