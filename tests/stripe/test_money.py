"""Saved cards, refunds, credit notes, disputes and money from outside: gateway and sandbox together."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import stripe

from billing import stripe_gateway as gw
from tests.stripe.conftest import open_invoice, post

KEY = "5b0c2f9e-1c55-4f63-8a0d-000000000002"
DAY = 24 * 3600


def types(sandbox):
    return [event["type"] for event in sandbox.objects("event")]


@pytest.fixture
def customer(gateway):
    return gateway.ensure_customer(key="org-1", name="甲公司", email="a@example.cn")


# --- saved methods -------------------------------------------------------------------------------------------
def charge(customer, method, **changes):
    facts = {"topup_key": KEY, "version": 1, "amount": 20_000, "currency": "CNY", "customer": customer,
             "payment_method": method, "description": "自动充值"}  # fmt: skip
    return gw.charge_saved(**facts | changes)


def test_a_saved_card_is_charged_once_a_version(gateway, sandbox, customer):
    method = sandbox.attach_method(customer)

    first, second = charge(customer, method), charge(customer, method)

    assert first == second
    assert (first.status, first.amount_received, first.topup_key, first.payment_method) == (
        "succeeded", 20_000, KEY, method,
    )  # fmt: skip
    assert gateway.find_charges(customer=customer, topup_key=KEY) == (first,)
    assert len(sandbox.objects("charge")) == 1


@pytest.mark.parametrize(
    ("token", "reason", "decline_code"),
    [
        ("pm_card_chargeCustomerFail", "card_declined", "generic_decline"),
        ("pm_card_authenticationRequired", "authentication_required", "authentication_required"),
    ],
)
def test_a_refusing_bank_is_told_apart(gateway, sandbox, customer, token, reason, decline_code):
    method = sandbox.attach_method(customer, token=token)

    for _ in range(2):
        with pytest.raises(gw.CardDeclined) as caught:
            charge(customer, method)
        assert (caught.value.reason, caught.value.decline_code) == (reason, decline_code)

    (intent,) = gateway.find_charges(customer=customer, topup_key=KEY)
    assert (intent.id, intent.status, intent.failure_code) == (
        caught.value.payment_intent, "requires_payment_method", decline_code,
    )  # fmt: skip
    assert types(sandbox)[-2:] == ["charge.failed", "payment_intent.payment_failed"]


def test_what_an_unclear_charge_left_behind_is_found(gateway, sandbox, customer):
    method = sandbox.attach_method(customer)
    sandbox.faults.configure({"requests": [{"kind": "error_after", "path": "/v1/payment_intents"}]})
    with pytest.raises(gw.UnknownOutcome):
        charge(customer, method)
    sandbox.advance_clock(30 * 3600)

    (left,) = gateway.find_charges(customer=customer, topup_key=KEY)

    assert (left.status, left.amount) == ("succeeded", 20_000)


def test_a_detached_card_cannot_be_charged(gateway, sandbox, customer):
    method = sandbox.attach_method(customer)
    for _ in range(2):
        gateway.detach_method(payment_method=method)

    assert gateway.list_saved_methods(customer=customer) == ()
    with pytest.raises(gw.Refused):
        charge(customer, method)
    assert sandbox.objects("payment_intent") == []


def test_the_sdk_attaches_a_test_card(api, customer):
    made = api.payment_methods.attach("pm_card_visa", {"customer": customer})

    assert (made.type, made.card.last4, made.customer) == ("card", "4242", customer)


# --- refunds -------------------------------------------------------------------------------------------------
@pytest.fixture
def paid(gateway, sandbox, customer):
    return charge(customer, sandbox.attach_method(customer)).id


def refund(intent, amount, **changes):
    return gw.create_refund(**{"payment_intent": intent, "amount": amount, "refund_key": KEY, "version": 1} | changes)


def test_a_refund_is_pending_and_then_done(gateway, sandbox, paid):
    made = refund(paid, 5_000)
    assert (made.status, made.amount, made.currency, made.payment_intent, made.refund_key) == (
        "pending", 5_000, "CNY", paid, KEY,
    )  # fmt: skip

    sandbox.settle_refund(made.id, succeeded=True)

    assert gateway.retrieve_refund(refund_id=made.id).status == "succeeded"
    assert types(sandbox)[-3:] == ["refund.created", "charge.refunded", "refund.updated"]


def test_a_failed_refund_gives_the_room_back(gateway, sandbox, paid):
    made = refund(paid, 20_000)
    sandbox.settle_refund(made.id, succeeded=False)

    failed = gateway.retrieve_refund(refund_id=made.id)
    assert (failed.status, failed.failure_reason) == ("failed", "lost_or_stolen_card")
    assert types(sandbox)[-2:] == ["refund.updated", "refund.failed"]
    assert refund(paid, 20_000, version=2).status == "pending"


def test_even_a_succeeded_refund_may_fail_later(gateway, sandbox, paid):
    made = refund(paid, 100)
    sandbox.settle_refund(made.id, succeeded=True)
    sandbox.settle_refund(made.id, succeeded=False)

    assert gateway.retrieve_refund(refund_id=made.id).status == "failed"
    assert sandbox.objects("charge")[0]["amount_refunded"] == 0


def test_refunds_never_exceed_what_was_charged(gateway, sandbox, paid):
    refund(paid, 15_000, refund_key="a")
    with pytest.raises(gw.Refused) as caught:
        refund(paid, 5_001, refund_key="b")
    assert caught.value.param == "amount"
    refund(paid, 5_000, refund_key="c")
    with pytest.raises(gw.Refused) as caught:
        refund(paid, 1, refund_key="d")
    assert caught.value.reason == "charge_already_refunded"

    assert sum(each["amount"] for each in sandbox.objects("refund")) == 20_000


@pytest.mark.parametrize("hours", [0, 30])
def test_a_refund_is_found_by_its_key_when_the_answer_was_lost(gateway, sandbox, paid, hours):
    sandbox.faults.configure({"requests": [{"kind": "error_after", "path": "/v1/refunds"}]})
    with pytest.raises(gw.UnknownOutcome):
        refund(paid, 700)
    sandbox.advance_clock(hours * 3600)

    found = gateway.find_refund(payment_intent=paid, refund_key=KEY)

    assert (found.amount, found.status) == (700, "pending")
    assert gateway.find_refund(payment_intent=paid, refund_key="other") is None


def test_a_living_refund_is_found_before_a_failed_one(gateway, sandbox, paid):
    first = refund(paid, 700)
    sandbox.settle_refund(first.id, succeeded=False)
    assert gateway.find_refund(payment_intent=paid, refund_key=KEY).id == first.id

    second = refund(paid, 700, version=2)

    assert gateway.find_refund(payment_intent=paid, refund_key=KEY).id == second.id
    window = {"created_from": first.created, "created_to": second.created + timedelta(seconds=1)}
    assert [each.id for each in gateway.list_refunds(**window)] == [second.id, first.id]


# --- disputes ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("won", [True, False])
def test_a_dispute_is_opened_and_decided(gateway, sandbox, paid, won):
    opened = sandbox.open_dispute(paid)
    dispute = gateway.retrieve_dispute(dispute_id=opened)
    assert (dispute.is_open, dispute.amount, dispute.currency, dispute.payment_intent, dispute.reason) == (
        True, 20_000, "CNY", paid, "fraudulent",
    )  # fmt: skip
    with pytest.raises(gw.Refused) as caught:
        refund(paid, 100)
    assert caught.value.reason == "charge_disputed"

    sandbox.close_dispute(opened, won=won)

    decided = gateway.retrieve_dispute(dispute_id=opened)
    assert (decided.is_open, decided.is_won, decided.is_lost) == (False, won, not won)
    assert types(sandbox)[-1] == "charge.dispute.closed"
    assert types(sandbox).count("charge.dispute.created") == 1
    listed = gateway.list_disputes(created_from=dispute.created, created_to=dispute.created + timedelta(seconds=1))
    assert [each.id for each in listed] == [opened]


# --- credit notes --------------------------------------------------------------------------------------------
def lines_of(invoice):
    return gw.list_lines(invoice_id=invoice.id)


def credit(invoice, amount, **changes):
    (line,) = lines_of(invoice)
    facts = {"invoice_id": invoice.id, "note_key": KEY, "version": 1, "memo": "CN-2026-000001",
             "lines": [gw.CreditLine(line.id, amount)]}  # fmt: skip
    return gw.create_credit_note(**facts | changes)


def test_before_payment_a_note_lowers_what_is_due(gateway, sandbox, api):
    invoice = open_invoice(api)

    note = credit(invoice, 600)

    assert (note.amount, note.pre_payment_amount, note.post_payment_amount, note.note_key) == (600, 600, 0, KEY)
    after = gateway.retrieve_invoice(invoice_id=invoice.id)
    assert (after.status, after.total, after.amount_due, after.amount_remaining) == ("open", 10_600, 10_000, 10_000)
    assert sandbox.objects("credit_note")[0]["total_taxes"][0]["amount"] == 34
    assert api.invoices.pay(invoice.id, {"payment_method": "pm_card_visa"}).amount_paid == 10_000
    assert sandbox.objects("charge")[0]["amount"] == 10_000


def test_a_note_over_everything_ends_the_invoice(gateway, sandbox, api):
    invoice = open_invoice(api)

    credit(invoice, 10_600)

    after = gateway.retrieve_invoice(invoice_id=invoice.id)
    assert (after.status, after.amount_remaining, after.amount_paid) == ("paid", 0, 0)
    assert sandbox.objects("payment_intent")[0]["status"] == "canceled"


def test_after_payment_a_note_says_where_the_money_went(gateway, sandbox, api):
    invoice = open_invoice(api)
    api.invoices.pay(invoice.id, {"payment_method": "pm_card_visa"})
    with pytest.raises(gw.Refused, match="must equal the post payment amount"):
        credit(invoice, 600, out_of_band=500)
    assert sandbox.objects("credit_note") == []

    outside = credit(invoice, 600, out_of_band=600, version=2)
    (payment,) = gateway.list_payments(invoice_id=invoice.id)
    back = refund(payment.payment_intent, 1_000)
    note = credit(invoice, 1_000, note_key="second", refunds=[(back.id, 1_000)])

    assert (outside.post_payment_amount, outside.out_of_band_amount) == (600, 600)
    assert (note.post_payment_amount, note.out_of_band_amount) == (1_000, 0)
    assert gateway.retrieve_invoice(invoice_id=invoice.id).status == "paid"
    assert gateway.find_credit_note(invoice_id=invoice.id, note_key="second") == note
    assert gateway.retrieve_credit_note(credit_note_id=note.id) == note
    listed = gateway.list_credit_notes(created_from=outside.created, created_to=note.created + timedelta(seconds=1))
    assert [each.id for each in listed] == [note.id, outside.id]


def test_stripe_refunds_by_itself_when_told_to(api, sandbox):
    invoice = open_invoice(api)
    api.invoices.pay(invoice.id, {"payment_method": "pm_card_visa"})
    line = api.invoices.line_items.list(invoice.id).data[0].id

    note = api.credit_notes.create(
        {"invoice": invoice.id, "refund_amount": 300,
         "lines": [{"type": "invoice_line_item", "invoice_line_item": line, "amount": 300}]}
    )  # fmt: skip

    (made,) = sandbox.objects("refund")
    assert (made["amount"], note.refunds[0].refund, note.type) == (300, made["id"], "post_payment")


def test_notes_never_exceed_the_invoice(gateway, sandbox, api):
    invoice = open_invoice(api)
    credit(invoice, 10_000, note_key="a")

    with pytest.raises(gw.Refused):
        credit(invoice, 601, note_key="b")
    with pytest.raises(gw.Refused):
        credit(invoice, -5, note_key="c")

    assert gateway.retrieve_invoice(invoice_id=invoice.id).amount_remaining == 600
    credit(invoice, 600, note_key="d")
    assert gateway.retrieve_invoice(invoice_id=invoice.id).status == "paid"


@pytest.mark.parametrize("verb", ["draft", "void"])
def test_only_a_final_invoice_can_be_credited(gateway, api, customer, verb):
    if verb == "void":
        invoice = open_invoice(api)
        api.invoices.void_invoice(invoice.id)
    else:
        invoice = api.invoices.create({"customer": customer, "currency": "cny"})
        api.invoice_items.create({"customer": customer, "invoice": invoice.id, "amount": 900, "currency": "cny"})

    with pytest.raises(gw.Refused, match="finalized"):
        credit(invoice, 100)


# --- money from outside --------------------------------------------------------------------------------------
RECEIVED = datetime(2026, 11, 20, 3, tzinfo=UTC)


def report(invoice, amount, **changes):
    facts = {"invoice_id": invoice.id, "payment_key": KEY, "version": 1, "amount": amount, "currency": "CNY",
             "customer": invoice.customer, "reference": "ICBC-1", "method": "bank transfer",
             "received_at": RECEIVED}  # fmt: skip
    return gw.report_partial_payment(**facts | changes)


def test_part_of_an_invoice_comes_from_outside(gateway, sandbox, api):
    invoice = open_invoice(api)

    after = report(invoice, 4_000)

    assert (after.status, after.amount_paid, after.amount_remaining) == ("open", 4_000, 6_600)
    (record,) = gateway.attached_records(invoice_id=invoice.id)
    assert (record.amount, record.currency, record.reference, record.payment_key) == (4_000, "CNY", "ICBC-1", KEY)
    assert [p.status for p in gateway.list_payments(invoice_id=invoice.id)] == ["open"]
    paid = api.invoices.pay(invoice.id, {"payment_method": "pm_card_visa"})
    assert (paid.status, paid.amount_paid) == ("paid", 10_600)
    assert sandbox.objects("charge")[0]["amount"] == 6_600
    assert types(sandbox).count("invoice_payment.paid") == 2


@pytest.mark.parametrize("hours", [0, 30])
def test_reporting_again_changes_nothing(gateway, sandbox, api, hours):
    invoice = open_invoice(api)
    report(invoice, 4_000)
    sandbox.advance_clock(hours * 3600)

    assert report(invoice, 4_000).amount_paid == 4_000
    assert report(invoice, 4_000, version=2).amount_paid == 4_000
    assert len(sandbox.objects("payment_record")) == 1


def test_the_last_part_pays_the_invoice_and_more_is_overpaid(gateway, sandbox, api):
    invoice = open_invoice(api)
    report(invoice, 4_000)

    after = report(invoice, 7_000, payment_key="second")

    assert (after.status, after.amount_paid, after.amount_remaining) == ("paid", 10_600, 0)
    assert sandbox.objects("invoice")[0]["amount_overpaid"] == 400
    assert types(sandbox)[-4:] == ["invoice.updated", "invoice.paid", "invoice.payment_succeeded", "invoice.overpaid"]
    with pytest.raises(gw.Refused, match="already paid"):
        report(invoice, 1, payment_key="third")
    assert report(invoice, 7_000, payment_key="second").status == "paid"


@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "error", "error_after", "conflict", "limit"])
@pytest.mark.parametrize("path", ["/v1/payment_records", "/v1/invoices"])
def test_every_fault_while_reporting_ends_with_the_money_counted_once(gateway, sandbox, api, kind, path):
    invoice = open_invoice(api)
    sandbox.faults.configure({"requests": [{"kind": kind, "times": 3, "method": "POST", "path": path}]})
    version = 1
    for _ in range(6):
        try:
            after = report(invoice, 4_000, version=version)
            break
        except gw.UnknownOutcome as unknown:
            version += unknown.stored
        except gw.Unavailable:
            continue

    assert (after.amount_paid, after.amount_remaining) == (4_000, 6_600)


def test_a_partly_paid_invoice_cannot_be_voided(gateway, api):
    invoice = open_invoice(api)
    report(invoice, 4_000)

    with pytest.raises(gw.Refused, match="partially paid"):
        gateway.void_invoice(invoice_id=invoice.id, invoice_uuid=KEY, version=1)


# --- what else Stripe tells of invoices ----------------------------------------------------------------------
def test_an_invoice_is_given_up_and_still_payable(gateway, api):
    invoice = open_invoice(api)
    named = {"invoice_id": invoice.id, "invoice_uuid": KEY, "version": 1}

    assert [gateway.mark_uncollectible(**named).status for _ in range(2)] == ["uncollectible"] * 2
    assert gateway.pay_out_of_band(**named).status == "paid"
    with pytest.raises(gw.Refused):
        gateway.mark_uncollectible(**named | {"version": 2})


def test_a_draft_that_cannot_be_finalized_says_why(gateway, sandbox, api, customer):
    draft = api.invoices.create({"customer": customer, "currency": "cny"})
    api.invoice_items.create({"customer": customer, "invoice": draft.id, "amount": 900, "currency": "cny"})
    sandbox.faults.configure({"outcomes": {"finalization_failed": 1}})

    with pytest.raises(gw.Refused) as caught:
        gateway.finalize(invoice_id=draft.id, invoice_uuid=KEY, version=1)

    assert caught.value.reason == "customer_tax_location_invalid"
    seen = api.invoices.retrieve(draft.id)
    assert (seen.status, seen.last_finalization_error.code) == ("draft", "customer_tax_location_invalid")
    assert types(sandbox)[-1] == "invoice.finalization_failed"
    assert gateway.finalize(invoice_id=draft.id, invoice_uuid=KEY, version=2).status == "open"


def test_a_payment_that_must_be_confirmed_is_told(sandbox, api):
    invoice = open_invoice(api)

    with pytest.raises(stripe.CardError) as caught:
        api.invoices.pay(invoice.id, {"payment_method": "pm_card_authenticationRequired"})

    assert caught.value.code == "invoice_payment_intent_requires_action"
    assert api.invoices.retrieve(invoice.id).status == "open"
    assert types(sandbox)[-2:] == ["payment_intent.requires_action", "invoice.payment_action_required"]


def test_an_overdue_invoice_is_told_of_once(sandbox, api):
    open_invoice(api)
    sandbox.advance_clock(14 * DAY)
    assert "invoice.overdue" not in types(sandbox)

    for _ in range(2):
        sandbox.advance_clock(2 * DAY)

    assert types(sandbox).count("invoice.overdue") == 1


def test_the_same_verbs_over_http(sandbox, paid):
    def act(**wanted):
        headers = {"Content-Type": "application/json"}
        return json.load(post(f"{sandbox.url}/_sandbox/act", json.dumps(wanted).encode(), headers))["id"]

    dispute = act(do="open_dispute", charge_id=paid)
    act(do="close_dispute", dispute_id=dispute, won=False)
    assert sandbox.objects("dispute")[0]["status"] == "lost"


@pytest.mark.parametrize(
    "body",
    [
        {"do": "rob_the_bank"},
        {"do": "settle_refund"},
        {"do": "settle_refund", "refund_id": "re_0", "succeeded": True},
    ],
)
def test_a_verb_that_makes_no_sense_is_refused(sandbox, body):
    import urllib.error  # noqa: PLC0415

    with pytest.raises(urllib.error.HTTPError) as caught:
        post(f"{sandbox.url}/_sandbox/act", json.dumps(body).encode(), {"Content-Type": "application/json"})

    assert caught.value.code == 400
    caught.value.close()
