"""Everything that Stripe tells: in any order, doubled, in parallel and late, the same state comes of it."""

import random
from datetime import timedelta

import pytest
from django.test import Client

from accounts.models import CreditLine
from billing import actions, events, ledger
from billing.models import (
    Book,
    CreditNote,
    Dispute,
    Invoice,
    InvoiceEvent,
    Payment,
    Posting,
    Refund,
    StripeEvent,
    TopUp,
)
from tests import factories
from tests.billing.builders import DECEMBER, HOUR
from tests.billing.money_side import paid_invoice, paid_top_up, pushed_invoice
from tests.billing.stripe_side import deliver, pay
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db(transaction=True)


def told(sandbox, *beginnings):
    return [event for event in sandbox.objects("event") if event["type"].startswith(beginnings or ("",))]


def hear(client, told_events):
    assert {deliver(client, event) for event in told_events} <= {200}


def everything():
    """All that matters of our books, comparable between two runs."""
    return {
        "invoices": list(Invoice.objects.order_by("pk").values_list("status", "paid_minor", "credited_minor")),
        "payments": list(Payment.objects.order_by("reference").values_list("method", "amount_minor")),
        "top-ups": list(TopUp.objects.order_by("pk").values_list("status", "amount_minor")),
        "refunds": list(Refund.objects.order_by("pk").values_list("status", "amount_minor")),
        "disputes": list(Dispute.objects.order_by("opened_at", "pk").values_list("status", "amount_minor")),
        "standing": list(CreditLine.objects.order_by("pk").values_list("standing", flat=True)),
        "books": sorted(Posting.objects.values_list("kind", flat=True)),
        "balances": {str(book): sum(ledger.balances(ids(), book).values()) for book in Book},
        "waiting": StripeEvent.objects.filter(processed_at__isnull=True).count(),
    }


def ids():
    return list(Invoice.objects.values_list("account_id", flat=True)) + list(
        TopUp.objects.values_list("account_id", flat=True)
    )


def a_lot_happens(sandbox):
    """An invoice is paid, credited and refunded; a top-up is lost to a dispute; another page runs out of time."""
    organization = factories.organization()
    invoice = pushed_invoice(organization=organization)
    pay(invoice)
    top_up = paid_top_up(sandbox, organization=organization)
    dispute = sandbox.open_dispute(top_up.payment_intent)
    sandbox.close_dispute(dispute, won=False)
    actions.apply_stripe_invoice(theirs=stripe_invoice(invoice), at=DECEMBER)
    line = invoice.lines.get()
    actions.issue_credit_note(
        invoice=invoice, amounts={line.pk: 400}, destination="source", reason="x", request_key="n", at=DECEMBER
    )
    actions.sweep_refunds(at=DECEMBER)
    (refund,) = sandbox.objects("refund")
    sandbox.settle_refund(refund["id"], succeeded=True)


def stripe_invoice(invoice):
    from billing import stripe_gateway  # noqa: PLC0415

    return stripe_gateway.retrieve_invoice(invoice_id=invoice.stripe_invoice_id)


EXPECTED = {
    "invoices": [("paid", 600, 400)],
    "payments": [("stripe", 1000)],
    "top-ups": [("paid", 50_000)],
    "refunds": [("succeeded", 400)],
    "disputes": [("lost", 50_000)],
    "standing": ["frozen"],
    "books": ["credit_note", "issue", "payment", "payment_reversed", "refund", "top_up"],
    "waiting": 0,
}


@pytest.mark.parametrize("seed", range(4))
def test_any_order_ends_in_the_same_state(sandbox, client, seed):
    a_lot_happens(sandbox)
    stories = told(sandbox)
    random.Random(seed).shuffle(stories)

    for size in (1, 3, len(stories)):
        chunk, stories = stories[:size], stories[size:]
        hear(client, chunk + chunk[:1])
        events.apply_waiting(at=DECEMBER + HOUR)

    found = everything()
    assert {name: found[name] for name in EXPECTED} == EXPECTED
    assert ledger.check() == []


def test_one_event_ten_times_in_parallel(sandbox):
    invoice = pushed_invoice()
    pay(invoice)
    opened = told(sandbox, "invoice.paid")

    def one(_n):
        status = deliver(Client(), opened[0])
        events.apply_waiting(at=DECEMBER)
        return status

    assert set(at_once(*times(10, one))) == {200}
    assert (StripeEvent.objects.count(), Payment.objects.count()) == (1, 1)
    assert InvoiceEvent.objects.filter(invoice=invoice, status="paid").count() == 1
    assert ledger.check() == []


