"""What happens to an order after it was placed: payment, expiry, start, end."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError, transaction

from catalog.models import Allocation, Host
from orders import actions
from orders.models import Order, OrderEvent, Subscription
from tests.factories import NOON

pytestmark = pytest.mark.django_db
LATER = NOON + timedelta(minutes=31)


@pytest.fixture(autouse=True)
def rules(settings):
    settings.HEADROOM_HOURS = 24
    settings.ORDER_HOLD_MINUTES = 30


def statuses(order):
    return list(order.events.values_list("status", flat=True))


# --- moving ----------------------------------------------------------------------------------------------------------
def test_an_illegal_move_changes_nothing(shop):
    order = shop.place(term="month")

    with pytest.raises(actions.IllegalMove):
        actions.move_order(order_id=order.pk, to="active", actor=None, at=NOON)

    order.refresh_from_db()
    assert order.status == "awaiting_payment"
    assert statuses(order) == ["awaiting_payment"]


def test_the_database_refuses_an_illegal_move_too(shop):
    order = shop.place(term="month")

    with pytest.raises(DatabaseError), transaction.atomic():
        Order.objects.filter(pk=order.pk).update(status="active")


def test_events_are_append_only(shop):
    order = shop.place()

    with pytest.raises(DatabaseError), transaction.atomic():
        OrderEvent.objects.filter(order=order).update(note="edited")


# --- paying ----------------------------------------------------------------------------------------------------------
def test_a_paid_order_is_confirmed_once_with_a_subscription_per_unit(shop):
    order = shop.place(term="month", periods=2, quantity=3)

    actions.confirm(order_id=order.pk, at=LATER)
    actions.confirm(order_id=order.pk, at=LATER + timedelta(hours=1))

    order.refresh_from_db()
    assert (order.status, order.paid_at) == ("confirmed", LATER)
    assert statuses(order) == ["awaiting_payment", "confirmed"]
    made = Subscription.objects.filter(order_line__order=order)
    assert {one.unit for one in made} == set(order.lines.get().units)
    assert {(one.term, one.periods, one.cards, one.headroom_minor) for one in made} == {("month", 2, 2, 0)}


def test_money_that_comes_while_it_expires_still_confirms(shop):
    order = shop.place(term="month")
    actions.begin_expiring(at=LATER)

    assert actions.confirm(order_id=order.pk, at=LATER).status == "confirmed"
    assert shop.held == 2


def test_money_that_comes_after_the_cards_are_gone_says_so(shop):
    order = shop.place(term="month")
    actions.begin_expiring(at=LATER)
    actions.cancel_unpaid(order_id=order.pk, at=LATER)

    with pytest.raises(actions.HoldGone):
        actions.confirm(order_id=order.pk, at=LATER)

    order.refresh_from_db()
    assert (order.status, order.paid_at) == ("cancelled", None)
    assert not Subscription.objects.exists()


# --- expiring --------------------------------------------------------------------------------------------------------
def test_a_hold_expires_at_its_instant_and_keeps_its_cards_until_settled(shop):
    order = shop.place(term="month")

    assert actions.begin_expiring(at=NOON + timedelta(minutes=29, seconds=59)) == []
    assert actions.begin_expiring(at=NOON + timedelta(minutes=30)) == [order.pk]
    assert actions.begin_expiring(at=LATER) == []
    assert shop.held == 2

    actions.cancel_unpaid(order_id=order.pk, at=LATER)
    actions.cancel_unpaid(order_id=order.pk, at=LATER)

    assert statuses(order) == ["awaiting_payment", "expiring", "cancelled"]
    assert shop.held == 0
    assert Host.objects.get().cards_free == 8
    assert {allocation.period.upper for allocation in Allocation.objects.all()} == {LATER}


def test_hourly_and_paid_orders_never_expire(shop):
    shop.place()
    paid = shop.place(term="month")
    actions.confirm(order_id=paid.pk, at=NOON)

    assert actions.begin_expiring(at=NOON + timedelta(days=9)) == []


def test_an_order_that_was_paid_after_all_keeps_its_cards(shop):
    order = shop.place(term="month")
    actions.begin_expiring(at=LATER)
    actions.confirm(order_id=order.pk, at=LATER)

    with pytest.raises(actions.IllegalMove):
        actions.cancel_unpaid(order_id=order.pk, at=LATER)

    order.refresh_from_db()
    assert order.status == "confirmed"
    assert shop.held == 2
    assert Subscription.objects.get().ended_at is None


def test_only_an_expiring_order_can_be_settled_as_unpaid(shop):
    order = shop.place(term="month")

    with pytest.raises(actions.IllegalMove):
        actions.cancel_unpaid(order_id=order.pk, at=NOON)

    assert shop.held == 2


def test_the_customer_cancels_by_expiring_it_now(shop):
    order = shop.place(term="month")

    actions.cancel_order(order_id=order.pk, actor=shop.owner, at=NOON)
    actions.cancel_order(order_id=order.pk, actor=shop.owner, at=NOON)

    assert [(event.status, event.actor) for event in order.events.all()] == [
        ("awaiting_payment", shop.owner),
        ("expiring", shop.owner),
    ]
    assert shop.held == 2


def test_a_confirmed_order_cannot_be_cancelled(shop):
    order = shop.place()

    with pytest.raises(actions.IllegalMove):
        actions.cancel_order(order_id=order.pk, actor=shop.owner, at=NOON)

    assert (Order.objects.get().status, shop.held, shop.committed) == ("confirmed", 2, 12_000)


# --- running ---------------------------------------------------------------------------------------------------------
def test_a_term_starts_once_and_ends_at_local_midnight(shop):
    order = shop.place(term="month", periods=3)
    actions.confirm(order_id=order.pk, at=NOON)
    subscription = Subscription.objects.get()

    actions.start_term(subscription_id=subscription.pk, started_at=NOON)
    actions.start_term(subscription_id=subscription.pk, started_at=LATER)

    subscription.refresh_from_db()
    # 30 November + 3 months: 28 February is the last day
    assert (subscription.started_at, subscription.anchor_day, subscription.ends_at) == (
        NOON,
        30,
        datetime(2027, 2, 28, 16, 0, tzinfo=UTC),
    )


def test_an_hourly_subscription_only_notes_its_start(shop):
    shop.place()
    subscription = Subscription.objects.get()

    actions.start_term(subscription_id=subscription.pk, started_at=NOON)

    subscription.refresh_from_db()
    assert (subscription.started_at, subscription.anchor_day, subscription.ends_at) == (NOON, None, None)


def test_the_order_ends_with_its_last_subscription(shop):
    order = shop.place(quantity=2)
    actions.mark_provisioning(order_id=order.pk, at=NOON)
    actions.mark_provisioning(order_id=order.pk, at=NOON)
    actions.mark_active(order_id=order.pk, at=NOON)
    actions.mark_active(order_id=order.pk, at=NOON)
    first, second = Subscription.objects.order_by("pk")

    assert actions.end_subscription(subscription_id=first.pk, at=LATER)
    assert not actions.end_subscription(subscription_id=first.pk, at=LATER + timedelta(days=1))
    assert (shop.committed, Order.objects.get().status) == (12_000, "active")

    assert actions.end_subscription(subscription_id=second.pk, at=LATER)
    assert (shop.committed, Order.objects.get().status) == (0, "ended")
    assert set(Subscription.objects.values_list("ended_at", flat=True)) == {LATER}
    assert statuses(order) == ["confirmed", "provisioning", "active", "ended"]


def test_an_order_of_which_nothing_ran_fails_and_gives_its_headroom_back(shop):
    order = shop.place(quantity=2)
    actions.mark_provisioning(order_id=order.pk, at=NOON)

    actions.fail_order(order_id=order.pk, at=LATER, note="no host came up")
    actions.fail_order(order_id=order.pk, at=LATER)

    assert (shop.committed, Order.objects.get().status) == (0, "failed")
    assert order.events.get(status="failed").note == "no host came up"
    assert set(Subscription.objects.values_list("ended_at", flat=True)) == {LATER}


def test_an_active_order_cannot_fail(shop):
    order = shop.place()
    actions.mark_provisioning(order_id=order.pk, at=NOON)
    actions.mark_active(order_id=order.pk, at=NOON)

    with pytest.raises(actions.IllegalMove):
        actions.fail_order(order_id=order.pk, at=LATER)

    assert (shop.committed, Order.objects.get().status, Subscription.objects.get().ended_at) == (12_000, "active", None)
