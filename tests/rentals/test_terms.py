"""What time does by itself: a term that is over stops and releases, a disk is kept its days and then deleted."""

from datetime import timedelta

import pytest

from orders.models import Order
from rentals import actions
from tests.rentals import support
from tests.rentals.support import advance, windows

pytestmark = pytest.mark.django_db


def test_a_term_stops_at_its_end_and_gives_its_cards_back(shop, engine):
    rental = shop.running(term="month")
    ends_at = rental.subscription.ends_at
    assert actions.enforce_terms(at=ends_at - timedelta(seconds=1)) == 0

    assert actions.enforce_terms(at=ends_at) == 1
    assert actions.enforce_terms(at=ends_at + timedelta(minutes=1)) == 0

    rental.refresh_from_db()
    rental.subscription.refresh_from_db()
    assert (rental.status, rental.subscription.ended_at) == ("stopping", ends_at)
    advance(rental, to="stopped")
    assert shop.free_cards() == 8
    assert Order.objects.get().status == "ended"
    with support.nothing_changes(rental), pytest.raises(actions.TermOver):
        actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=ends_at + timedelta(hours=1))


def test_a_term_that_ends_while_stopped_gives_its_cards_back(shop, engine):
    rental = shop.running(term="month")
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=rental.running_at + timedelta(hours=1))
    advance(rental, to="stopped")

    assert actions.enforce_terms(at=rental.subscription.ends_at) == 1

    rental.refresh_from_db()
    assert rental.status == "stopped"
    assert shop.free_cards() == 8
    assert actions.enforce_terms(at=rental.subscription.ends_at + timedelta(days=1)) == 0


def test_an_expired_disk_is_kept_its_days_and_then_deleted(shop, engine, settings):
    settings.EXPIRED_RETENTION_DAYS = 15
    rental = shop.running(term="month")
    ends_at = rental.subscription.ends_at
    actions.enforce_terms(at=ends_at)
    advance(rental, to="stopped")
    assert actions.enforce_terms(at=ends_at + timedelta(days=15) - timedelta(seconds=1)) == 0
    assert len(engine.machines()) == 1

    assert actions.enforce_terms(at=ends_at + timedelta(days=15)) == 1
    advance(rental, to="gone")

    assert engine.machines() == []


def test_a_stopped_hourly_machine_is_kept_its_days_and_billed_for_its_disk_until_then(shop, engine, settings):
    settings.STOPPED_RETENTION_DAYS = 15
    rental = shop.running()
    asked_at = rental.metered_from + timedelta(hours=1)
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=asked_at)
    advance(rental, to="stopped")
    assert actions.enforce_terms(at=rental.stopped_at + timedelta(days=14)) == 0
    ends_at = (rental.stopped_at + timedelta(days=15)).replace(microsecond=0) + timedelta(seconds=1)

    assert actions.enforce_terms(at=ends_at) == 1
    advance(rental, to="gone")

    disk = [row for row in windows(rental) if row[0] == "disk_gb_hour"]
    assert (disk[0][1], disk[-1][2]) == (asked_at, ends_at)
    assert sum(row[3] for row in disk) == (ends_at - asked_at).total_seconds()
    assert rental.events.get(kind="wish", what="kept_long_enough").actor is None


def test_a_running_hourly_machine_is_left_alone_however_long(shop, engine):
    rental = shop.running()

    assert actions.enforce_terms(at=rental.running_at + timedelta(days=400)) == 0