def test_a_top_up_is_credited_by_its_page_and_by_its_payment_once(sandbox, client):
    organization = factories.organization()
    top_up = actions.begin_top_up(
        organization=organization, amount_minor=50_000, request_key="k", at=now(sandbox), actor=None
    )
    top_up = actions.open_top_up(
        top_up_id=top_up.pk, success_url="https://x.example/", cancel_url="https://x.example/", at=now(sandbox)
    )
    sandbox.pay_checkout(top_up.stripe_session_id, outcome="later", method="alipay")
    hear(client, told(sandbox))
    events.apply_waiting(at=DECEMBER)
    assert TopUp.objects.get().status == "open"

    sandbox.settle_checkout(top_up.stripe_session_id, succeeded=True)
    hear(client, told(sandbox))
    events.apply_waiting(at=DECEMBER)

    assert (TopUp.objects.get().status, Posting.objects.filter(kind="top_up").count()) == ("paid", 1)
    assert ledger.balance(TopUp.objects.get().account, Book.WALLET) == 50_000
    assert StripeEvent.objects.filter(type="checkout.session.completed").get().object_id == top_up.stripe_session_id


def now(sandbox):
    from datetime import UTC, datetime  # noqa: PLC0415

    return datetime.fromtimestamp(sandbox.state()["now"], UTC)


def test_a_failed_payment_is_in_the_invoices_history_once(sandbox, client):
    invoice = pushed_invoice()
    from tests.stripe.conftest import post  # noqa: PLC0415

    post(f"{invoice.hosted_url}/fail").close()
    for _ in range(2):
        hear(client, told(sandbox, "invoice."))
        events.apply_waiting(at=DECEMBER)

    notes = [event.note for event in invoice.events.all()]
    assert notes.count("a payment failed at Stripe") == 1
    invoice.refresh_from_db()
    assert invoice.status == "open"


def test_a_draft_that_stripe_cannot_open_stays_with_its_reason(sandbox, client):
    sandbox.faults.configure({"outcomes": {"finalization_failed": 1}})
    invoice = pushed_invoice()
    hear(client, told(sandbox, "invoice."))
    events.apply_waiting(at=DECEMBER)

    invoice.refresh_from_db()
    assert (invoice.status, invoice.next_push_at) == ("pushing", None)
    assert "location isn't recognized" in invoice.push_error
    assert any("not finalized at Stripe" in event.note for event in invoice.events.all())
    assert actions.retry_push(invoice_id=invoice.pk, at=DECEMBER + HOUR).status == "pushing"


def test_stripe_giving_up_and_voiding_is_followed(sandbox, client):
    from billing import stripe_gateway  # noqa: PLC0415

    invoice = pushed_invoice()
    named = {"invoice_id": invoice.stripe_invoice_id, "invoice_uuid": invoice.key, "version": 9}
    stripe_gateway.mark_uncollectible(**named)
    hear(client, told(sandbox, "invoice."))
    events.apply_waiting(at=DECEMBER)
    assert Invoice.objects.get().status == "uncollectible"

    stripe_gateway.void_invoice(**named)
    hear(client, told(sandbox, "invoice."))
    events.apply_waiting(at=DECEMBER)
    assert Invoice.objects.get().status == "void"
    assert ledger.check() == []


def test_a_note_that_was_made_before_its_worker_died_is_adopted(sandbox, client):
    invoice = paid_invoice()
    note = actions.issue_credit_note(
        invoice=invoice, amounts={invoice.lines.get().pk: 300}, destination="balance", reason="x", request_key="n",
        at=DECEMBER,
    )  # fmt: skip
    actions.sweep_credit_notes(at=DECEMBER)
    CreditNote.objects.update(stripe_credit_note_id="", next_push_at=DECEMBER)

    hear(client, told(sandbox, "credit_note."))
    events.apply_waiting(at=DECEMBER)

    note.refresh_from_db()
    assert (note.stripe_credit_note_id, note.next_push_at) == (sandbox.objects("credit_note")[0]["id"], None)


def test_what_cannot_be_applied_waits_and_holds_up_no_other(sandbox, client):
    first, second = pushed_invoice(), pushed_invoice()
    pay(first)
    pay(second)
    hear(client, told(sandbox, "invoice.paid"))
    path = f"/v1/invoices/{first.stripe_invoice_id}"
    sandbox.faults.configure({"requests": [{"kind": "limit", "times": 9, "method": "GET", "path": path}]})

    events.apply_waiting(at=DECEMBER)

    assert sorted(Invoice.objects.values_list("status", flat=True)) == ["open", "paid"]
    waiting = StripeEvent.objects.get(processed_at__isnull=True)
    assert (waiting.attempts, waiting.next_attempt_at) == (1, DECEMBER + timedelta(seconds=30))
    sandbox.faults.configure({"reset": True})
    events.apply_waiting(at=DECEMBER + HOUR)
    assert set(Invoice.objects.values_list("status", flat=True)) == {"paid"}
