"""Our side: plain values, typed errors, keys from facts."""

import json
import logging
import pickle
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import stripe

from billing import stripe_gateway as gw
from tests.stripe.conftest import KEY, SECRET, point_at

START, END = datetime(2026, 10, 31, 16, tzinfo=UTC), datetime(2026, 11, 30, 16, tzinfo=UTC)
UUID = "6f1c8a52-3d0c-4a0b-9a53-3b6f6c1f0001"
LINE = "0b0f4c7e-9d2e-4d0c-8a75-5a0c5b4f0001"
HOUR = 3600


@pytest.fixture
def customer(gateway):
    return gateway.ensure_customer(key="org-1", name="甲公司", email="a@example.cn")


def draft(customer, **changes):
    facts = {"invoice_uuid": UUID, "version": 1, "customer": customer, "currency": "CNY", "number": "INV-1",
             "days_until_due": 15}  # fmt: skip
    return gw.create_draft_invoice(**facts | changes)


def line(invoice, **changes):
    facts = {
        "invoice_id": invoice.id, "invoice_uuid": UUID, "version": 1, "line_uuid": LINE, "customer": invoice.customer,
        "currency": "CNY", "amount": 5000, "description": "RTX 4090 × 2", "start": START, "end": END,
    }  # fmt: skip
    gw.add_line(**facts | changes)


def opened(customer):
    invoice = draft(customer)
    line(invoice)
    return gw.finalize(invoice_id=invoice.id, invoice_uuid=UUID, version=1)


def named(invoice):
    return {"invoice_id": invoice.id, "invoice_uuid": UUID, "version": 1}


def test_a_customer_is_made_once_and_found_again_after_its_key_expired(gateway, sandbox):
    facts = {"key": "org-1", "name": "甲公司", "email": "a@example.cn", "metadata": {"currency": "CNY"}}
    first = gateway.ensure_customer(**facts)
    sandbox.advance_clock(30 * HOUR)

    assert gateway.ensure_customer(**facts) == gateway.ensure_customer(**facts | {"name": "改名公司"}) == first
    (customer,) = sandbox.objects("customer")
    assert customer["metadata"] == {"currency": "CNY", "customer_key": "org-1"}


def test_two_organizations_with_one_mailbox_are_two_customers(gateway):
    first = gateway.ensure_customer(key="org-1", name="甲", email="a@example.cn")

    assert gateway.ensure_customer(key="org-2", name="甲", email="a@example.cn") != first


def test_a_tax_rate_is_made_once_and_found_again(gateway, sandbox):
    facts = {"inclusive": True, "country": "CN", "display_name": "增值税"}
    first = gateway.ensure_tax_rate(percent=Decimal("6"), **facts)
    sandbox.advance_clock(30 * HOUR)

    assert gateway.ensure_tax_rate(percent=Decimal("6.00"), **facts) == first
    assert gateway.ensure_tax_rate(percent=Decimal("13"), **facts) != first
    assert [rate["percentage"] for rate in sandbox.objects("tax_rate")] == [6, 13]


def test_an_invoice_comes_back_as_plain_values(gateway, sandbox, customer):
    rate = gateway.ensure_tax_rate(percent=Decimal(6), inclusive=True, country="CN", display_name="增值税")
    invoice = draft(customer, metadata={"order": "O-7"})
    line(invoice, tax_rate=rate, metadata={"rental": "r-1"})

    final = gateway.finalize(**named(invoice))

    assert final == gw.StripeInvoice(
        id=invoice.id,
        number="INV-1",
        status="open",
        total=5000,
        amount_due=5000,
        amount_paid=0,
        amount_remaining=5000,
        currency="CNY",
        hosted_invoice_url=sandbox.objects("invoice")[0]["hosted_invoice_url"],
        metadata={"order": "O-7", "invoice_uuid": UUID, "invoice_version": "1"},
        created=invoice.created,
        customer=customer,
    )
    assert type(final.metadata) is dict
    assert pickle.loads(pickle.dumps(final)) == final
    (kept,) = gateway.list_lines(invoice_id=invoice.id)
    assert (kept.line_uuid, kept.amount, kept.currency, kept.description) == (LINE, 5000, "CNY", "RTX 4090 × 2")
    (item,) = sandbox.objects("invoiceitem")
    assert item["period"] == {"start": int(START.timestamp()), "end": int(END.timestamp()) - 1}
    assert item["metadata"] == {"rental": "r-1", "line_uuid": LINE}
    assert sandbox.objects("invoice")[0]["auto_advance"] is False


