"""From the hour to a term without an interruption, and what a term that ends early pays back."""

from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.models import CreditLine
from orders import actions as orders
from orders.models import Order, Subscription, TermRefund, TermRefundLine
from orders.refunds import refunds_to_credit
from rentals import actions, metering
from rentals.models import Rental
from tests.rentals.support import NOON, advance, after, nothing_changes, windows

pytestmark = pytest.mark.django_db


def convert(shop, rental, *, at, **changes) -> Order:
    """A paid order for one month in place of the hour."""
    asked = {
        "subscription_id": rental.subscription_id,
        "actor": shop.buyer,
        "request_key": "convert-1",
        "term": "month",
        "periods": 1,
        "seen_rate": Decimal(1280),
    } | changes
    order = orders.convert_to_term(at=at, **asked)
    orders.confirm(order_id=order.pk, at=at + timedelta(minutes=2))
    return order


def test_the_hour_ends_and_the_term_begins_at_the_payment(shop, engine):
    rental = shop.running()
    hourly, began = rental.subscription, metering.whole_second(rental.running_at)
    asked = after(began, hours=1)
    paid = after(asked, minutes=2)
    order = convert(shop, rental, at=asked)

    assert actions.convert_rentals(at=after(paid, seconds=7)) == 1
    assert actions.convert_rentals(at=after(paid, seconds=9)) == 0

    rental.refresh_from_db()
    hourly.refresh_from_db()
    order.refresh_from_db()
    term = rental.subscription
    assert (rental.status, rental.meter, rental.metered_from) == ("running", "", None)
    assert windows(rental) == [("card_hour", began, paid, 3720)]
    assert hourly.ended_at == paid
    assert (term.term, term.started_at, term.anchor_day) == ("month", paid, 30)
    assert term.order_line == order.lines.get()
    assert order.status == "active"
    assert hourly.order_line.order.status == "ended"
    assert CreditLine.objects.get().committed_minor == 0
    assert shop.free_cards() == 6
    assert engine.machine()["name"]  # the machine is the same one, and still there
    assert actions.open_rentals(at=after(paid, seconds=9)) == []


def test_what_was_metered_after_the_payment_is_taken_back(shop, engine):
    rental = shop.running()
    began = metering.whole_second(rental.running_at)
    convert(shop, rental, at=after(began, hours=1))
    metering.close_through(organization_id=None, until=after(began, hours=2))

    actions.convert_rentals(at=after(began, hours=2))

    rental.refresh_from_db()
    (usage,) = metering.unbilled_and_open(rental=rental, at=after(began, hours=9))
    assert usage.seconds == 3720


def test_the_new_term_runs_stops_and_extends_like_any_other(shop, engine):
    rental = shop.running()
    convert(shop, rental, at=after(rental.running_at, hours=1))
    actions.convert_rentals(at=after(rental.running_at, hours=2))
    rental.refresh_from_db()
    ends_at = rental.subscription.ends_at

    more = orders.extend_term(
        subscription_id=rental.subscription_id,
        actor=shop.buyer,
        request_key="more",
        term="month",
        periods=1,
        seen_rate=Decimal(1280),
        at=after(rental.running_at, hours=3),
    )
    orders.confirm(order_id=more.pk, at=after(rental.running_at, hours=3))

    assert actions.enforce_terms(at=ends_at) == 0
    rental.subscription.refresh_from_db()
    assert actions.enforce_terms(at=rental.subscription.ends_at) == 1


def test_a_machine_that_is_on_its_way_is_waited_for(shop, engine):
    rental = shop.running()
    convert(shop, rental, at=after(rental.running_at, hours=1))
    Rental.objects.filter(pk=rental.pk).update(status="lost")

    with nothing_changes(Rental.objects.get(pk=rental.pk)):
        assert actions.convert_rentals(at=after(rental.running_at, hours=2)) == 0

    assert Order.objects.get(kind="conversion").status == "confirmed"


def test_a_machine_that_was_stopped_meanwhile_gets_its_money_back(shop, engine):
    rental = shop.running()
    order = convert(shop, rental, at=after(rental.running_at, hours=1))
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=after(rental.running_at, hours=2))
    advance(rental, to="stopped")

    with nothing_changes(rental):
        assert actions.convert_rentals(at=after(rental.running_at, hours=2)) == 1

    order.refresh_from_db()
    assert order.status == "failed"
    (line,) = refunds_to_credit()
    assert (line.order_line, line.amount_minor, line.refund.rule) == (order.lines.get(), 256_000, "not_delivered")
    assert Subscription.objects.get(order_line__order=order).ended_at is not None


def test_without_a_payment_the_hour_goes_on(shop, engine):
    rental = shop.running()
    order = orders.convert_to_term(
        subscription_id=rental.subscription_id,
        actor=shop.buyer,
        request_key="convert-1",
        term="month",
        periods=1,
        seen_rate=Decimal(1280),
        at=after(rental.running_at, hours=1),
    )
    orders.begin_expiring(at=after(rental.running_at, hours=2))
    orders.cancel_unpaid(order_id=order.pk, at=after(rental.running_at, hours=2))

    with nothing_changes(rental):
        assert actions.convert_rentals(at=after(rental.running_at, hours=3)) == 0

    assert shop.free_cards() == 6


