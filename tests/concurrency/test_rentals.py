"""Many workers and one database: nothing is made, moved or metered twice."""

from datetime import timedelta

import pytest

from orders.models import Order
from rentals import actions, metering, reconcile
from rentals.models import Rental, UsageWindow
from tests.rentals.conftest import demo_engine, engine  # noqa: F401 - the same engine fixtures
from tests.rentals.support import NOON, Shop, advance, windows
from tests.support.threads import at_once, outcomes, times

pytestmark = pytest.mark.django_db(transaction=True)


def test_orders_are_opened_once_by_many_workers():
    shop = Shop(cards=1, hosts=2)
    orders = [shop.order(quantity=2) for _order in range(3)]

    opened = at_once(*times(4, lambda _n: actions.open_rentals(at=NOON)))

    assert sorted(pk for part in opened for pk in part) == sorted(Rental.objects.values_list("pk", flat=True))
    assert {rental.key for rental in Rental.objects.all()} == {
        unit for order in orders for unit in order.lines.get().units
    }
    assert set(Order.objects.values_list("status", flat=True)) == {"provisioning"}


def test_many_workers_on_one_rental_take_each_step_once(engine):  # noqa: F811
    rental = Shop().rental()

    taken = at_once(*times(4, lambda _n: reconcile.step(rental_id=rental.pk, at=NOON)))

    assert sorted(one is None for one in taken) == [False, True, True, True]
    assert len(engine.machines()) == 1
    assert rental.events.filter(kind="call").count() == 1


def test_a_worker_whose_claim_expired_makes_no_second_machine(engine):  # noqa: F811
    rental = Shop().rental()
    engine.faults(delay_seconds=1)

    def late_and_later(number: int) -> object:
        return reconcile.step(rental_id=rental.pk, at=NOON + timedelta(seconds=31 * number))

    at_once(*times(2, late_and_later))
    engine.heal()
    advance(rental, to="running")

    assert len(engine.machines()) == 1
    assert (rental.meter, UsageWindow.objects.count()) == ("card_hour", 0)


def test_units_that_arrive_together_make_their_order_active(engine):  # noqa: F811
    shop = Shop(cards=1)
    order = shop.order(quantity=2)
    rentals = [
        advance(rental, to="verifying") for rental in Rental.objects.filter(pk__in=actions.open_rentals(at=NOON))
    ]

    at_once(*times(2, lambda n: reconcile.step(rental_id=rentals[n].pk, at=rentals[n].next_step_at)))
    for rental in rentals:
        advance(rental, to="running")

    order.refresh_from_db()
    assert order.status == "active"


def test_stop_and_terminate_at_once_bill_every_second_once(engine):  # noqa: F811
    shop = Shop()
    rental = shop.running()
    start = rental.metered_from
    wishes = [actions.request_stop, actions.request_terminate, actions.request_stop, actions.request_terminate]

    outcomes(*times(4, lambda n: wishes[n](rental_id=rental.pk, actor=None, at=start + timedelta(minutes=1))))
    advance(rental, to="gone")

    assert windows(rental) == [("card_hour", start, start + timedelta(minutes=1), 60)]
    assert shop.free_cards() == 8


def test_parallel_starts_claim_cards_once(engine):  # noqa: F811
    shop = Shop(cards=2)
    rental = shop.running()
    actions.request_stop(rental_id=rental.pk, actor=None, at=rental.metered_from + timedelta(minutes=1))
    advance(rental, to="stopped")
    at = rental.stopped_at + timedelta(minutes=1)

    results = outcomes(*times(4, lambda _n: actions.request_start(rental_id=rental.pk, actor=None, at=at)))

    assert any(isinstance(one, Rental) for one in results)
    assert all(isinstance(one, Rental | actions.NotNow) for one in results)
    assert shop.free_cards() == 6
    assert rental.events.filter(kind="wish", what="start").count() == 1


def test_parallel_suspensions_stops_and_resumes_make_no_second_machine_and_lose_no_second(engine):  # noqa: F811
    shop = Shop(cards=2)
    rental = shop.running()
    start = rental.metered_from
    at = start + timedelta(minutes=1)

    def suspend_or_stop(number: int) -> object:
        if number % 2:
            return actions.request_stop(rental_id=rental.pk, actor=None, at=at)
        return actions.suspend(rental_id=rental.pk, reason="arrears", actor=None, at=at)

    outcomes(*times(4, suspend_or_stop))
    advance(rental, to="suspended")
    assert windows(rental) == [("card_hour", start, at, 60)]
    assert (shop.free_cards(), rental.metered_from) == (8, at)
    Rental.objects.filter(pk=rental.pk).update(desired="running")

    resumed_at = rental.stopped_at + timedelta(minutes=1)
    results = outcomes(*times(4, lambda _n: actions.resume(rental_id=rental.pk, actor=None, at=resumed_at)))
    assert all(isinstance(one, Rental | actions.NotNow) for one in results)
    assert rental.events.filter(kind="wish", what="resume").count() == 1
    assert shop.free_cards() == 6
    advance(rental, to="running")

    assert len(engine.machines()) == 1
    assert [row[0] for row in windows(rental)] == ["card_hour", "disk_gb_hour"]


def test_parallel_cuts_write_the_same_rows_as_one():
    shops = [Shop(cards=1) for _organization in range(2)]
    rentals = [shop.rental(at=NOON) for shop in shops for _unit in range(6)]
    Rental.objects.update(meter="card_hour", metered_from=NOON)
    later = NOON + timedelta(days=40)

    written = at_once(*times(4, lambda _n: metering.cut_windows(at=later)))

    # 12:00 on the first day until midnight 40 days later.
    assert sum(written) == 12 * 40
    for rental in rentals:
        rows = windows(rental)
        assert sum(row[3] for row in rows) == 12 * 3600 + 39 * 86_400
        assert [row[1] for row in rows[1:]] == [row[2] for row in rows[:-1]]


def test_cuts_and_stops_at_once_lose_no_second(engine):  # noqa: F811
    shop = Shop(cards=1)
    rentals = [shop.running(at=NOON + timedelta(hours=hour)) for hour in range(4)]
    starts = {rental.pk: rental.metered_from for rental in rentals}
    stop_at = NOON + timedelta(days=3)

    def cut_or_terminate(number: int) -> object:
        if number % 2:
            return metering.cut_windows(at=stop_at)
        return [
            actions.request_terminate(rental_id=one.pk, actor=None, at=stop_at) for one in rentals[number // 2 :: 2]
        ]

    at_once(*times(4, cut_or_terminate))

    for rental in rentals:
        rows = windows(rental)
        assert (rows[0][1], rows[-1][2]) == (starts[rental.pk], stop_at)
        assert sum(row[3] for row in rows) == (stop_at - starts[rental.pk]).total_seconds()
        assert [row[1] for row in rows[1:]] == [row[2] for row in rows[:-1]]