def test_keys_are_facts(gateway, sandbox, customer):
    invoice = opened(customer)
    gateway.send(**named(invoice))
    gateway.pay_out_of_band(**named(invoice))

    keys = [key for method, _, key in sandbox.requests if method == "POST" and key.startswith("inv:")]
    steps = ["create", f"line:{LINE}", "finalize", "send", "out-of-band"]
    assert keys == [f"inv:{UUID}:v1:{step}" for step in steps]


def test_every_verb_may_be_repeated(gateway, sandbox, customer):
    invoice = opened(customer)
    opened(customer)
    sandbox.advance_clock(30 * HOUR)

    assert gateway.finalize(**named(invoice)).status == "open"
    assert gateway.pay_out_of_band(**named(invoice)).status == "paid"
    sandbox.advance_clock(30 * HOUR)
    assert gateway.pay_out_of_band(**named(invoice)).amount_remaining == 0
    assert len(sandbox.objects("invoice")) == len(sandbox.objects("invoiceitem")) == 1


def test_voiding_may_be_repeated_but_never_a_paid_invoice(gateway, sandbox, customer):
    invoice = opened(customer)
    gateway.void_invoice(**named(invoice))
    sandbox.advance_clock(30 * HOUR)
    assert gateway.void_invoice(**named(invoice)).status == "void"
    paid = draft(customer, invoice_uuid="other", number="INV-2")
    paid = gateway.finalize(invoice_id=paid.id, invoice_uuid="other", version=1)

    with pytest.raises(gw.Refused):
        gateway.void_invoice(invoice_id=paid.id, invoice_uuid="other", version=1)


def test_a_draft_may_be_deleted_twice_and_an_open_invoice_never(gateway, sandbox, customer):
    invoice = draft(customer)
    gateway.delete_draft(invoice_id=invoice.id)
    gateway.delete_draft(invoice_id=invoice.id)
    assert sandbox.objects("invoice") == []
    other = draft(customer, version=2)
    line(other, version=2)
    gateway.finalize(invoice_id=other.id, invoice_uuid=UUID, version=2)

    with pytest.raises(gw.Refused):
        gateway.delete_draft(invoice_id=other.id)

    assert sandbox.objects("invoice")[0]["status"] == "open"


def test_what_an_earlier_attempt_left_is_adopted(gateway, customer):
    assert gateway.adopt(customer=customer, invoice_uuid=UUID) is None
    void = opened(customer)
    gateway.void_invoice(**named(void))
    assert gateway.find_invoice(customer=customer, invoice_uuid=UUID) is None
    draft(customer, invoice_uuid="another", number="INV-2")
    invoice = draft(customer, version=2)
    line(invoice, version=2)

    adopted = gateway.adopt(customer=customer, invoice_uuid=UUID)

    assert (adopted.invoice.id, list(adopted.lines), adopted.lines[LINE].amount) == (invoice.id, [LINE], 5000)


def test_a_look_up_goes_back_no_further_than_the_first_attempt(gateway, sandbox, customer):
    invoice = draft(customer)
    sandbox.advance_clock(30 * HOUR)

    later = invoice.created + timedelta(hours=2)
    assert gateway.find_invoice(customer=customer, invoice_uuid=UUID, since=later) is None
    assert gateway.find_invoice(customer=customer, invoice_uuid=UUID, since=invoice.created).id == invoice.id


def test_two_live_invoices_for_one_of_ours_need_a_person(gateway, customer):
    first, second = draft(customer), draft(customer, version=2, number="INV-1b")

    with pytest.raises(gw.Ambiguous) as caught:
        gateway.find_invoice(customer=customer, invoice_uuid=UUID)

    assert first.id in caught.value.detail
    assert second.id in caught.value.detail


def test_invoices_are_listed_by_the_time_they_were_made(gateway, sandbox, customer):
    made = []
    for number in range(3):
        made.append(draft(customer, invoice_uuid=f"u{number}", number=f"INV-{number}"))
        sandbox.advance_clock(HOUR)

    window = {"created_from": made[0].created, "created_to": made[2].created}

    assert [invoice.id for invoice in gateway.list_invoices(**window)] == [made[1].id, made[0].id]


def test_payments_name_their_intent(gateway, api, customer):
    invoice = opened(customer)
    (waiting,) = gateway.list_payments(invoice_id=invoice.id)
    api.invoices.pay(invoice.id, {"payment_method": "pm_card_visa"})

    (paid,) = gateway.list_payments(invoice_id=invoice.id)

    assert (waiting.status, waiting.amount, waiting.paid_at) == ("open", 5000, None)
    assert (paid.status, paid.amount, paid.currency) == ("paid", 5000, "CNY")
    assert paid.payment_intent.startswith("pi_")
    assert paid.paid_at.tzinfo is UTC


