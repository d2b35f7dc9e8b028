"""A new term for a machine whose last one is over: the same cards if they are still free, else the money back."""

from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.urls import reverse

from catalog import inventory
from catalog.models import Gpu
from orders import actions as orders
from orders.models import TermRefund
from rentals import actions
from rentals.models import Rental
from tests.rentals.support import Shop, advance, windows
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


@pytest.fixture
def kept(shop, engine):
    """Its month is over, it is stopped and its cards are free."""
    rental = shop.running(term="month")
    actions.enforce_terms(at=rental.subscription.ends_at)
    advance(rental, to="stopped")
    assert shop.free_cards() == 8
    return rental


def new_term(shop, rental, *, at, key="again-1"):
    return orders.convert_to_term(
        subscription_id=rental.subscription_id, actor=shop.buyer, request_key=key, term="month", periods=1,
        seen_rate=Decimal(1280), at=at,
    )  # fmt: skip


def cards_of(rental):
    return sorted(Gpu.objects.filter(holder=rental.key).values_list("serial", flat=True))


def take(shop, count, *, at):
    with transaction.atomic():
        inventory.claim(pool_id=shop.pool.pk, cards_per_unit=count, holders=[uuid4()], at=at)


def test_paid_in_time_the_same_cards_and_the_same_disk_come_back(shop, engine, kept):
    before, old, ended = sorted(kept.members.get().cards), kept.subscription, kept.subscription.ends_at
    order = new_term(shop, kept, at=ended + DAY)
    assert (order.status, shop.free_cards()) == ("awaiting_payment", 8)
    orders.confirm(order_id=order.pk, at=ended + 2 * DAY)
    paid = ended + 2 * DAY + MINUTE

    assert actions.convert_rentals(at=paid) == 1
    assert actions.convert_rentals(at=paid + MINUTE) == 0

    kept.refresh_from_db()
    assert (kept.status, kept.desired, cards_of(kept), shop.free_cards()) == ("starting", "running", before, 6)
    assert kept.subscription.started_at is None
    advance(kept, to="running")
    order.refresh_from_db()
    old.refresh_from_db()
    term = kept.subscription
    term.refresh_from_db()
    assert (order.status, old.ended_at, old.ends_at) == ("active", ended, ended)
    assert term.started_at == kept.running_at.replace(microsecond=0) or term.started_at >= paid
    assert term.ends_at > paid + 27 * DAY
    assert (len(engine.machines()), windows(kept)) == (1, [])
    assert actions.enforce_terms(at=ended + 20 * DAY) == 0  # the old days of keeping no longer count


def test_where_other_cards_than_its_own_are_free_the_order_fails_and_all_is_owed_back(shop, kept):
    ended = kept.subscription.ends_at
    order = new_term(shop, kept, at=ended + DAY)
    take(shop, 2, at=ended + DAY)  # the first two of eight are its own
    assert (
        set(kept.members.get().cards) & set(Gpu.objects.filter(holder=None).values_list("serial", flat=True)) == set()
    )
    orders.confirm(order_id=order.pk, at=ended + 2 * DAY)

    assert actions.convert_rentals(at=ended + 2 * DAY) == 1

    order.refresh_from_db()
    kept.refresh_from_db()
    assert (order.status, kept.status, cards_of(kept), shop.free_cards()) == ("failed", "stopped", [], 6)
    assert TermRefund.objects.count() == 1
    assert kept.subscription.ended_at == ended
    assert actions.enforce_terms(at=ended + 15 * DAY) == 1  # and its own days run on


def test_a_reservation_that_needs_the_cards_goes_first(shop, kept):
    ended = kept.subscription.ends_at
    order = new_term(shop, kept, at=ended + DAY)
    orders.confirm(order_id=order.pk, at=ended + DAY)
    shop.pool.reservations.create(cards=8, note="x", period=DateTimeTZRange(ended + 5 * DAY, ended + 9 * DAY))

    actions.convert_rentals(at=ended + DAY)

    order.refresh_from_db()
    assert (order.status, shop.free_cards()) == ("failed", 8)


def test_a_machine_that_was_deleted_meanwhile_gives_the_money_back(shop, kept):
    ended = kept.subscription.ends_at
    order = new_term(shop, kept, at=ended + DAY)
    actions.request_terminate(rental_id=kept.pk, actor=shop.buyer, at=ended + DAY)
    orders.confirm(order_id=order.pk, at=ended + DAY)

    actions.convert_rentals(at=ended + DAY)

    order.refresh_from_db()
    assert (order.status, TermRefund.objects.count(), shop.free_cards()) == ("failed", 1, 8)


def test_the_hold_ends_with_the_keeping(shop, kept, settings):
    settings.ORDER_HOLD_MINUTES = 60 * 24 * 30
    ended = kept.subscription.ends_at

    assert new_term(shop, kept, at=ended + DAY).hold_expires_at == ended + 15 * DAY


@pytest.mark.parametrize("days", [15, 16])
def test_after_its_days_it_is_refused(shop, kept, days):
    with pytest.raises(orders.NotRunning):
        new_term(shop, kept, at=kept.subscription.ends_at + days * DAY)


def test_a_term_that_its_customer_ended_early_is_not_offered_another(shop, engine):
    rental = shop.running(term="month")
    at = rental.running_at + DAY
    actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=at)

    with pytest.raises(orders.NotRunning):
        new_term(shop, rental, at=at + MINUTE)


def test_one_that_is_just_being_stopped_is_waited_for(shop, engine):
    rental = shop.running(term="month")
    ended = rental.subscription.ends_at
    actions.enforce_terms(at=ended)
    order = new_term(shop, rental, at=ended + MINUTE)
    orders.confirm(order_id=order.pk, at=ended + MINUTE)

    assert actions.convert_rentals(at=ended + MINUTE) == 0
    advance(rental, to="stopped")
    assert actions.convert_rentals(at=ended + 2 * MINUTE) == 1

    assert Rental.objects.get().status == "starting"


@pytest.mark.django_db(transaction=True)
def test_sweeps_at_once_take_the_cards_once(engine):
    shop = Shop()
    rental = shop.running(term="month")
    ended = rental.subscription.ends_at
    actions.enforce_terms(at=ended)
    advance(rental, to="stopped")
    order = new_term(shop, rental, at=ended + DAY)
    orders.confirm(order_id=order.pk, at=ended + DAY)

    done = at_once(*times(4, lambda _n: actions.convert_rentals(at=ended + DAY)))

    assert (sum(done), shop.free_cards(), len(cards_of(rental))) == (1, 6, 2)
    assert rental.events.filter(what="restored").count() == 1


# --- its page --------------------------------------------------------------------------------------------------------
def test_the_page_offers_a_new_term_instead_of_a_start(client, shop, kept, time_machine):
    time_machine.move_to(kept.subscription.ends_at + DAY, tick=False)
    client.force_login(shop.buyer)
    client.cookies["django_language"] = "en"

    shown = client.get(reverse("rentals:detail", args=[kept.key])).content.decode()
    assert reverse("rentals:restore", args=[kept.key]) in shown
    assert reverse("rentals:start", args=[kept.key]) not in shown

    asked = client.get(reverse("rentals:restore", args=[kept.key])).content.decode()
    assert "the same cards again, if they are still free" in asked
    assert "¥2,560.00" in asked


def test_a_machine_that_runs_is_not_offered_one(client, shop, engine):
    rental = shop.running()
    client.force_login(shop.buyer)
    client.cookies["django_language"] = "en"

    shown = client.get(reverse("rentals:restore", args=[rental.key])).content.decode()

    assert "Only a machine whose term is over" in shown
