"""Taking money claims back, killed between any two of its steps: the next sweep ends it, nobody pays for nothing."""

import contextlib
from datetime import timedelta

import pytest

from billing import actions, events, stripe_gateway
from billing.actions import voiding
from billing.models import BilledWindow, Invoice, Payment
from catalog.models import Host
from orders import actions as orders_actions
from orders.models import Order
from orders.queries import standing_still
from rentals import actions as rentals_actions
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, rental, used
from tests.billing.conftest import _no_waiting, sandbox  # noqa: F401 - fixtures
from tests.billing.stripe_side import pay

pytestmark = pytest.mark.django_db(transaction=True)


class Killed(BaseException):
    """The worker is gone; nothing after it ran."""


POINTS = [
    (voiding, "_hold_still", "after"),
    (stripe_gateway, "void_invoice", "before"),
    (stripe_gateway, "void_invoice", "after"),
    (voiding, "mark_void", "before"),
    (voiding, "mark_void", "after"),
]


def kill(monkeypatch, where, name, when):
    real = getattr(where, name)

    def dies(*arguments, **named):
        if when == "after":
            real(*arguments, **named)
        raise Killed

    monkeypatch.setattr(where, name, dies)


def sweeps(at):
    actions.push_due(at=at)
    actions.sweep_open_invoices(at=at)
    events.apply_waiting(at=at)
    orders_actions.begin_expiring(at=at)
    actions.settle_expiring(at=at)
    actions.draft_order_invoices(at=at)


@pytest.mark.parametrize(("where", "name", "when"), POINTS)
@pytest.mark.parametrize("pushed", [True, False])
def test_an_expiring_order_is_cancelled_all_the_same(sandbox, monkeypatch, where, name, when, pushed):  # noqa: F811
    of, offer = factories.organization(), factories.offer(cards=2)
    order = factories.order(of, offer, term="month", at=NOVEMBER)
    invoice = factories.invoice(order, at=NOVEMBER)
    if pushed:
        actions.push(invoice_id=invoice.pk, at=NOVEMBER)
    orders_actions.begin_expiring(at=NOVEMBER + HOUR)
    with monkeypatch.context() as patch:
        kill(patch, where, name, when)
        with contextlib.suppress(Killed):
            voiding._settle_order(order.pk, NOVEMBER + HOUR)

    for minutes in (1, 5, 30):
        sweeps(NOVEMBER + HOUR + timedelta(minutes=minutes))

    order.refresh_from_db()
    invoice.refresh_from_db()
    assert (order.status, invoice.status) == ("cancelled", "void")
    assert {one["status"] for one in sandbox.objects("invoice")} <= {"void"}
    assert Host.objects.get(pool=offer.pool).cards_free == 8
    assert Payment.objects.count() == 0


@pytest.mark.parametrize(("where", "name", "when"), POINTS)
@pytest.mark.parametrize("pushed", [True, False])
def test_a_month_is_owed_once_whatever_became_of_the_void(sandbox, monkeypatch, where, name, when, pushed):  # noqa: F811
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)
    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    if pushed:
        invoice = actions.push(invoice_id=invoice.pk, at=DECEMBER)
    with monkeypatch.context() as patch:
        kill(patch, where, name, when)
        with contextlib.suppress(Killed):
            actions.void_invoice(invoice=invoice, at=DECEMBER)

    for hours in (1, 7, 14, 21):
        at = DECEMBER + hours * HOUR
        sweeps(at)
        actions.run_billing(at=at)

    (owed,) = Invoice.objects.exclude(status="void")
    (payable,) = [one for one in sandbox.objects("invoice") if one["status"] == "open"]
    assert (owed.status, owed.total_minor, payable["id"], payable["total"]) == (
        "open", 1000, owed.stripe_invoice_id, 1000,
    )  # fmt: skip
    assert BilledWindow.objects.filter(line__invoice=owed).count() == 1


def test_an_order_invoice_taken_back_at_stripe_is_issued_anew_and_paid_once(sandbox):  # noqa: F811
    order = factories.order(factories.organization(), factories.offer(cards=2), term="month", at=NOVEMBER)
    first = actions.push(invoice_id=factories.invoice(order, at=NOVEMBER).pk, at=NOVEMBER)
    stripe_gateway.void_invoice(invoice_id=first.stripe_invoice_id, invoice_uuid=first.key, version=9)

    sweeps(NOVEMBER + timedelta(minutes=11))
    second = Invoice.objects.exclude(status="void").get()
    pay(actions.push(invoice_id=second.pk, at=NOVEMBER + timedelta(minutes=12)))
    for minutes in (25, 31, 60):
        sweeps(NOVEMBER + timedelta(minutes=minutes))

    order.refresh_from_db()
    second.refresh_from_db()
    assert (order.status, second.status, second.paid_minor) == ("confirmed", "paid", second.total_minor)
    assert Payment.objects.count() == 1
    assert rentals_actions.open_rentals(at=NOVEMBER + HOUR)


def test_half_the_money_keeps_the_cards_until_a_person_decides(sandbox):  # noqa: F811
    order = factories.order(factories.organization(), factories.offer(cards=2), term="month", at=NOVEMBER)
    invoice = actions.push(invoice_id=factories.invoice(order, at=NOVEMBER).pk, at=NOVEMBER)
    money = {"method": "bank_transfer", "currency": "CNY", "received_at": NOVEMBER}
    actions.record_payment(invoice=invoice, reference="a", amount_minor=100, **money)
    sweeps(NOVEMBER + HOUR)
    assert Order.objects.get().status == "expiring"
    assert list(standing_still(NOVEMBER + HOUR + timedelta(minutes=11))) == [order]

    actions.record_payment(invoice=invoice, reference="b", amount_minor=invoice.total_minor - 100, **money)

    assert Order.objects.get().status == "confirmed"
    assert not standing_still(NOVEMBER + timedelta(minutes=5)).exists()
