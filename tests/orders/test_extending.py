"""More time for a running term: from its old end, on its own anchor day, once."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from threading import Barrier, Thread

import pytest
from django.db import connection
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from accounts import budgets
from catalog.models import Allocation, Reservation
from marketplace.lib import clock
from orders import actions
from orders.models import Extension, Order, Subscription, TermRefund, TermRefundLine
from tests import factories
from tests.orders.builders import Shop

ZONE = "Asia/Shanghai"
Status = Order.Status


def local(day: str, hour: int = 0) -> datetime:
    return clock.local_midnight(date.fromisoformat(day), ZONE) + timedelta(hours=hour)


BEGAN = local("2027-01-31", 10)


def running_term(shop: Shop, *, started_at: datetime = BEGAN, quantity: int = 1, **changes) -> Subscription:
    """A month's term of two cards whose machine was handed over: 31 January to 28 February."""
    order = shop.place(term="month", quantity=quantity, at=started_at - timedelta(minutes=5), **changes)
    actions.confirm(order_id=order.pk, at=started_at - timedelta(minutes=1))
    term = Subscription.objects.filter(order_line__order=order).order_by("pk").first()
    actions.mark_provisioning(order_id=order.pk, at=started_at)
    actions.mark_active(order_id=order.pk, at=started_at)
    return actions.start_term(subscription_id=term.pk, started_at=started_at)


def wish(shop: Shop, running: Subscription, **changes) -> dict:
    return {
        "subscription_id": running.pk,
        "actor": shop.owner,
        "request_key": "more-1",
        "term": "month",
        "periods": 1,
        "seen_rate": Decimal(1280),
        "at": local("2027-02-20", 12),
    } | changes


def test_a_paid_extension_moves_the_end_on_from_the_old_one(shop):
    term = running_term(shop)
    assert term.ends_at == local("2027-03-01")

    order = actions.extend_term(**wish(shop, term))

    assert (order.kind, order.status, order.total_minor) == ("renewal", Status.AWAITING_PAYMENT, 256_000)
    line = order.lines.get()
    assert (line.continues, line.units, line.quantity, line.rate) == (term, [term.unit], 1, Decimal(1280))
    term.refresh_from_db()
    assert term.ends_at == local("2027-03-01")

    actions.confirm(order_id=order.pk, at=local("2027-02-20", 13))

    term.refresh_from_db()
    order.refresh_from_db()
    assert (term.ends_at, term.started_at, term.anchor_day) == (local("2027-04-01"), BEGAN, 31)
    assert (order.status, order.paid_at) == (Status.ACTIVE, local("2027-02-20", 13))
    assert [event.status for event in order.events.all()] == ["awaiting_payment", "confirmed", "active"]
    added = Extension.objects.get()
    assert (added.subscription, added.order_line, added.starts_at, added.ends_at) == (
        term, line, local("2027-03-01"), local("2027-04-01"),
    )  # fmt: skip
    assert Subscription.objects.count() == 1


def test_paying_twice_extends_once(shop):
    term = running_term(shop)
    order = actions.extend_term(**wish(shop, term))

    for _again in range(2):
        actions.confirm(order_id=order.pk, at=local("2027-02-20", 13))

    term.refresh_from_db()
    assert term.ends_at == local("2027-04-01")
    assert Extension.objects.count() == 1


def test_twenty_three_extensions_end_where_a_term_of_two_years_does(shop):
    term = running_term(shop)
    for number in range(23):
        order = actions.extend_term(**wish(shop, term, request_key=f"more-{number}", at=BEGAN + timedelta(days=1)))
        actions.confirm(order_id=order.pk, at=BEGAN + timedelta(days=1))

    term.refresh_from_db()
    assert term.ends_at == local("2029-02-01")
    assert (term.ends_at, 31) == (local("2029-02-01"), term.anchor_day)


