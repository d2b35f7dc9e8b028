"""Delivery and answers measured on past rentals: exact figures, and nothing where nothing was measured."""

from datetime import UTC, date, datetime, timedelta

import pytest

from catalog.models import DeliveryRecord
from orders.models import OrderEvent
from rentals import delivery
from rentals.models import Rental, RentalEvent
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def rules(settings):
    settings.DELIVERY_WINDOW_DAYS = 90


def delivered(offer, seconds, *, ago=timedelta(days=1)):
    """A rental that first ran so many seconds after its order was confirmed."""
    at = NOON - ago
    rental = factories.rental(factories.order(factories.organization(), offer, at=at), at=at)
    Rental.objects.filter(pk=rental.pk).update(running_at=at + timedelta(seconds=seconds))
    return rental


def event(rental, what, at, *, kind="status", actor=None):
    RentalEvent.objects.create(rental=rental, kind=kind, what=what, at=at, actor=actor)


def figures(offer, at=NOON):
    delivery.measure_delivery(at=at)
    row = DeliveryRecord.objects.get(pool=offer.pool, measured_at=at)
    return row.delivered, row.failed, row.median_seconds, row.p90_seconds


def answers(offer):
    delivery.measure_delivery(at=NOON)
    row = DeliveryRecord.objects.get(pool=offer.pool)
    return row.faults, row.answered, row.median_answer_seconds


def test_median_and_p90_run_from_the_confirmed_order_to_the_verified_login():
    offer = factories.offer(hosts=4)
    for seconds in (30, 10, 20, 40, 300, 50, 60, 70, 80, 90):
        delivered(offer, seconds)
    assert figures(offer) == (10, 0, 50, 90)


def test_the_clock_starts_with_the_confirmation_not_with_the_order():
    offer = factories.offer()
    rental = delivered(offer, 100)
    order = rental.order_line.order
    (confirmed,) = OrderEvent.objects.filter(order=order, status="confirmed")
    assert figures(offer) == (1, 0, 100, 100)
    assert confirmed.at == order.placed_at
    assert order.placed_at == NOON - timedelta(days=1)


def test_without_orders_there_is_no_figure():
    offer = factories.offer()
    assert figures(offer) == (0, 0, None, None)
    assert answers(offer) == (0, 0, None)


def test_only_the_window_counts_and_only_the_own_pool():
    offer, other = factories.offer(), factories.offer()
    delivered(offer, 10, ago=timedelta(days=91))
    delivered(other, 20)
    assert figures(offer) == (0, 0, None, None)
    row = DeliveryRecord.objects.get(pool=other.pool)
    assert (row.delivered, row.since, row.measured_on) == (1, NOON - timedelta(days=90), date(2026, 11, 30))


def test_a_machine_that_could_not_be_made_is_counted_and_a_change_of_mind_is_not():
    offer = factories.offer()
    for failure in ("boot_failed", ""):
        rental = factories.rental(factories.order(factories.organization(), offer))
        Rental.objects.filter(pk=rental.pk).update(status="destroying")
        Rental.objects.filter(pk=rental.pk).update(status="gone", failure=failure, ended_at=NOON - timedelta(hours=1))
    assert figures(offer) == (0, 1, None, None)


def test_a_fault_is_answered_by_the_first_act_of_our_staff():
    offer, staff = factories.offer(), factories.user(is_staff=True)
    hour = timedelta(hours=1)
    first, second, third = (delivered(offer, 10, ago=timedelta(days=2)) for _ in range(3))
    event(first, "lost", NOON - hour)
    event(first, "stop", NOON - hour + timedelta(minutes=1), kind="wish", actor=factories.user())
    event(first, "running", NOON - hour + timedelta(minutes=2))
    event(first, "retry", NOON - hour + timedelta(minutes=5), kind="wish", actor=staff)
    event(first, "retry", NOON - hour + timedelta(minutes=9), kind="wish", actor=staff)
    event(second, "needs_operator", NOON - hour)
    event(second, "retry", NOON - hour + timedelta(minutes=15), kind="wish", actor=staff)
    event(third, "lost", NOON - hour)
    assert answers(offer) == (3, 2, 300)


def test_measuring_again_replaces_today_and_leaves_the_past():
    offer = factories.offer()
    delivered(offer, 10)
    assert figures(offer) == (1, 0, 10, 10)
    delivered(offer, 30)
    # 16:00 UTC is the next day in Shanghai.
    last = datetime(2026, 11, 30, 15, 59, 59, tzinfo=UTC)
    assert figures(offer, last) == (2, 0, 10, 30)
    assert figures(offer, last + timedelta(seconds=1)) == (2, 0, 10, 30)
    days = DeliveryRecord.objects.filter(pool=offer.pool).order_by("measured_on")
    assert [(day.measured_on, day.measured_at) for day in days] == [
        (date(2026, 11, 30), last),
        (date(2026, 12, 1), last + timedelta(seconds=1)),
    ]
