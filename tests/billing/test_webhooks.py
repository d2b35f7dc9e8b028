"""Webhooks: only Stripe's are stored, each once; in any order and number they end in the same state."""

import itertools
import random
from dataclasses import replace

import pytest
from django.utils import timezone

from billing import actions, events
from billing.models import Invoice, Payment, StripeEvent
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, order, rental, used
from tests.billing.stripe_side import deliver, invoice_events, pay

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def paid(sandbox):
    """An order's invoice that was paid at Stripe; we have not heard of it."""
    made = actions.draft_order_invoice(order=order(at=timezone.now()), at=timezone.now())
    invoice = actions.push(invoice_id=made.pk, at=timezone.now())
    pay(invoice)
    return invoice


def final(invoice):
    invoice = Invoice.objects.select_related("order").get(pk=invoice.pk)
    return {
        "status": invoice.status, "paid": invoice.paid_minor, "order": invoice.order.status,
        "payments": Payment.objects.count(), "events": list(invoice.events.values_list("status", flat=True)),
        "waiting": StripeEvent.objects.filter(processed_at__isnull=True).count(),
    }  # fmt: skip


DONE = {
    "status": "paid", "paid": 128_000, "order": "confirmed", "payments": 1,
    "events": ["issued", "pushing", "open", "paid"], "waiting": 0,
}  # fmt: skip


def test_an_event_is_stored_once_and_answered_each_time(client, sandbox, paid):
    (event,) = [event for event in invoice_events(sandbox) if event["type"] == "invoice.paid"]

    assert [deliver(client, event) for _ in range(3)] == [200, 200, 200]

    row = StripeEvent.objects.get()
    assert (row.stripe_id, row.type, row.object_id) == (event["id"], "invoice.paid", paid.stripe_invoice_id)
    assert row.processed_at is None
    assert events.apply_waiting(at=timezone.now()) == 1
    assert final(paid) == DONE


def test_what_stripe_did_not_sign_is_refused(client, sandbox, paid):
    event = invoice_events(sandbox)[-1]

    assert deliver(client, event, secret="whsec_forged") == 400
    assert client.post("/stripe/webhook/", data=b"{}", content_type="application/json").status_code == 400
    assert client.get("/stripe/webhook/").status_code == 405
    assert StripeEvent.objects.count() == 0


def test_twice_and_reversed_is_the_same_as_once(client, sandbox, paid):
    everything = sandbox.objects("event")
    for event in [*reversed(everything), *everything]:
        assert deliver(client, event) == 200

    assert events.apply_waiting(at=timezone.now()) == len(everything)
    assert events.apply_waiting(at=timezone.now()) == 0
    assert final(paid) == DONE


def test_any_order_ends_in_the_same_state(client, sandbox, paid):
    chosen = [
        e for e in invoice_events(sandbox) if e["type"] in {"invoice.finalized", "invoice.paid", "invoice.created"}
    ]
    for permutation in itertools.permutations(chosen):
        for event in permutation:
            deliver(client, event | {"id": f"{event['id']}_{random.random()}"})
            events.apply_waiting(at=timezone.now())

    assert final(paid) == DONE


def test_money_that_comes_while_stripe_is_away_is_applied_later(client, sandbox, paid, caplog):
    deliver(client, invoice_events(sandbox)[-1])
    sandbox.faults.configure({"requests": [{"kind": "drop_before", "times": 50}]})
    now = timezone.now()
    assert events.apply_waiting(at=now) == 0
    row = StripeEvent.objects.get()
    assert (row.attempts, row.processed_at) == (1, None)
    assert row.error.startswith("Unavailable")
    sandbox.faults.configure({"reset": True})

    assert events.apply_waiting(at=now) == 0  # its pause is not over
    assert events.apply_waiting(at=now + HOUR) == 1
    assert final(paid) == DONE


def test_one_bad_event_blocks_no_other(client, sandbox, paid, monkeypatch):
    def broken(*, theirs, at):
        if theirs.id == "in_bad":
            raise RuntimeError("cannot be understood")
        return real(theirs=theirs, at=at)

    real = events.apply_stripe_invoice
    fetch = events.stripe_gateway.retrieve_invoice
    seen = fetch(invoice_id=paid.stripe_invoice_id)
    StripeEvent.objects.create(
        stripe_id="evt_bad", type="invoice.paid", object_id="in_bad", payload={}, received_at=DECEMBER
    )
    deliver(client, invoice_events(sandbox)[-1])
    monkeypatch.setattr(events, "apply_stripe_invoice", broken)
    monkeypatch.setattr(
        events.stripe_gateway,
        "retrieve_invoice",
        lambda *, invoice_id: fetch(invoice_id=invoice_id) if invoice_id != "in_bad" else _renamed(seen),
    )

    assert events.apply_waiting(at=timezone.now()) == 1
    assert StripeEvent.objects.get(stripe_id="evt_bad").error == "RuntimeError: cannot be understood"
    assert final(paid) == DONE | {"waiting": 1}


def _renamed(theirs):
    return replace(theirs, id="in_bad")


def test_events_about_strangers_are_done_with(client, sandbox, paid):
    StripeEvent.objects.create(
        stripe_id="evt_1", type="invoice.paid", object_id="in_gone", payload={}, received_at=DECEMBER
    )
    StripeEvent.objects.create(
        stripe_id="evt_2", type="customer.created", object_id="cus_1", payload={}, received_at=DECEMBER
    )

    assert events.apply_waiting(at=timezone.now()) == 2
    assert list(StripeEvent.objects.order_by("pk").values_list("error", flat=True)) == ["gone at Stripe", ""]
    assert Invoice.objects.get().status == "open"


def test_voided_at_stripe_is_voided_here_and_billed_anew(client, sandbox):
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)
    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    invoice = actions.push(invoice_id=invoice.pk, at=DECEMBER)
    events.stripe_gateway.void_invoice(invoice_id=invoice.stripe_invoice_id, invoice_uuid="staff", version=1)

    for event in invoice_events(sandbox):
        deliver(client, event)
    events.apply_waiting(at=timezone.now())

    invoice.refresh_from_db()
    assert invoice.status == "void"
    assert len(actions.draft_usage_invoices(at=DECEMBER).invoices) == 1