# --- errors -----------------------------------------------------------------------------------------------------
def failing(sandbox, kind, *, times=3, path="/v1/invoices"):
    sandbox.faults.configure({"requests": [{"kind": kind, "times": times, "path": path}]})


@pytest.mark.parametrize(
    ("kind", "error", "stored"),
    [
        ("conflict", gw.Unavailable, None),
        ("limit", gw.Unavailable, None),
        ("drop_before", gw.UnknownOutcome, False),
        ("drop_after", gw.UnknownOutcome, False),
        ("error", gw.UnknownOutcome, True),
        ("error_after", gw.UnknownOutcome, True),
    ],
)
def test_what_a_failed_write_means(gateway, sandbox, customer, kind, error, stored):
    failing(sandbox, kind)

    with pytest.raises(error) as caught:
        draft(customer)

    assert getattr(caught.value, "stored", None) is stored
    assert type(caught.value) is error
    sandbox.faults.configure({"reset": True})
    if not stored:
        assert draft(customer).status == "draft"
    assert len(sandbox.objects("invoice")) == (0 if kind == "error" else 1)


@pytest.mark.parametrize("kind", ["conflict", "limit", "drop_before", "drop_after", "error"])
def test_a_failed_read_is_only_unavailable(gateway, sandbox, customer, kind):
    invoice = draft(customer)
    failing(sandbox, kind)

    with pytest.raises(gw.Unavailable):
        gateway.retrieve_invoice(invoice_id=invoice.id)


def test_a_slow_answer_to_a_write_is_an_unknown_outcome(gateway, sandbox, customer, settings, monkeypatch):
    monkeypatch.setattr("billing.stripe_gateway.client.NETWORK_RETRIES", 0)
    settings.STRIPE_TIMEOUT = 0.05
    sandbox.faults.configure({"requests": [{"kind": "delay", "seconds": 0.15, "path": "/v1/invoices"}]})

    with pytest.raises(gw.UnknownOutcome):
        draft(customer)


def test_a_retry_that_overtakes_its_first_try_is_unavailable_until_that_is_done(gateway, sandbox, customer, settings):
    settings.STRIPE_TIMEOUT = 0.05
    sandbox.faults.configure({"requests": [{"kind": "delay", "seconds": 0.2, "path": "/v1/invoices"}]})

    with pytest.raises(gw.Unavailable):
        draft(customer)
    settings.STRIPE_TIMEOUT = 5
    deadline = time.monotonic() + 5
    while not sandbox.objects("invoice"):
        assert time.monotonic() < deadline
        time.sleep(0.01)

    assert draft(customer).id == sandbox.objects("invoice")[0]["id"]
    assert len(sandbox.objects("invoice")) == 1


@pytest.mark.parametrize("kind", ["drop_after", "error_after"])
def test_an_unclear_answer_is_settled_by_looking(gateway, sandbox, customer, kind):
    invoice = draft(customer)
    line(invoice)
    failing(sandbox, kind, path=f"/v1/invoices/{invoice.id}/finalize")

    assert gateway.finalize(**named(invoice)).status == "open"


def test_an_unclear_answer_to_something_that_did_not_happen_stays_unclear(gateway, sandbox, customer):
    invoice = draft(customer)
    line(invoice)
    failing(sandbox, "error", path=f"/v1/invoices/{invoice.id}/finalize")

    with pytest.raises(gw.UnknownOutcome):
        gateway.finalize(**named(invoice))
    sandbox.faults.configure({"reset": True})
    with pytest.raises(gw.UnknownOutcome) as caught:
        gateway.finalize(**named(invoice))

    assert caught.value.stored
    assert gateway.finalize(invoice_id=invoice.id, invoice_uuid=UUID, version=2).status == "open"


def test_a_page_in_a_hurry_tries_once(gateway, sandbox, customer):
    sandbox.requests.clear()
    failing(sandbox, "drop_before")

    with gateway.hurried(3), pytest.raises(gw.UnknownOutcome):
        draft(customer)
    assert len(sandbox.requests) == 1

    sandbox.faults.configure({"reset": True})
    failing(sandbox, "drop_before", times=2)
    assert draft(customer).status == "draft"
    assert len(sandbox.requests) == 4


def test_a_server_that_is_not_there(gateway, settings):
    settings.STRIPE_API_BASE = "http://127.0.0.1:9"

    with pytest.raises(gw.Unavailable):
        gateway.retrieve_invoice(invoice_id="in_1")
    with pytest.raises(gw.UnknownOutcome):
        draft("cus_1")