def test_a_year_may_follow_a_month(shop):
    term = running_term(shop)

    order = actions.extend_term(**wish(shop, term, term="year", seen_rate=Decimal(13000)))
    actions.confirm(order_id=order.pk, at=local("2027-02-20", 13))

    term.refresh_from_db()
    assert (order.total_minor, term.ends_at) == (2_600_000, local("2028-03-01"))


def test_a_double_click_is_one_order(shop):
    term = running_term(shop)

    first, second = (actions.extend_term(**wish(shop, term)) for _click in range(2))

    assert first.pk == second.pk
    assert Order.objects.filter(kind="renewal").count() == 1


def test_the_key_of_another_wish_is_refused(shop):
    term = running_term(shop)
    actions.extend_term(**wish(shop, term))

    with pytest.raises(actions.RequestKeyReused):
        actions.extend_term(**wish(shop, term, periods=2))


def test_a_second_extension_waits_for_the_first(shop):
    term = running_term(shop)
    first = actions.extend_term(**wish(shop, term))

    with pytest.raises(actions.StillUnpaid) as refused:
        actions.extend_term(**wish(shop, term, request_key="more-2"))

    assert refused.value.order == first
    assert Order.objects.filter(kind="renewal").count() == 1


@pytest.mark.django_db(transaction=True)
def test_clicks_at_the_same_moment_are_one_order(shop):
    term, together, made = running_term(shop), Barrier(4), []

    def click() -> None:
        try:
            together.wait()
            made.append(actions.extend_term(**wish(shop, term)).pk)
        finally:
            connection.close()

    threads = [Thread(target=click) for _click in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 4
    assert set(made) == {Order.objects.get(kind="renewal").pk}


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"seen_rate": Decimal(1279)}, actions.PriceChanged),
        ({"periods": 0}, actions.BadChoice),
        ({"periods": 37}, actions.BadChoice),
        ({"term": "hour"}, actions.BadChoice),
        ({"request_key": ""}, actions.BadChoice),
        ({"at": local("2027-03-01")}, actions.NotRunning),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(shop, changes, refusal):
    term = running_term(shop)

    with pytest.raises(refusal):
        actions.extend_term(**wish(shop, term, **changes))

    assert Order.objects.filter(kind="renewal").count() == 0


def test_an_hourly_machine_has_no_term_to_extend(shop):
    order = shop.place(at=BEGAN)
    hourly = Subscription.objects.get(order_line__order=order)
    actions.start_term(subscription_id=hourly.pk, started_at=BEGAN)

    with pytest.raises(actions.NotRunning):
        actions.extend_term(**wish(shop, hourly))


def test_todays_price_holds_not_the_one_of_the_first_order(shop):
    term = running_term(shop)
    shop.offer.prices.filter(meter="month").update(valid_to=local("2027-02-10"))
    factories.price(shop.offer, since=local("2027-02-10"), month="1500")

    with pytest.raises(actions.PriceChanged):
        actions.extend_term(**wish(shop, term))
    order = actions.extend_term(**wish(shop, term, seen_rate=Decimal(1500)))

    assert order.total_minor == 300_000
    term.refresh_from_db()
    assert term.rate == Decimal(1280)


# --- reservations ----------------------------------------------------------------------------------------------------
def reserve(shop: Shop, cards: int, start: str, end: str) -> None:
    period = DateTimeTZRange(local(start), local(end))
    Reservation.objects.create(pool=shop.offer.pool, cards=cards, period=period, note="for a fair")


def test_a_reservation_that_needs_the_cards_is_in_the_way(shop):
    term = running_term(shop)
    reserve(shop, 8, "2027-03-20", "2027-03-25")

    with pytest.raises(actions.CardsReserved, match="2027-03-20 00:00"):
        actions.extend_term(**wish(shop, term))

    assert Order.objects.filter(kind="renewal").count() == 0


