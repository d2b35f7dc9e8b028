"""What customers are told of their machines: with the move that makes it so, once, and not without it."""

from datetime import timedelta

import pytest
from django.db import transaction

from accounts.models import Delivery, Notification
from orders import actions as orders
from rentals import actions, orphans, outcomes, tasks
from rentals.models import Rental
from tests.rentals.support import NOON, advance, step
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def told(kind=None):
    rows = Notification.objects.order_by("pk")
    return list((rows.filter(kind=kind) if kind else rows).values_list("kind", "params"))


# --- ready, failed, lost ---------------------------------------------------------------------------------------------
def test_a_machine_that_runs_for_the_first_time_is_told_of_once(shop, engine):
    rental = shop.rental()
    assert told() == []

    advance(rental, to="running")

    notice = Notification.objects.get()
    assert (notice.organization, notice.kind, notice.fact) == (shop.organization, "rental_ready", str(rental.key))
    assert (notice.params, notice.page, notice.page_args) == (
        {"name": rental.name}, "rentals:detail", [str(rental.key)],
    )  # fmt: skip
    assert notice.created_at == rental.running_at
    assert Delivery.objects.get().user == shop.buyer
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=rental.running_at + timedelta(minutes=5))
    advance(rental, to="stopped")
    actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=rental.stopped_at + timedelta(minutes=5))
    advance(rental, to="running")
    assert told() == [("rental_ready", {"name": rental.name})]


def test_a_handover_that_is_undone_tells_nothing(shop, engine, monkeypatch):
    rental = shop.rental()
    advance(rental, to="verifying")
    monkeypatch.setattr(outcomes, "_hand_over", lambda *_args: 1 / 0)

    step(rental)

    assert (rental.status, told()) == ("verifying", [])
    monkeypatch.undo()


def test_a_machine_that_could_not_be_made_is_told_of_when_it_is_gone(shop, engine):
    engine.faults(boot_failures=1)
    rental = shop.rental()
    advance(rental, to="destroying")
    assert told() == []

    advance(rental, to="failed")

    assert told() == [("rental_failed", {"name": rental.name, "outcome": "gone"})]


def test_a_paid_machine_that_could_not_be_made_waits_and_its_owner_is_told_each_time(shop, engine):
    engine.faults(boot_failures=2)
    rental = shop.rental(term="month")
    advance(rental, to="needs_operator")
    actions.retry(rental_id=rental.pk, actor=shop.buyer, at=NOON + timedelta(hours=1))
    advance(rental, to="needs_operator")

    assert told() == [("rental_failed", {"name": rental.name, "outcome": "waiting"})] * 2


def test_a_start_that_fails_falls_back_and_says_so(shop, engine):
    rental = shop.running()
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=rental.running_at + timedelta(minutes=5))
    advance(rental, to="stopped")
    actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=rental.stopped_at + timedelta(minutes=5))
    engine.faults(boot_seconds=3600)
    advance(rental, to="booting")
    step(rental, at=rental.deadline_at)
    advance(rental, to="stopped")

    assert told("rental_failed") == [("rental_failed", {"name": rental.name, "outcome": "stopped"})]


def test_a_lost_machine_is_told_of_once_a_loss(shop, engine):
    rental = shop.running()
    at = rental.running_at
    for minute in range(4):
        orphans.miss(rental_id=rental.pk, at=at + timedelta(minutes=minute))

    assert told("rental_lost") == [("rental_lost", {"name": rental.name})]


def test_a_wish_and_its_end_are_told_nobody(shop, engine):
    rental = shop.running()
    Notification.objects.all().delete()
    actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=rental.running_at + timedelta(minutes=1))
    advance(rental, to="gone")

    assert told() == []


# --- terms -----------------------------------------------------------------------------------------------------------
@pytest.fixture
def term(shop):
    """A rental whose month began at NOON: it ends at 00:00 of 31 December in Shanghai."""
    rental = shop.rental(term="month")
    orders.start_term(subscription_id=rental.subscription_id, started_at=NOON)
    rental.subscription.refresh_from_db()
    return rental


def days(rental, before):
    return rental.subscription.ends_at - before


def test_a_term_is_told_of_7_3_and_1_days_before_its_end_once_each(term):
    ends_at = term.subscription.ends_at
    for before, expected in (
        (7 * DAY + timedelta(seconds=1), []),
        (7 * DAY, [7]),
        (5 * DAY, [7]),
        (3 * DAY, [7, 3]),
        (DAY, [7, 3, 1]),
        (timedelta(hours=1), [7, 3, 1]),
        (timedelta(0), [7, 3, 1]),
    ):
        for _time in range(2):
            actions.tell_of_ending_terms(at=ends_at - before)
        assert [params["days"] for _kind, params in told()] == expected

    assert told()[0] == ("rental_expiring", {"name": term.name, "days": 7, "date": "2026-12-30 23:59"})


def test_after_a_pause_only_what_fits_now_is_told(term):
    assert actions.tell_of_ending_terms(at=days(term, timedelta(hours=20))) == 1

    assert [params["days"] for _kind, params in told()] == [1]


def test_a_renewed_term_is_told_of_again(term):
    actions.tell_of_ending_terms(at=days(term, DAY))
    type(term.subscription).objects.update(ends_at=term.subscription.ends_at + 30 * DAY)
    term.subscription.refresh_from_db()

    actions.tell_of_ending_terms(at=days(term, DAY))

    assert [params["date"] for _kind, params in told()] == ["2026-12-30 23:59", "2027-01-29 23:59"]


def test_what_is_over_or_being_deleted_is_not_told_of(term):
    actions.request_terminate(rental_id=term.pk, actor=None, at=days(term, 2 * DAY))

    assert actions.tell_of_ending_terms(at=days(term, DAY)) == 0
    assert told() == []


@pytest.mark.django_db(transaction=True)
def test_sweeps_at_once_tell_once(shop):
    rental = shop.rental(term="month")
    orders.start_term(subscription_id=rental.subscription_id, started_at=NOON)
    rental = Rental.objects.select_related("subscription").get(pk=rental.pk)

    counts = at_once(*times(5, lambda _n: actions.tell_of_ending_terms(at=days(rental, DAY))))

    assert sum(counts) == 1
    assert len(told()) == 1


def test_the_sweep_reads_the_clock(term, time_machine):
    time_machine.move_to(days(term, DAY), tick=False)

    tasks.tell_of_ending_terms()

    assert [params["days"] for _kind, params in told()] == [1]


def test_a_move_that_is_rolled_back_takes_its_notice_with_it(shop, engine):
    rental = shop.running()
    orphans.miss(rental_id=rental.pk, at=rental.running_at)
    with transaction.atomic():
        orphans.miss(rental_id=rental.pk, at=rental.running_at)
        assert len(told("rental_lost")) == 1
        transaction.set_rollback(True)

    assert told("rental_lost") == []
