"""What can go wrong on the way, each fault made on the real engine: nobody pays for it, nothing is made twice."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction

from catalog.models import Pool
from orders.models import Order
from rentals import actions, orphans, outcomes, reconcile
from rentals.actions import opening, terms
from rentals.models import Orphan, Rental
from rentals.steps import Decision
from tests.rentals import support
from tests.rentals.support import NOON, Shop, advance, calls, statuses, step, windows
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db


def assert_failed_for_free(rental: Rental, shop: Shop, engine: support.Engine, failure: str) -> None:
    assert (rental.status, rental.failure) == ("failed", failure)
    assert engine.machines() == []
    assert shop.free_cards() == 8
    assert windows(rental) == []
    assert (rental.meter, rental.running_at) == ("", None)
    assert Order.objects.get(lines__rentals=rental).status == "failed"
    shop.organization.credit_line.refresh_from_db()
    assert shop.organization.credit_line.committed_minor == 0


# --- calls whose outcome is not known -------------------------------------------------------------------------------


def test_a_lost_answer_to_create_makes_one_machine(shop, engine):
    rental = shop.rental()
    engine.faults(drop_answers=1)

    step(rental)
    assert (rental.status, rental.reason, rental.attempts) == ("creating", "unknown_outcome", 1)
    made = engine.machine()["name"]
    advance(rental, to="running")

    assert engine.machine()["name"] == made
    assert [call for call in calls(rental) if call[0] == "ensure"] == [("ensure", "unknown_outcome"), ("ensure", "ok")]


def test_a_lost_answer_to_stop_start_and_delete_is_looked_for(shop, engine):
    rental = shop.running()
    at = rental.running_at + timedelta(minutes=1)
    engine.faults(drop_answers=1)
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=at)
    advance(rental, to="stopped")
    engine.faults(drop_answers=1)
    actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=at + timedelta(minutes=5))
    advance(rental, to="running")
    engine.faults(drop_answers=1)
    actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=rental.metered_from + timedelta(minutes=1))
    advance(rental, to="gone")

    assert engine.machines() == []
    assert [row[0] for row in windows(rental)] == ["card_hour", "disk_gb_hour", "card_hour"]


def test_an_engine_that_fails_now_and_then_only_costs_time(shop, engine):
    rental = shop.rental()
    engine.faults(errors=3)
    for attempts in (1, 2, 3):
        step(rental)
        assert (rental.status, rental.reason, rental.attempts) == ("creating", "engine_unavailable", attempts)

    advance(rental, to="running")

    assert (rental.reason, rental.attempts) == ("", 0)
    assert len(engine.machines()) == 1


def test_delete_that_fails_stays_deleting_and_keeps_the_cards(shop, engine):
    rental = shop.running()
    at = rental.metered_from + timedelta(minutes=10)
    actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=at)
    engine.faults(errors=1000)
    for _attempt in range(4):
        step(rental)

    assert (rental.status, rental.reason) == ("destroying", "engine_unavailable")
    assert shop.free_cards() == 6
    assert windows(rental) == [("card_hour", rental.running_at.replace(microsecond=0), at, 600)]
    engine.heal()
    advance(rental, to="gone")
    assert shop.free_cards() == 8


# --- refusals --------------------------------------------------------------------------------------------------------


def test_an_image_that_cannot_be_loaded_fails_at_once_and_costs_nothing(shop, engine):
    rental = shop.rental()
    engine.faults(bad_images=[shop.image.slug])

    step(rental)
    assert (rental.status, rental.failure) == ("destroying", "image_unavailable")
    advance(rental, to="failed")

    assert_failed_for_free(rental, shop, engine, "image_unavailable")


def test_a_machine_that_fails_to_boot_is_taken_down_and_costs_nothing(shop, engine):
    rental = shop.rental()
    engine.faults(boot_failures=1)

    advance(rental, to="failed")

    assert_failed_for_free(rental, shop, engine, "boot_failed")


def test_missing_cards_are_counted_before_anybody_pays(shop, engine):
    rental = shop.rental()
    engine.faults(missing_cards=1)

    advance(rental, to="failed")

    assert_failed_for_free(rental, shop, engine, "cards_differ")
    assert [outcome for what, outcome in calls(rental) if what == "probe"] == ["cards_differ"] * 3


def test_no_capacity_is_tried_again_until_the_deadline(shop, engine):
    rental = shop.rental()
    engine.faults(no_capacity=True)
    step(rental)
    assert (rental.status, rental.reason) == ("creating", "no_capacity")
    deadline = rental.deadline_at
    assert deadline == NOON + timedelta(minutes=5)

    advance(rental, to="failed")

    assert_failed_for_free(rental, shop, engine, "no_capacity")
    assert rental.events.filter(what="destroying").get().at >= deadline


def test_a_machine_that_never_answers_is_given_up_at_its_deadline(shop, engine):
    rental = shop.rental()
    engine.faults(boot_seconds=3600)
    step(rental)
    step(rental, at=rental.deadline_at)
    assert (rental.status, rental.failure) == ("destroying", "deadline")

    advance(rental, to="failed")

    assert_failed_for_free(rental, shop, engine, "deadline")


def test_one_failed_unit_does_not_fail_the_order(shop, engine):
    order = shop.order(quantity=2)
    first, second = Rental.objects.filter(pk__in=actions.open_rentals(at=NOON))
    advance(first, to="running")
    engine.faults(bad_images=[shop.image.slug])
    advance(second, to="failed")

    order.refresh_from_db()
    assert order.status == "active"
    assert shop.free_cards() == 6


def test_a_refused_credential_pauses_the_pool_and_no_rental_fails_of_it(shop, engine, settings):
    rental, token = shop.rental(), settings.DEMO_ENGINE_TOKEN
    settings.DEMO_ENGINE_TOKEN = "revoked"
    step(rental)
    step(rental, at=rental.deadline_at - timedelta(seconds=1))
    assert (rental.status, rental.reason) == ("creating", "engine_credentials")
    assert rental.deadline_at > NOON + timedelta(minutes=9)
    assert Pool.objects.get().paused_reason == "engine_credentials"

    settings.DEMO_ENGINE_TOKEN = token
    advance(rental, to="running")

    assert Pool.objects.get().paused_reason == ""


def test_a_pool_paused_by_a_person_is_left_alone(shop, engine):
    rental = shop.rental()
    Pool.objects.update(paused_reason="Cooling works until 18:00")
    step(rental)

    assert (rental.status, rental.reason) == ("creating", "pool_paused")
    assert engine.machines() == []
    assert Pool.objects.get().paused_reason == "Cooling works until 18:00"


# --- paid in advance -------------------------------------------------------------------------------------------------


def test_a_paid_term_that_fails_waits_for_a_person_who_tries_again(shop, engine):
    rental = shop.rental(term="month")
    engine.faults(boot_failures=1)
    advance(rental, to="needs_operator")
    assert (rental.reason, rental.next_step_at) == ("boot_failed", None)
    assert shop.free_cards() == 6
    broken = engine.machine()["name"]

    actions.retry(rental_id=rental.pk, actor=shop.buyer, at=NOON + timedelta(hours=1))
    advance(rental, to="running")

    assert rental.generation == 2
    assert engine.machine()["name"] != broken
    assert rental.subscription.started_at == rental.running_at.replace(microsecond=0)


def test_a_paid_term_that_fails_may_be_ended_by_a_person(shop, engine):
    rental = shop.rental(term="month")
    engine.faults(boot_failures=1)
    advance(rental, to="needs_operator")

    actions.destroy_by_operator(rental_id=rental.pk, actor=shop.buyer, at=NOON + timedelta(hours=1))
    advance(rental, to="gone")

    assert engine.machines() == []
    assert shop.free_cards() == 8


def test_retry_is_only_for_rentals_that_wait_for_a_person(shop):
    rental = shop.rental()

    with support.nothing_changes(rental), pytest.raises(actions.NotNow):
        actions.retry(rental_id=rental.pk, actor=shop.buyer, at=NOON)


# --- after it ran ----------------------------------------------------------------------------------------------------


def test_a_silent_engine_never_makes_a_machine_lost(shop, engine):
    rental = shop.running()
    engine.faults(errors=1000)
    for _look in range(5):
        step(rental)

    assert (rental.status, rental.reason, rental.absences) == ("running", "engine_unavailable", 0)
    assert rental.meter == "card_hour"


def test_a_machine_that_is_gone_twice_is_lost_and_its_meter_ends_at_the_detection(shop, engine):
    rental = shop.running()
    engine.delete_by_hand(engine.machine()["name"])
    step(rental)
    assert (rental.status, rental.absences, rental.meter) == ("running", 1, "card_hour")
    asked_at = rental.next_step_at
    step(rental)

    assert (rental.status, rental.failure, rental.meter) == ("lost", "vanished", "")
    lost_at = rental.events.get(kind="status", what="lost").at
    assert asked_at <= lost_at < asked_at + timedelta(seconds=5)
    (window,) = windows(rental)
    assert window[2] == lost_at.replace(microsecond=0)
    assert shop.free_cards() == 6


def test_a_lost_rental_can_be_terminated_and_bills_nothing_more(shop, engine):
    rental = shop.running()
    engine.delete_by_hand(engine.machine()["name"])
    advance(rental, to="lost")
    before = windows(rental)

    at = rental.next_step_at + timedelta(hours=3)
    actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=at)
    advance(rental, to="gone")

    assert windows(rental) == before
    assert shop.free_cards() == 8


def test_a_lost_node_that_reports_again_runs_again_from_its_login_on(shop, engine):
    rental = shop.running()
    host = rental.members.get().host.name
    engine.faults(lost_hosts=[host])
    advance(rental, to="lost")
    assert rental.failure == "node_lost"
    engine.faults(lost_hosts=[])

    advance(rental, to="running")

    first, gap = windows(rental)[0], rental.metered_from
    assert (rental.failure, rental.meter) == ("", "card_hour")
    assert gap > first[2]
    assert len(windows(rental)) == 1


def test_a_machine_that_was_switched_off_is_switched_on_again(shop, engine):
    rental = shop.running()
    engine.power(engine.machine()["name"], "stop")
    step(rental)
    assert (rental.status, rental.reason) == ("running", "restarting")

    wait_for(lambda: step(rental).reason == "")

    assert engine.machine()["state"] == "running"


def test_a_start_that_fails_falls_back_to_the_disk(shop, engine):
    rental = shop.running()
    at = rental.metered_from + timedelta(minutes=1)
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=at)
    advance(rental, to="stopped")
    actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=at + timedelta(minutes=1))
    engine.faults(boot_seconds=3600)
    advance(rental, to="booting")
    step(rental, at=rental.deadline_at)
    advance(rental, to="stopped")

    assert (rental.reason, rental.desired, rental.meter) == ("deadline", "stopped", "disk_gb_hour")
    assert shop.free_cards() == 8
    assert [row[0] for row in windows(rental)] == ["card_hour"]


def test_a_changed_host_key_at_a_restart_waits_for_a_person(shop, engine):
    rental = shop.running()
    at = rental.metered_from + timedelta(minutes=1)
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=at)
    advance(rental, to="stopped")
    fingerprint = rental.host_key_fingerprint
    actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=at + timedelta(minutes=1))
    advance(rental, to="verifying")
    engine.replace_host_key(engine.machine()["name"])
    advance(rental, to="needs_operator")
    assert (rental.reason, rental.host_key_fingerprint, rental.meter) == (
        "host_key_changed", fingerprint, "disk_gb_hour",
    )  # fmt: skip

    actions.retry(rental_id=rental.pk, actor=shop.buyer, at=at + timedelta(hours=1))
    advance(rental, to="running")

    assert rental.host_key_fingerprint != fingerprint


# --- claims ----------------------------------------------------------------------------------------------------------


def test_a_claimed_rental_is_left_to_its_worker_until_the_claim_expires(shop, engine):
    rental = shop.rental()
    token = uuid4()
    Rental.objects.filter(pk=rental.pk).update(lock_token=token, lock_expires_at=NOON + timedelta(seconds=30))

    assert reconcile.step(rental_id=rental.pk, at=NOON + timedelta(seconds=29)) is None
    assert list(reconcile.due(at=NOON + timedelta(seconds=29))) == []
    assert engine.machines() == []
    assert list(reconcile.due(at=NOON + timedelta(seconds=30))) == [rental.pk]
    assert reconcile.step(rental_id=rental.pk, at=NOON + timedelta(seconds=30)).status == "booting"
    assert len(engine.machines()) == 1


def test_a_stale_claim_writes_nothing(shop):
    rental = shop.rental()
    Rental.objects.filter(pk=rental.pk).update(lock_token=uuid4(), lock_expires_at=NOON)

    with support.nothing_changes(rental), pytest.raises(outcomes.Overtaken):
        outcomes.write(
            rental_id=rental.pk, token=uuid4(), asked_as="reserved", decision=Decision("creating"), calls=[], at=NOON
        )


def test_a_wish_that_comes_during_a_call_wins(shop, engine, monkeypatch):
    rental = shop.rental()
    ask = reconcile._ask

    def ask_while_the_customer_terminates(claimed, at):
        answer = ask(claimed, at)
        actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=at)
        return answer

    monkeypatch.setattr(reconcile, "_ask", ask_while_the_customer_terminates)
    taken = reconcile.step(rental_id=rental.pk, at=NOON)
    monkeypatch.undo()

    rental.refresh_from_db()
    assert (taken.wait, rental.status, rental.lock_token) == (0, "destroying", None)
    assert len(engine.machines()) == 1
    advance(rental, to="gone")
    assert engine.machines() == []


def test_a_bug_is_a_reason_to_look_again_and_not_to_spin(shop, engine, monkeypatch, caplog):
    rental = shop.rental()
    monkeypatch.setattr("rentals.steps.spec_of", lambda rental: 1 / 0)
    step(rental)

    assert (rental.status, rental.reason, rental.attempts, rental.lock_token) == ("creating", "internal", 1, None)
    assert rental.next_step_at > NOON
    assert "ZeroDivisionError" in caplog.text


# --- both ways -------------------------------------------------------------------------------------------------------


def test_a_stranger_is_reported_then_powered_off_and_never_deleted(shop, engine):
    rental = shop.running()
    name = engine.create_stranger()
    wait_for(lambda: all(m["state"] == "running" for m in engine.machines()))

    (orphan,) = orphans.compare_orphans(at=NOON)
    assert (orphan.names, orphan.quarantined_at) == (name, None)
    orphans.compare_orphans(at=NOON + timedelta(minutes=4))
    assert Orphan.objects.get().quarantined_at is None
    orphans.compare_orphans(at=NOON + timedelta(minutes=10))

    assert Orphan.objects.get().quarantined_at == NOON + timedelta(minutes=10)
    states = {machine["name"]: machine["state"] for machine in engine.machines()}
    assert states.pop(name) == "stopped"
    assert list(states.values()) == ["running"]
    engine.delete_by_hand(name)
    assert orphans.compare_orphans(at=NOON + timedelta(minutes=20)) == []
    rental.refresh_from_db()
    assert rental.status == "running"


def test_another_installations_machine_is_not_touched(shop, engine):
    engine.create_stranger(installation="other")

    for minutes in (0, 10, 20):
        assert orphans.compare_orphans(at=NOON + timedelta(minutes=minutes)) == []


def test_a_rental_the_engine_does_not_list_twice_is_lost(shop, engine):
    rental = shop.running()
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=rental.metered_from + timedelta(minutes=1))
    advance(rental, to="stopped")
    at = rental.stopped_at + timedelta(minutes=30)
    engine.delete_by_hand(engine.machine()["name"])

    orphans.compare_orphans(at=at)
    rental.refresh_from_db()
    assert (rental.status, rental.absences) == ("stopped", 1)
    orphans.compare_orphans(at=at + timedelta(minutes=10))

    rental.refresh_from_db()
    assert (rental.status, rental.failure, rental.meter) == ("lost", "vanished", "")
    assert windows(rental)[-1][2] == (at + timedelta(minutes=10)).replace(microsecond=0)


def test_an_engine_that_does_not_answer_makes_nothing_lost(shop, engine):
    rental = shop.running()
    engine.faults(errors=1000)
    for minutes in (10, 20, 30):
        orphans.compare_orphans(at=NOON + timedelta(minutes=minutes))

    rental.refresh_from_db()
    assert (rental.status, rental.absences) == ("running", 0)


def test_statuses_of_a_failed_rental_tell_its_way(shop, engine):
    rental = shop.rental()
    engine.faults(boot_failures=1)
    advance(rental, to="failed")

    assert statuses(rental) == ["reserved", "creating", "booting", "destroying", "failed"]


# --- lost and found again --------------------------------------------------------------------------------------------


def lose(rental, *, at):
    for minutes in (0, 10):
        orphans.miss(rental_id=rental.pk, at=at + timedelta(minutes=minutes))
    rental.refresh_from_db()
    assert rental.status == "lost"


@pytest.mark.parametrize("found", ["stop", "start"])
def test_a_stopped_machine_that_is_found_again_is_stopped_whatever_it_did_meanwhile(shop, engine, found):
    rental = shop.running()
    stop_at = rental.metered_from + timedelta(minutes=1)
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=stop_at)
    advance(rental, to="stopped")
    lose(rental, at=rental.stopped_at + timedelta(minutes=30))
    engine.power(engine.machine()["name"], found)
    wait_for(lambda: engine.machine()["state"] == {"stop": "stopped", "start": "running"}[found])

    advance(rental, to="stopped")

    assert (rental.desired, rental.failure, rental.reason, rental.meter) == ("stopped", "", "", "disk_gb_hour")
    assert [row[0] for row in windows(rental)] == ["card_hour", "disk_gb_hour"]
    assert engine.machine()["state"] == "stopped"
    assert shop.free_cards() == 8


def test_a_machine_that_was_lost_while_it_stopped_never_runs_for_money_again(shop, engine):
    rental = shop.running()
    at = rental.metered_from + timedelta(minutes=1)
    engine.faults(lost_hosts=[rental.members.get().host.name])
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=at)
    with transaction.atomic():
        gone = actions.locked(rental.pk)
        actions.move_rental(rental=gone, to="lost", at=at, failure="node_lost", next_step_at=at)
    engine.heal()

    advance(rental, to="stopped")

    assert "running" not in statuses(rental)[-3:]
    assert shop.free_cards() == 8
    assert sum(row[3] for row in windows(rental) if row[0] == "card_hour") == 60


def test_a_running_machine_that_is_found_switched_off_is_switched_on(shop, engine):
    rental = shop.running()
    lose(rental, at=rental.metered_from + timedelta(minutes=30))
    engine.power(engine.machine()["name"], "stop")
    wait_for(lambda: engine.machine()["state"] == "stopped")

    advance(rental, to="running")

    assert (rental.meter, rental.failure, engine.machine()["state"]) == ("card_hour", "", "running")
    assert shop.free_cards() == 6


# --- orders of several units -----------------------------------------------------------------------------------------


def test_an_order_is_active_once_its_other_unit_was_terminated_while_it_was_made(shop, engine):
    order = shop.order(quantity=2)
    first, second = (Rental.objects.get(pk=pk) for pk in actions.open_rentals(at=NOON))
    advance(first, to="running")
    actions.request_terminate(rental_id=second.pk, actor=shop.buyer, at=first.metered_from)

    advance(second, to="gone")

    order.refresh_from_db()
    assert order.status == "active"


# --- one that breaks holds up no other -------------------------------------------------------------------------------


def failing_for(real, bad):
    """`real`, which breaks where it is asked about `bad`."""

    def call(*arguments, **named):
        if bad in (*arguments, *named.values()):
            raise IntegrityError("broken")
        return real(*arguments, **named)

    return call


def test_an_order_that_cannot_be_opened_stops_no_other(shop, monkeypatch, caplog):
    first, second = shop.order(), shop.order()
    monkeypatch.setattr(opening, "_open_rentals_of", failing_for(opening._open_rentals_of, first.pk))

    (opened,) = actions.open_rentals(at=NOON)

    assert Rental.objects.get(pk=opened).order_line.order_id == second.pk
    assert f"order {first.pk}" in caplog.text


def test_a_term_that_cannot_be_ended_stops_no_other(shop, engine, monkeypatch, caplog):
    rentals = [shop.running(term="month") for _unit in range(2)]
    monkeypatch.setattr(terms, "expire_term", failing_for(terms.expire_term, rentals[0].pk))

    assert actions.enforce_terms(at=rentals[1].subscription.ends_at) == 1

    statuses_now = [Rental.objects.get(pk=rental.pk).status for rental in rentals]
    assert statuses_now == ["running", "stopping"]
    assert f"rental {rentals[0].pk} " in caplog.text


def test_what_cannot_be_written_is_told_on_the_rental_and_tried_again(shop, engine, monkeypatch, caplog):
    rental = advance(shop.rental(), to="verifying")
    with monkeypatch.context() as patch:
        patch.setattr(outcomes, "_hand_over", failing_for(outcomes._hand_over, rental))
        wait_for(lambda: step(rental).reason == "internal")

    assert (rental.status, rental.attempts > 0, rental.lock_token, rental.meter) == ("verifying", True, None, "")
    assert rental.next_step_at is not None
    assert "could not be written" in caplog.text
    advance(rental, to="running")
    assert (rental.reason, rental.meter) == ("", "card_hour")
