"""Auto-stop among many: fifty schedules set at once all stand, and each fires once however many look."""

from datetime import timedelta

import pytest

from accounts.models import Notification
from orders.models import Order
from rentals import actions
from rentals.models import AutoStopRule, Rental
from tests.rentals.conftest import demo_engine, engine  # noqa: F401 - the same engine fixtures
from tests.rentals.support import NOON, Shop, advance, windows
from tests.support.threads import at_once, outcomes, times
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db(transaction=True)

ORDERS, WORKERS = 50, 10
MINUTE = timedelta(minutes=1)


def opened(order: Order) -> Rental:
    """The order's rental, by whichever worker it was opened: one that is in hand elsewhere is passed over."""
    actions.open_rentals(at=NOON)
    return wait_for(lambda: Rental.objects.filter(order_line__order=order).first())


def test_fifty_parallel_orders_keep_their_schedules():
    shop = Shop(cards=1, hosts=7)

    def order_and_set(worker: int) -> list[int]:
        made = []
        for number in range(worker, ORDERS, WORKERS):
            rental = opened(shop.order())
            stop_at = NOON + (number + 1) * MINUTE
            actions.set_auto_stop(rental_id=rental.pk, kind="at_time", actor=None, at=NOON, stop_at=stop_at)
            actions.set_auto_stop(
                rental_id=rental.pk, kind="idle", actor=None, at=NOON, minutes=number + 1, threshold_percent=5
            )
            made.append(rental.pk)
        return made

    made = at_once(*times(WORKERS, order_and_set))

    assert len({pk for part in made for pk in part}) == ORDERS
    rules = AutoStopRule.objects.filter(enabled=True)
    assert sorted(rules.filter(kind="at_time").values_list("stop_at", flat=True)) == [
        NOON + (number + 1) * MINUTE for number in range(ORDERS)
    ]
    assert sorted(rules.filter(kind="idle").values_list("minutes", flat=True)) == list(range(1, ORDERS + 1))


def test_each_of_fifty_schedules_fires_once_under_many_sweeps():
    shop = Shop(cards=1, hosts=7)
    rentals = [shop.rental() for _order in range(ORDERS)]
    for number, rental in enumerate(rentals):
        actions.set_auto_stop(
            rental_id=rental.pk, kind="at_time", actor=None, at=NOON, stop_at=NOON + (number + 1) * MINUTE
        )
    for status in ("creating", "booting", "verifying", "running"):
        Rental.objects.update(status=status)
    half = NOON + 25 * MINUTE

    early = at_once(*times(4, lambda _n: actions.enforce_auto_stop(at=half)))
    late = at_once(*times(4, lambda _n: actions.enforce_auto_stop(at=NOON + 50 * MINUTE)))

    assert sorted(pk for part in early for pk in part) == sorted(rental.pk for rental in rentals[:25])
    assert sorted(pk for part in late for pk in part) == sorted(rental.pk for rental in rentals[25:])
    assert set(Rental.objects.values_list("status", "desired")) == {("stopping", "stopped")}
    assert all(rental.events.filter(kind="wish", what="auto_stop_at_time").count() == 1 for rental in rentals)
    assert Notification.objects.filter(kind="auto_stopped").count() == ORDERS
    assert not AutoStopRule.objects.filter(enabled=True).exists()


def test_a_rule_and_a_click_at_once_stop_once_and_bill_every_second_once(engine):  # noqa: F811
    shop = Shop()
    rental = shop.running()
    start = rental.metered_from
    at = start + MINUTE
    actions.set_auto_stop(rental_id=rental.pk, kind="at_time", actor=None, at=start, stop_at=at)

    outcomes(
        lambda: actions.enforce_auto_stop(at=at),
        lambda: actions.request_stop(rental_id=rental.pk, actor=None, at=at),
        lambda: actions.enforce_auto_stop(at=at),
        lambda: actions.request_stop(rental_id=rental.pk, actor=None, at=at),
    )
    advance(rental, to="stopped")

    assert windows(rental)[0] == ("card_hour", start, at, 60)
    assert rental.events.filter(kind="status", what="stopping").count() == 1


def test_parallel_settings_of_one_kind_leave_one_rule():
    rental = Shop().rental()

    at_once(
        *times(
            6,
            lambda number: actions.set_auto_stop(
                rental_id=rental.pk, kind="idle", actor=None, at=NOON, minutes=number + 1, threshold_percent=5
            ),
        )
    )

    assert AutoStopRule.objects.filter(enabled=True).count() == 1
    assert AutoStopRule.objects.filter(note="replaced").count() == 5
