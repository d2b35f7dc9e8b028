"""The platform keeps a machine off whatever is desired, and lets it go on: cards, meters, disk, steps, notices."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import IntegrityError, InternalError, connection, transaction

from accounts.models import Notification
from catalog import inventory
from rentals import actions, orphans, outcomes, reconcile
from rentals.models import Rental
from tests.rentals import support
from tests.rentals.support import advance, statuses, windows

pytestmark = pytest.mark.django_db

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
ARREARS, OPERATOR = Rental.Suspension.ARREARS, Rental.Suspension.OPERATOR


def suspended(rental, *, at=None, reason=ARREARS):
    actions.suspend(rental_id=rental.pk, reason=reason, actor=None, at=at or rental.metered_from + HOUR)
    return advance(rental, to="suspended")


def told(kind):
    return Notification.objects.filter(kind=kind).count()


def test_a_running_machine_is_switched_off_and_its_disk_billed_from_that_instant(shop, engine):
    rental = shop.running()
    began, at = rental.metered_from, rental.metered_from + HOUR

    actions.suspend(rental_id=rental.pk, reason=ARREARS, actor=None, at=at)

    rental.refresh_from_db()
    assert (rental.status, rental.desired, rental.suspension, rental.suspended_at) == (
        "stopping", "running", "arrears", at,
    )  # fmt: skip
    advance(rental, to="suspended")
    assert windows(rental) == [("card_hour", began, at, 3600)]
    assert (rental.meter, rental.metered_from, rental.desired) == ("disk_gb_hour", at, "running")
    assert (shop.free_cards(), engine.machine()["state"]) == (8, "stopped")
    assert statuses(rental)[-2:] == ["stopping", "suspended"]
    assert list(rental.events.filter(kind="wish").values_list("what", flat=True)) == ["suspend_arrears"]


def test_suspending_twice_changes_nothing(shop, engine):
    rental = suspended(shop.running())

    with support.nothing_changes(rental):
        actions.suspend(rental_id=rental.pk, reason=ARREARS, actor=None, at=rental.suspended_at + HOUR)


def test_a_stopped_machine_is_suspended_at_once_and_stays_stopped_afterwards(shop, engine):
    rental = shop.running()
    stop_at = rental.metered_from + MINUTE
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=stop_at)
    advance(rental, to="stopped")
    at = stop_at + HOUR

    actions.suspend(rental_id=rental.pk, reason=ARREARS, actor=None, at=at)
    rental.refresh_from_db()
    assert (rental.status, rental.desired, rental.meter, rental.metered_from) == (
        "suspended", "stopped", "disk_gb_hour", stop_at,
    )  # fmt: skip
    actions.resume(rental_id=rental.pk, actor=None, at=at + HOUR)

    rental.refresh_from_db()
    assert (rental.status, rental.suspension, rental.suspended_at, rental.stopped_at) == (
        "stopped",
        "",
        None,
        at + HOUR,
    )
    assert windows(rental)[-1][0] == "card_hour"


def test_a_machine_that_is_just_being_stopped_arrives_suspended(shop, engine):
    rental = shop.running()
    stop_at = rental.metered_from + MINUTE
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=stop_at)

    actions.suspend(rental_id=rental.pk, reason=ARREARS, actor=None, at=stop_at + MINUTE)
    advance(rental, to="suspended")

    assert (rental.desired, rental.metered_from, shop.free_cards()) == ("stopped", stop_at, 8)


def test_a_machine_that_is_not_ready_or_lost_or_over_is_not_suspended(shop, engine):
    coming = shop.rental()
    gone = shop.running()
    actions.request_terminate(rental_id=gone.pk, actor=None, at=gone.metered_from + MINUTE)
    for rental in (coming, gone):
        with support.nothing_changes(rental), pytest.raises(actions.NotNow):
            actions.suspend(rental_id=rental.pk, reason=ARREARS, actor=None, at=support.NOON + HOUR)


def test_the_customer_can_neither_start_nor_stop_a_suspended_machine(shop, engine):
    rental = shop.running()
    actions.suspend(rental_id=rental.pk, reason=ARREARS, actor=None, at=rental.metered_from + HOUR)
    with support.nothing_changes(rental), pytest.raises(actions.Suspended):
        actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=rental.metered_from + HOUR)
    advance(rental, to="suspended")

    with support.nothing_changes(rental), pytest.raises(actions.Suspended) as refusal:
        actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=rental.suspended_at + HOUR)

    assert refusal.value.code == "suspended"
    assert str(refusal.value.next_step) == "请充值或支付未付款项，实例随后会自动恢复。"
    assert shop.free_cards() == 8


def test_a_suspended_machine_can_be_terminated(shop, engine):
    rental = suspended(shop.running())
    ends_at = rental.suspended_at + HOUR

    actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=ends_at)
    advance(rental, to="gone")

    assert (rental.suspension, engine.machines(), shop.free_cards()) == ("", [], 8)
    assert windows(rental)[-1] == ("disk_gb_hour", ends_at - HOUR, ends_at, 3600)


def test_resumed_a_machine_that_ran_runs_again_with_the_same_meter_rate_and_key(shop, engine):
    rental = suspended(shop.running())
    before = (rental.host_key, rental.generation, rental.subscription_id)

    actions.resume(rental_id=rental.pk, actor=None, at=rental.suspended_at + HOUR)
    assert shop.free_cards() == 6
    advance(rental, to="running")

    assert (rental.host_key, rental.generation, rental.subscription_id) == before
    assert (rental.meter, rental.suspension, len(engine.machines())) == ("card_hour", "", 1)
    assert [row[0] for row in windows(rental)] == ["card_hour", "disk_gb_hour"]
    assert windows(rental)[1][2] == rental.metered_from


def test_resuming_twice_changes_nothing(shop, engine):
    rental = suspended(shop.running())
    actions.resume(rental_id=rental.pk, actor=None, at=rental.suspended_at + HOUR)

    with support.nothing_changes(rental):
        actions.resume(rental_id=rental.pk, actor=None, at=support.NOON + 5 * HOUR)


def test_without_free_cards_it_is_left_stopped_and_the_customer_told(shop, engine):
    rental = suspended(shop.running())
    at = rental.suspended_at + HOUR
    with transaction.atomic():
        inventory.claim(pool_id=shop.pool.pk, cards_per_unit=8, holders=[uuid4()], at=at)

    actions.resume(rental_id=rental.pk, actor=None, at=at)

    rental.refresh_from_db()
    assert (rental.status, rental.desired, rental.suspension, rental.stopped_at) == ("stopped", "stopped", "", at)
    assert (rental.meter, told("rental_not_resumed")) == ("disk_gb_hour", 1)
    with support.nothing_changes(rental), pytest.raises(actions.NoCapacity):
        actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=at + HOUR)


def test_it_is_not_resumed_while_it_is_being_switched_off(shop, engine):
    rental = shop.running()
    actions.suspend(rental_id=rental.pk, reason=ARREARS, actor=None, at=rental.metered_from + HOUR)

    with support.nothing_changes(rental), pytest.raises(actions.NotNow):
        actions.resume(rental_id=rental.pk, actor=None, at=rental.metered_from + HOUR)


def test_what_our_staff_suspends_stays_suspended_for_arrears_too(shop, engine):
    rental = suspended(shop.running())

    actions.suspend(rental_id=rental.pk, reason=OPERATOR, actor=None, at=rental.suspended_at + HOUR)
    rental.refresh_from_db()
    assert (rental.status, rental.suspension) == ("suspended", "operator")

    with support.nothing_changes(rental):
        actions.suspend(rental_id=rental.pk, reason=ARREARS, actor=None, at=rental.suspended_at + HOUR)


def test_staff_suspension_is_told_once_a_machine_and_arrears_are_not(shop, engine):
    suspended(shop.running())
    assert told("rental_suspended") == 0

    suspended(shop.running(), reason=OPERATOR)

    assert told("rental_suspended") == 1


def test_a_suspended_term_keeps_its_cards_its_price_and_its_end(shop, engine):
    rental = shop.running(term="month")
    ends_at, rate = rental.subscription.ends_at, rental.subscription.rate

    actions.suspend(rental_id=rental.pk, reason=OPERATOR, actor=None, at=rental.running_at + HOUR)
    advance(rental, to="suspended")
    assert (shop.free_cards(), rental.meter, windows(rental)) == (6, "", [])
    actions.resume(rental_id=rental.pk, actor=None, at=rental.running_at + 2 * HOUR)
    advance(rental, to="running")

    rental.subscription.refresh_from_db()
    assert (rental.subscription.ends_at, rental.subscription.rate, shop.free_cards()) == (ends_at, rate, 6)


def test_a_term_that_ends_while_suspended_gives_its_cards_back_and_is_kept_its_days(shop, engine, settings):
    settings.EXPIRED_RETENTION_DAYS = 15
    rental = shop.running(term="month")
    ends_at = rental.subscription.ends_at
    actions.suspend(rental_id=rental.pk, reason=OPERATOR, actor=None, at=rental.running_at + HOUR)
    advance(rental, to="suspended")

    assert actions.enforce_terms(at=ends_at) == 1
    assert actions.enforce_terms(at=ends_at + timedelta(days=14)) == 0
    rental.refresh_from_db()
    assert (rental.status, shop.free_cards()) == ("suspended", 8)
    actions.resume(rental_id=rental.pk, actor=None, at=ends_at + timedelta(days=14))
    rental.refresh_from_db()
    assert rental.status == "stopped"

    assert actions.enforce_terms(at=ends_at + timedelta(days=15)) == 1


def test_the_days_of_a_stop_do_not_delete_a_suspended_machine(shop, engine, settings):
    settings.STOPPED_RETENTION_DAYS = 15
    rental = shop.running()
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=rental.metered_from + MINUTE)
    advance(rental, to="stopped")
    actions.suspend(rental_id=rental.pk, reason=ARREARS, actor=None, at=rental.stopped_at + timedelta(days=14))

    assert actions.enforce_terms(at=rental.stopped_at + timedelta(days=400)) == 0

    rental.refresh_from_db()
    assert (rental.status, len(engine.machines())) == ("suspended", 1)


def test_a_suspension_while_the_engine_is_asked_wins(shop, engine):
    """The claim was taken for a plain stop; what comes of it is dropped and asked again."""
    rental = shop.running()
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=rental.metered_from + MINUTE)
    advance(rental, to="stopping")
    claimed = reconcile._claim(rental.pk, rental.next_step_at)
    actions.suspend(rental_id=rental.pk, reason=ARREARS, actor=None, at=rental.metered_from + 2 * MINUTE)
    decision = outcomes.Decision("stopped", None)
    with pytest.raises(outcomes.Overtaken):
        outcomes.write(
            rental_id=rental.pk, token=claimed.lock_token, asked_as="stopping", decision=decision, calls=[],
            at=rental.metered_from + 3 * MINUTE,
        )  # fmt: skip
    outcomes.drop(rental_id=rental.pk, token=claimed.lock_token, calls=[], at=support.NOON)

    advance(rental, to="suspended")
    assert shop.free_cards() == 8


def test_a_suspended_machine_that_the_engine_no_longer_lists_is_lost_and_comes_back_off(shop, engine):
    rental = suspended(shop.running())
    for minutes in (10, 20):
        orphans.miss(rental_id=rental.pk, at=rental.suspended_at + minutes * MINUTE)
    rental.refresh_from_db()
    assert (rental.status, rental.meter) == ("lost", "")

    advance(rental, to="suspended")

    assert (rental.meter, rental.suspension, engine.machine()["state"]) == ("disk_gb_hour", "arrears", "stopped")


@pytest.mark.parametrize("status", ["running", "stopping", "gone", "failed", "creating"])
def test_the_database_refuses_other_moves_from_suspended(shop, engine, status):
    rental = suspended(shop.running())

    with pytest.raises(InternalError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE rentals_rental SET status = %s WHERE id = %s", [status, rental.pk])


def test_the_database_refuses_a_suspension_without_reason_or_instant(shop, engine):
    rental = suspended(shop.running())

    for broken in ({"suspension": ""}, {"suspended_at": None}, {"suspension": "", "suspended_at": None}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Rental.objects.filter(pk=rental.pk).update(**broken)
