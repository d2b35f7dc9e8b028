"""The whole way of a rental on the real demo engine: ordered, made, logged into, stopped, started, terminated, gone."""

import asyncio
import json
from datetime import timedelta

import asyncssh
import pytest

from catalog import inventory
from orders.models import Order
from rentals import actions
from rentals.models import Rental
from tests.rentals import support
from tests.rentals.support import NOON, advance, calls, statuses, windows

pytestmark = pytest.mark.django_db


def test_the_whole_loop(shop, engine):
    order = shop.order()
    (rental_id,) = actions.open_rentals(at=NOON)
    rental = Rental.objects.get(pk=rental_id)
    assert (rental.key, rental.name) == (order.lines.get().units[0], f"gpu-{rental.key.hex[:6]}")
    order.refresh_from_db()
    assert order.status == "provisioning"

    advance(rental, to="running")

    order.refresh_from_db()
    assert order.status == "active"
    assert statuses(rental) == ["reserved", "creating", "booting", "verifying", "running"]
    assert ("ensure", "ok") in calls(rental)
    assert calls(rental)[-1] == ("probe", "ok")
    assert (rental.meter, rental.metered_from) == ("card_hour", rental.running_at.replace(microsecond=0))
    assert NOON < rental.running_at < NOON + timedelta(seconds=60)
    held = inventory.placements([rental.key])[rental.key].serials
    seen = json.loads(asyncio.run(support.log_in(rental, shop.private_key)))
    assert sorted(card["serial"] for card in seen["cards"]) == sorted(held)
    with pytest.raises(asyncssh.PermissionDenied):
        asyncio.run(support.log_in(rental, asyncssh.generate_private_key("ssh-ed25519")))

    stopped_at = rental.metered_from + timedelta(minutes=30)
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=stopped_at)
    assert shop.free_cards() == 6
    advance(rental, to="stopped")
    assert shop.free_cards() == 8
    assert engine.machine()["state"] == "stopped"

    started_at = stopped_at + timedelta(hours=2)
    actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=started_at)
    assert shop.free_cards() == 6
    advance(rental, to="running")
    assert rental.generation == 1
    asyncio.run(support.log_in(rental, shop.private_key))

    began_again = rental.metered_from
    ended_at = began_again + timedelta(seconds=7)
    actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=ended_at)
    assert shop.free_cards() == 6
    advance(rental, to="gone")

    assert engine.machines() == []
    assert shop.free_cards() == 8
    order.refresh_from_db()
    assert order.status == "ended"
    assert [member.state for member in rental.members.all()] == ["gone"]
    # The timeline tells the call before what came of it.
    assert [event.what for event in rental.events.order_by("at", "pk")][-2:] == ["destroy", "gone"]
    first = rental.running_at.replace(microsecond=0)
    assert windows(rental) == [
        ("card_hour", first, stopped_at, 1800),
        ("disk_gb_hour", stopped_at, began_again, int((began_again - stopped_at).total_seconds())),
        ("card_hour", began_again, ended_at, 7),
    ]
    shop.organization.credit_line.refresh_from_db()
    assert shop.organization.credit_line.committed_minor == 0


def test_opening_twice_makes_one_rental(shop):
    order = shop.order(quantity=2)

    assert len(actions.open_rentals(at=NOON)) == 2
    assert actions.open_rentals(at=NOON) == []
    assert set(Rental.objects.values_list("key", flat=True)) == set(order.lines.get().units)


def test_an_order_is_active_when_all_its_units_run(shop, engine):
    order = shop.order(quantity=2)
    first, second = Rental.objects.filter(pk__in=actions.open_rentals(at=NOON))

    advance(first, to="running")
    order.refresh_from_db()
    assert order.status == "provisioning"
    advance(second, to="running")

    order.refresh_from_db()
    assert order.status == "active"


def test_a_term_starts_when_the_machine_was_logged_into_and_is_not_metered(shop, engine):
    rental = shop.running(term="month")

    subscription = rental.subscription
    assert subscription.started_at == rental.running_at.replace(microsecond=0)
    assert subscription.ends_at.isoformat() == "2026-12-30T16:00:00+00:00"
    assert (rental.meter, rental.metered_from) == ("", None)


def test_a_stopped_term_keeps_its_cards(shop, engine):
    rental = shop.running(term="month")
    at = rental.running_at + timedelta(hours=1)

    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=at)
    advance(rental, to="stopped")
    assert shop.free_cards() == 6

    actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=at + timedelta(hours=1))
    advance(rental, to="running")
    assert windows(rental) == []
    assert shop.free_cards() == 6


def test_terminate_while_creating_leaves_nothing_behind(shop, engine):
    rental = shop.rental()
    engine.faults(boot_seconds=30)
    support.step(rental)
    assert (rental.status, len(engine.machines())) == ("booting", 1)

    actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=NOON + timedelta(seconds=5))
    advance(rental, to="gone")

    assert engine.machines() == []
    assert shop.free_cards() == 8
    assert windows(rental) == []
    assert Order.objects.get().status == "ended"


def test_stop_and_terminate_repeated_change_nothing_more(shop, engine):
    rental = shop.running()
    at = rental.running_at + timedelta(minutes=1)
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=at)
    with support.nothing_changes(rental):
        actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=at + timedelta(minutes=1))
    actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=at + timedelta(minutes=2))
    with support.nothing_changes(rental):
        actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=at + timedelta(minutes=3))
    advance(rental, to="gone")
    with support.nothing_changes(rental), pytest.raises(actions.NotNow):
        actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=at + timedelta(minutes=4))


def test_start_without_free_cards_on_its_host_is_refused_and_changes_nothing(engine, db):
    shop = support.Shop(cards=8, hosts=2)
    rental = shop.running()
    at = rental.running_at + timedelta(minutes=1)
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=at)
    advance(rental, to="stopped")
    host = rental.members.get().host
    other = shop.rental(at=at)
    if other.members.get().host_id != host.pk:
        shop.rental(at=at)

    with support.nothing_changes(rental), pytest.raises(actions.NoCapacity):
        actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=at + timedelta(minutes=1))

    assert inventory.placements([rental.key]) == {}


def test_start_with_the_credit_used_up_is_refused_and_changes_nothing(shop, engine):
    rental = shop.running()
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=rental.running_at + timedelta(minutes=1))
    advance(rental, to="stopped")
    line = shop.organization.credit_line
    line.refresh_from_db()
    line.available_minor = line.committed_minor - 1
    line.save()

    with support.nothing_changes(rental), pytest.raises(actions.NoCredit):
        actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=rental.stopped_at + timedelta(minutes=1))

    assert shop.free_cards() == 8


def test_only_a_running_machine_can_be_stopped(shop):
    rental = shop.rental()

    with support.nothing_changes(rental), pytest.raises(actions.NotNow):
        actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=NOON)


def test_status_moves_only_along_the_table(shop):
    rental = actions.locked(shop.rental().pk)

    with support.nothing_changes(rental), pytest.raises(actions.IllegalMove):
        actions.move_rental(rental=rental, to="running", at=NOON)