# --- ending a term early ---------------------------------------------------------------------------------------------
def test_within_five_days_all_but_the_hours_used_is_paid_back_once(shop, engine):
    first, second = shop.running(term="month"), shop.running(term="month")
    at = after(first.running_at, hours=10)

    actions.end_early(rental_id=first.pk, actor=shop.buyer, at=at)
    actions.end_early(rental_id=first.pk, actor=shop.buyer, at=at)
    actions.end_early(rental_id=second.pk, actor=shop.buyer, at=at)

    one, other = TermRefund.objects.order_by("pk")
    # ¥2,560.00 less 10 hours × 2 cards × ¥2.50
    assert (one.rule, one.paid_minor, one.amount_minor) == ("five_days_once", 256_000, 251_000)
    assert (other.rule, other.paid_minor, other.amount_minor) == ("none", 256_000, 0)
    assert [line.amount_minor for line in refunds_to_credit()] == [251_000]
    first.refresh_from_db()
    assert (first.status, first.subscription.ended_at) == ("destroying", at)


def test_after_five_days_nothing_is_paid_back(shop, engine):
    rental = shop.running(term="month")

    actions.end_early(rental_id=rental.pk, actor=shop.buyer, at=after(rental.subscription.started_at, days=5))

    assert TermRefund.objects.get().amount_minor == 0
    assert list(refunds_to_credit()) == []


def test_what_is_left_of_the_term_by_the_second(shop, engine, settings):
    settings.ORDERS_REFUND_RULE = "prorated"
    rental = shop.running(term="month")
    start, end = rental.subscription.started_at, rental.subscription.ends_at
    middle = start + (end - start) / 2

    actions.end_early(rental_id=rental.pk, actor=shop.buyer, at=middle)

    refund = TermRefund.objects.get()
    assert (refund.rule, refund.amount_minor) == ("prorated", 128_000)


def test_an_extension_that_has_not_begun_is_paid_back_whole(shop, engine, settings):
    settings.ORDERS_REFUND_RULE = "prorated"
    rental = shop.running(term="month")
    start, end = rental.subscription.started_at, rental.subscription.ends_at
    more = orders.extend_term(
        subscription_id=rental.subscription_id,
        actor=shop.buyer,
        request_key="more",
        term="month",
        periods=2,
        seen_rate=Decimal(1280),
        at=after(NOON, hours=1),
    )
    orders.confirm(order_id=more.pk, at=after(NOON, hours=1))

    actions.end_early(rental_id=rental.pk, actor=shop.buyer, at=start + (end - start) / 2)

    assert [(line.order_line.order.kind, line.amount_minor) for line in refunds_to_credit()] == [
        ("new", 128_000),
        ("renewal", 512_000),
    ]


def test_the_setting_may_pay_nothing_back(shop, engine, settings):
    settings.ORDERS_REFUND_RULE = "none"
    rental = shop.running(term="month")

    actions.end_early(rental_id=rental.pk, actor=shop.buyer, at=after(rental.running_at, minutes=1))

    assert (TermRefund.objects.get().amount_minor, TermRefundLine.objects.count()) == (0, 0)


def test_a_term_that_never_began_is_paid_back_whole(shop, engine, settings):
    settings.ORDERS_REFUND_RULE = "none"
    rental = shop.rental(term="month")

    actions.end_early(rental_id=rental.pk, actor=shop.buyer, at=after(NOON, minutes=1))

    refund = TermRefund.objects.get()
    assert (refund.rule, refund.amount_minor) == ("not_delivered", 256_000)


def test_a_machine_by_the_hour_ends_without_any(shop, engine):
    rental = shop.running()

    actions.end_early(rental_id=rental.pk, actor=shop.buyer, at=after(rental.running_at, hours=1))

    assert TermRefund.objects.count() == 0


def test_what_is_over_is_refused_and_owes_nothing_back(shop, engine):
    rental = shop.running(term="month")
    Rental.objects.filter(pk=rental.pk).update(status="destroying")
    Rental.objects.filter(pk=rental.pk).update(status="gone")

    with pytest.raises(actions.NotNow):
        actions.end_early(rental_id=rental.pk, actor=shop.buyer, at=after(rental.running_at, hours=1))

    assert TermRefund.objects.count() == 0


def test_a_credit_is_made_once(shop, engine):
    rental = shop.rental(term="month")
    actions.end_early(rental_id=rental.pk, actor=shop.buyer, at=after(NOON, minutes=1))
    (line,) = refunds_to_credit()

    assert orders.mark_refund_credited(refund_line_id=line.pk, at=NOON) is True
    assert orders.mark_refund_credited(refund_line_id=line.pk, at=NOON) is False
    assert list(refunds_to_credit()) == []
