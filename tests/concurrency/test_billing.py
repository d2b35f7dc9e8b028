"""Every billing command at the same time from several workers: the same rows as once."""

import pytest
from django.test import Client
from django.utils import timezone

from billing import actions, events
from billing.models import BilledWindow, Invoice, Payment, StripeEvent
from orders import actions as orders_actions
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, order, rental, used
from tests.billing.conftest import _no_waiting, sandbox  # noqa: F401 - fixtures
from tests.billing.stripe_side import deliver, invoice_events, only_invoice, pay
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db(transaction=True)
WORKERS = 4


def test_usage_is_invoiced_once(sandbox):  # noqa: F811
    offer = factories.offer(cards=1)
    for number in range(6):
        of = factories.organization(name=f"o{number}")
        for machine in range(3):
            used(rental(of, offer=offer, name=f"m{machine}"), NOVEMBER, NOVEMBER + 4 * HOUR)

    at_once(*times(WORKERS, lambda _n: actions.draft_usage_invoices(at=DECEMBER)))

    assert Invoice.objects.count() == 6
    assert BilledWindow.objects.count() == 18
    numbers = sorted(Invoice.objects.values_list("number", flat=True))
    assert numbers == [f"INV-2026-{n:06d}" for n in range(1, 7)]


def test_the_whole_run_in_parallel_is_one_run(sandbox):  # noqa: F811
    machine = rental()
    type(machine).objects.filter(pk=machine.pk).update(meter="card_hour", metered_from=DECEMBER - 4 * HOUR)
    order(at=DECEMBER)

    at_once(*times(WORKERS, lambda _n: actions.run_billing(at=DECEMBER + HOUR / 6, now=timezone.now())))
    actions.run_billing(at=DECEMBER + HOUR / 6, now=timezone.now() + HOUR)

    assert sorted(Invoice.objects.values_list("kind", "status", "total_minor")) == [
        ("order", "open", 128_000),
        ("usage", "open", 1000),
    ]
    assert len(sandbox.objects("invoice")) == 2
    assert len(sandbox.objects("invoiceitem")) == 2


def test_an_order_is_invoiced_once():
    made = order()

    at_once(*times(WORKERS, lambda _n: actions.draft_order_invoice(order=made, at=NOVEMBER)))

    assert Invoice.objects.count() == 1


def test_two_pushes_at_once_even_past_the_lease_make_one_invoice(sandbox, caplog):  # noqa: F811
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)
    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices

    # Each worker believes that the lease of the one before has expired.
    at_once(*times(WORKERS, lambda n: actions.push(invoice_id=invoice.pk, at=DECEMBER + n * HOUR)))
    actions.push(invoice_id=invoice.pk, at=DECEMBER + 24 * HOUR)

    invoice.refresh_from_db()
    assert (invoice.status, invoice.stripe_invoice_id) == ("open", only_invoice(sandbox)["id"])
    assert len(sandbox.objects("invoiceitem")) == 1
    assert len(sandbox.objects("customer")) == 1


def test_one_payment_heard_of_many_ways_is_one_payment(sandbox, client):  # noqa: F811
    made = actions.draft_order_invoice(order=order(at=timezone.now()), at=timezone.now())
    invoice = actions.push(invoice_id=made.pk, at=timezone.now())
    pay(invoice)
    for event in invoice_events(sandbox):
        deliver(client, event)
    later = timezone.now() + HOUR

    def hear(n):
        if n % 2:
            events.apply_waiting(at=later)
        else:
            actions.sweep_open_invoices(at=later)

    at_once(*times(WORKERS, hear))

    invoice.refresh_from_db()
    invoice.order.refresh_from_db()
    assert (invoice.status, invoice.paid_minor, invoice.order.status) == ("paid", 128_000, "confirmed")
    assert Payment.objects.count() == 1
    assert list(invoice.events.values_list("status", flat=True)) == ["issued", "pushing", "open", "paid"]
    assert not StripeEvent.objects.filter(processed_at__isnull=True).exists()


def test_one_event_delivered_by_many_hands_is_stored_once(sandbox):  # noqa: F811
    made = actions.draft_order_invoice(order=order(at=timezone.now()), at=timezone.now())
    pay(actions.push(invoice_id=made.pk, at=timezone.now()))
    event = invoice_events(sandbox)[-1]
    answers = []

    at_once(*times(WORKERS, lambda _n: answers.append(deliver(Client(), event))))

    assert answers == [200] * WORKERS
    assert StripeEvent.objects.count() == 1


def test_settling_and_paying_race_to_one_end(sandbox):  # noqa: F811
    made = actions.draft_order_invoice(order=order(), at=NOVEMBER)
    invoice = actions.push(invoice_id=made.pk, at=NOVEMBER)
    orders_actions.begin_expiring(at=NOVEMBER + HOUR)

    def race(n):
        if n == 0:
            pay(invoice)
        else:
            actions.settle_expiring(at=NOVEMBER + HOUR)

    at_once(*times(WORKERS, race))
    actions.settle_expiring(at=NOVEMBER + 2 * HOUR)

    invoice.refresh_from_db()
    invoice.order.refresh_from_db()
    theirs = sandbox.objects("invoice")[0]["status"]
    assert (theirs, invoice.status, invoice.order.status) in {
        ("paid", "paid", "confirmed"),
        ("void", "void", "cancelled"),
    }