@pytest.mark.parametrize(
    ("cards", "start", "end"),
    [
        (6, "2027-03-20", "2027-03-25"),  # the six free cards cover it
        (8, "2027-02-22", "2027-03-01"),  # over when the extension begins
        (8, "2027-04-01", "2027-04-05"),  # begins when the extension is over
    ],
)
def test_other_reservations_are_not(shop, cards, start, end):
    term = running_term(shop)
    reserve(shop, cards, start, end)

    assert actions.extend_term(**wish(shop, term)).status == Status.AWAITING_PAYMENT


# --- what becomes of it ----------------------------------------------------------------------------------------------
def test_it_can_be_paid_until_the_term_ends_at_the_latest(shop):
    term = running_term(shop)

    order = actions.extend_term(**wish(shop, term, at=local("2027-03-01") - timedelta(minutes=10)))

    assert order.hold_expires_at == local("2027-03-01")


def test_giving_up_an_extension_leaves_the_machine_its_cards(shop):
    term = running_term(shop)
    order = actions.extend_term(**wish(shop, term))

    actions.cancel_order(order_id=order.pk, actor=shop.owner, at=local("2027-02-20", 13))
    actions.cancel_unpaid(order_id=order.pk, at=local("2027-02-20", 14))

    term.refresh_from_db()
    order.refresh_from_db()
    assert (order.status, term.ended_at, shop.held) == (Status.CANCELLED, None, 2)
    assert Allocation.objects.filter(period__endswith__isnull=True).count() == 2
    assert actions.extend_term(**wish(shop, term, request_key="more-2")).status == Status.AWAITING_PAYMENT


def test_money_that_came_after_the_end_is_owed_back_whole(shop):
    term = running_term(shop)
    order = actions.extend_term(**wish(shop, term))
    actions.expire_subscription(subscription_id=term.pk, at=local("2027-03-01"))

    late = actions.confirm(order_id=order.pk, at=local("2027-03-01", 1))

    term.refresh_from_db()
    assert (late.status, term.ends_at, Extension.objects.count()) == (Status.FAILED, local("2027-03-01"), 0)
    refund, line = TermRefund.objects.get(), TermRefundLine.objects.get()
    assert (refund.rule, refund.amount_minor, line.amount_minor) == ("not_delivered", 256_000, 256_000)
    assert line.order_line == order.lines.get()


def test_an_extended_term_does_not_end_at_its_old_end(shop):
    term = running_term(shop)
    order = actions.extend_term(**wish(shop, term))
    actions.confirm(order_id=order.pk, at=local("2027-02-28", 23))

    assert actions.expire_subscription(subscription_id=term.pk, at=local("2027-03-01")) is None
    term.refresh_from_db()
    assert term.ended_at is None

    assert actions.expire_subscription(subscription_id=term.pk, at=local("2027-04-01", 2)) == local("2027-04-01")
    term.refresh_from_db()
    assert term.ended_at == local("2027-04-01")
    assert set(Order.objects.values_list("status", flat=True)) == {Status.ENDED}


# --- by itself -------------------------------------------------------------------------------------------------------
def test_a_term_can_be_set_to_renew_itself(shop):
    term = running_term(shop)

    actions.set_auto_renew(subscription_id=term.pk, on=True)

    term.refresh_from_db()
    assert term.auto_renew is True


def test_an_hourly_machine_cannot_renew_itself(shop):
    hourly = Subscription.objects.get(order_line__order=shop.place(at=BEGAN))

    with pytest.raises(actions.NotRunning):
        actions.set_auto_renew(subscription_id=hourly.pk, on=True)


def test_a_budget_that_refuses_orders_refuses_more_time_too(shop):
    term = running_term(shop)
    budgets.set_budget(
        organization=shop.organization, project=None, amount_minor=200_000, on_reached="block", actor=shop.owner,
        at=BEGAN,
    )  # fmt: skip

    with pytest.raises(actions.BudgetUsedUp):
        actions.extend_term(**wish(shop, term))

    assert Order.objects.filter(kind="renewal").count() == 0