def test_a_refusal_carries_stripes_reason(gateway, customer):
    invoice = opened(customer)

    with pytest.raises(gw.Refused) as caught:
        line(invoice, line_uuid="late")

    assert (caught.value.code, caught.value.reason) == ("payment_request_refused", "invoice_not_editable")
    with pytest.raises(gw.Refused) as caught:
        gateway.retrieve_invoice(invoice_id="in_none")
    assert (caught.value.reason, caught.value.http_status) == ("resource_missing", 404)


def test_a_fact_that_changed_under_its_key_is_told_apart(gateway, sandbox, customer):
    draft(customer)

    with pytest.raises(gw.KeyReused):
        draft(customer, days_until_due=30)

    assert len(sandbox.objects("invoice")) == 1


@pytest.mark.parametrize("key", ["sk_test_wrong_key_that_nobody_may_read", ""])
def test_a_bad_key_never_shows(gateway, settings, key, caplog):
    settings.STRIPE_API_KEY = key
    caplog.set_level(logging.DEBUG)

    with pytest.raises(gw.AuthFailed) as caught:
        gateway.retrieve_invoice(invoice_id="in_1")

    told = f"{caught.value} {caught.value.message} {caught.value.detail} {caplog.text}"
    assert "nobody_may_read" not in told
    assert caught.value.__cause__ is None


def test_customers_read_no_internals():
    for error in (gw.Unavailable("x"), gw.UnknownOutcome("x"), gw.Refused("x"), gw.AuthFailed("x"), gw.KeyReused("x")):
        assert "x" not in str(error.message).split()
        assert str(error) == f"{error.code}: x"


# --- webhooks -----------------------------------------------------------------------------------------------------
BODY = {
    "id": "evt_1", "object": "event", "type": "invoice.paid", "created": 1795000000, "livemode": False,
    "data": {"object": {"id": "in_1", "object": "invoice", "status": "paid"}},
}  # fmt: skip


@pytest.fixture
def signing(settings):
    settings.STRIPE_WEBHOOK_SECRET = SECRET


def sign(payload, secret=SECRET, at=None):
    return stripe.WebhookSignature.generate_signature_header(payload.decode(), secret, at)


def test_a_signed_event_is_a_plain_fact(signing):
    payload = json.dumps(BODY).encode()

    event = gw.construct_event(payload=payload, signature=sign(payload))

    assert (event.id, event.type, event.object_id, event.object_type, event.livemode) == (
        "evt_1",
        "invoice.paid",
        "in_1",
        "invoice",
        False,
    )
    assert event.created == datetime.fromtimestamp(1795000000, UTC)
    assert (event.payload, event.subject_id) == (BODY, "in_1")


def test_an_invoice_payment_names_its_invoice(signing):
    inner = {"id": "inpay_1", "object": "invoice_payment", "invoice": "in_7"}
    payload = json.dumps(BODY | {"type": "invoice_payment.paid", "data": {"object": inner}}).encode()

    assert gw.construct_event(payload=payload, signature=sign(payload)).subject_id == "in_7"


@pytest.mark.parametrize(
    ("payload", "signature"),
    [
        (b"{}", ""),
        (b"{}", "nonsense"),
        (b"{}", "t=1,v1=ü"),
        (b"{}", sign(b"{}", "whsec_forged")),
        (b"{}", sign(b"{}", SECRET, 1_000_000_000)),
        (b'{"a": 1}', sign(b"{}")),
        (b"{}", sign(b"{}")),
        (b"[1]", sign(b"[1]")),
        (b"no json", sign(b"no json")),
        (b"\xff\xfe", "t=1,v1=00"),
    ],
    ids=["none", "nonsense", "not-ascii", "forged", "old", "changed", "empty", "list", "text", "bytes"],
)
def test_what_stripe_did_not_sign_is_refused(signing, payload, signature):
    with pytest.raises(gw.BadSignature):
        gw.construct_event(payload=payload, signature=signature)


def test_without_a_secret_nothing_verifies(settings):
    settings.STRIPE_WEBHOOK_SECRET = ""
    payload = json.dumps(BODY).encode()

    with pytest.raises(gw.BadSignature):
        gw.construct_event(payload=payload, signature=sign(payload, " "))


def test_the_sandboxes_own_webhooks_verify(notifying, receiver, settings):
    point_at(settings, notifying)
    made = gw.ensure_customer(key="org-1", name="甲", email="a@example.cn")
    notifying.flush_webhooks()

    event = gw.construct_event(payload=receiver.bodies[0], signature=receiver.signatures[0])

    assert (event.type, event.object_id, KEY in json.dumps(event.payload)) == ("customer.created", made, False)
