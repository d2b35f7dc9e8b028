"""Machines that stop by themselves: when idle, at a time, at a cost; once, exactly, and never by a guess."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import translation

from accounts.models import Notification
from rentals import actions, auto_stop, metering, progress
from rentals.models import AutoStopRule, Rental, UtilisationSample
from tests.rentals.support import NOON, Shop, advance, nothing_changes, statuses, windows

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def set_rule(rental, kind="idle", at=NOON, **figures) -> AutoStopRule:
    if kind == "idle":
        figures = {"minutes": 30, "threshold_percent": 5} | figures
    return actions.set_auto_stop(rental_id=rental.pk, kind=kind, actor=None, at=at, **figures)


def watched(rental, since, minutes, *, busiest="0", cards=2, without=()):
    """A reading at every whole minute after `since`, but for those that were missed."""
    UtilisationSample.objects.bulk_create(
        UtilisationSample(rental=rental, at=since + number * MINUTE, busy=0, busiest=busiest, cards_read=cards)
        for number in range(1, minutes + 1)
        if number not in without
    )


def sweep(at) -> list[int]:
    return actions.enforce_auto_stop(at=at)


@pytest.fixture(autouse=True)
def _in_english():
    with translation.override("en"):
        yield


@pytest.fixture
def running(shop, engine) -> Rental:
    return shop.running()


@pytest.fixture
def start(running):
    """A whole minute shortly after the machine was ready."""
    return running.running_at.replace(second=0, microsecond=0) + 2 * MINUTE


# --- idle ------------------------------------------------------------------------------------------------------------


def test_an_idle_machine_stops_like_by_a_click_and_its_meter_closes(running, start, shop, django_assert_num_queries):
    metered_from = running.metered_from
    rule = set_rule(running, at=start)
    watched(running, start, 30)
    at = start + 30 * MINUTE

    assert sweep(at - SECOND) == []
    assert sweep(at) == [running.pk]

    running.refresh_from_db()
    assert (running.status, running.desired, running.meter) == ("stopping", "stopped", "disk_gb_hour")
    assert windows(running) == [("card_hour", metered_from, at, int((at - metered_from).total_seconds()))]
    wish = running.events.get(kind="wish", what="auto_stop_idle")
    assert (wish.at, wish.actor, wish.details) == (at, None, {"minutes": 30, "percent": 5})
    rule.refresh_from_db()
    assert (rule.enabled, rule.fired_at, rule.note) == (True, at, "")
    assert advance(running, to="stopped").stopped_at is not None
    assert shop.free_cards() == 8


def test_the_timeline_and_a_notice_say_it_in_plain_words(running, start, shop):
    rule = set_rule(running, at=start)
    watched(running, start, 30)
    sweep(start + 30 * MINUTE)

    words = [str(entry.what) for entry in progress.timeline(list(running.events.select_related("actor")))]

    assert "Stopped by rule: idle 30 minutes below 5 %" in words
    assert "Auto-stop set: idle 30 minutes below 5 %" in words
    notice = Notification.objects.get(organization=shop.organization, kind="auto_stopped")
    assert (notice.params, notice.page, notice.page_args) == (
        {"name": running.name, "rule": "idle"},
        "rentals:detail",
        [str(running.key)],
    )
    assert notice.fact == f"rule:{rule.pk}:{(start + 30 * MINUTE).isoformat()}"


@pytest.mark.parametrize(
    "busy", [{"busiest": "5"}, {"busiest": "100"}, {"cards": 1}], ids=["at the threshold", "busy", "a card unread"]
)
def test_one_reading_that_is_not_idle_starts_the_window_anew(running, start, busy):
    set_rule(running, at=start)
    watched(running, start, 9)
    watched(running, start + 9 * MINUTE, 1, **busy)
    watched(running, start + 10 * MINUTE, 31)

    assert sweep(start + 30 * MINUTE) == []
    # What was busy at minute 10 may have been so until the next reading.
    assert sweep(start + 41 * MINUTE - SECOND) == []
    assert sweep(start + 41 * MINUTE) == [running.pk]


def test_a_machine_below_the_threshold_is_idle_even_where_it_does_a_little(running, start):
    set_rule(running, at=start)
    watched(running, start, 30, busiest="4.99")

    assert sweep(start + 30 * MINUTE) == [running.pk]


@pytest.mark.parametrize(
    ("missed", "seconds"), [((1,), 0), ((15,), 0), ((30,), 51), ((14, 15, 16), 30), (range(1, 31), 30)]
)
def test_a_missing_reading_never_counts_as_idle(running, start, missed, seconds):
    set_rule(running, at=start)
    watched(running, start, 30, without=set(missed))

    at = start + 30 * MINUTE + seconds * SECOND

    with nothing_changes(running):
        assert sweep(at) == []


def test_the_window_begins_no_earlier_than_the_machines_last_start(running, start):
    set_rule(running, at=start)
    watched(running, start, 20)
    actions.request_stop(rental_id=running.pk, actor=None, at=start + 20 * MINUTE)
    advance(running, to="stopped")
    again = start + 21 * MINUTE
    actions.request_start(rental_id=running.pk, actor=None, at=again)
    advance(running, to="running")
    watched(running, again, 31)

    assert sweep(start + 40 * MINUTE) == []
    assert sweep(again + 29 * MINUTE) == []
    assert sweep(again + 31 * MINUTE) == [running.pk]


def test_the_window_begins_no_earlier_than_the_rule(running, start):
    watched(running, start, 60)
    set_rule(running, at=start + 20 * MINUTE)

    assert sweep(start + 49 * MINUTE) == []
    assert sweep(start + 50 * MINUTE) == [running.pk]


def test_an_idle_rule_is_armed_again_with_every_start(running, start, shop):
    set_rule(running, at=start, minutes=1)
    fired = []
    at = start
    for _start in range(2):
        watched(running, at, 2)
        fired.append(sweep(at + 2 * MINUTE))
        advance(running, to="stopped")
        at += 10 * MINUTE
        actions.request_start(rental_id=running.pk, actor=None, at=at)
        advance(running, to="running")
        at += 2 * MINUTE

    assert fired == [[running.pk]] * 2
    assert Notification.objects.filter(kind="auto_stopped").count() == 2
    assert sweep(at) == []


# --- at a time -------------------------------------------------------------------------------------------------------


def test_a_machine_stops_at_its_time_and_the_rule_is_done(running, start):
    at = start + 5 * MINUTE
    rule = set_rule(running, "at_time", at=start, stop_at=at)

    assert sweep(at - SECOND) == []
    assert sweep(at) == [running.pk]
    assert sweep(at) == []

    rule.refresh_from_db()
    assert (rule.enabled, rule.note, rule.fired_at) == (False, "fired", at)
    assert running.events.filter(what="auto_stop_at_time").count() == 1
    advance(running, to="stopped")
    actions.request_start(rental_id=running.pk, actor=None, at=at + MINUTE)
    advance(running, to="running")
    assert sweep(at + 10 * MINUTE) == []


def test_a_time_that_came_while_the_machine_was_coming_up_is_honoured_when_it_runs(shop, engine):
    rental = shop.rental()
    set_rule(rental, "at_time", stop_at=NOON + SECOND)
    advance(rental, to="booting")

    assert sweep(NOON + MINUTE) == []
    advance(rental, to="running")

    assert sweep(NOON + MINUTE) == [rental.pk]


def test_a_machine_that_was_stopped_already_is_left_alone_and_not_stopped_after_its_next_start(running, start):
    rule = set_rule(running, "at_time", at=start, stop_at=start + 5 * MINUTE)
    actions.request_stop(rental_id=running.pk, actor=None, at=start + MINUTE)
    advance(running, to="stopped")

    with nothing_changes(running):
        assert sweep(start + 6 * MINUTE) == []
    rule.refresh_from_db()
    assert (rule.enabled, rule.note, rule.fired_at) == (False, "not_running", None)

    actions.request_start(rental_id=running.pk, actor=None, at=start + 7 * MINUTE)
    advance(running, to="running")
    assert sweep(start + 20 * MINUTE) == []


def test_the_rule_of_a_rental_that_ended_is_put_away(running, start):
    rule = set_rule(running, "at_time", at=start, stop_at=start + MINUTE)
    actions.request_terminate(rental_id=running.pk, actor=None, at=start)

    assert sweep(start + MINUTE) == []
    rule.refresh_from_db()
    assert (rule.enabled, rule.note) == (False, "over")


# --- at a cost -------------------------------------------------------------------------------------------------------


def test_a_machine_stops_when_its_windows_and_the_open_meter_cost_the_amount(running):
    # 2 cards at ¥2.50: ¥5.00 an hour; ¥120.00 need a day, and the windows are cut at midnight before.
    since = running.metered_from
    rule = set_rule(running, "at_spend", at=since, amount_minor=12_000)
    metering.cut_windows(at=since + timedelta(hours=20))
    assert len(windows(running)) == 1

    # ¥119.995 rounds up to the amount: 3.6 seconds before the day is full.
    assert sweep(since + timedelta(days=1, seconds=-4)) == []
    at = since + timedelta(days=1, seconds=-3)
    assert sweep(at) == [running.pk]

    rule.refresh_from_db()
    assert (rule.enabled, rule.note, rule.fired_at) == (False, "fired", at)
    running.refresh_from_db()
    assert auto_stop.cost_so_far([running], at=at)[running.pk].minor == 12_000
    wish = running.events.get(what="auto_stop_at_spend")
    assert wish.details == {"amount_minor": 12_000, "currency": "CNY"}
    assert str(progress.what_happened(wish)) == "Stopped by rule: it has cost ¥120.00"


def test_a_stopped_machines_disk_costs_but_there_is_nothing_to_stop(running, start):
    set_rule(running, "at_spend", at=start, amount_minor=1_000)
    actions.request_stop(rental_id=running.pk, actor=None, at=start)
    advance(running, to="stopped")

    with nothing_changes(running):
        assert sweep(start + timedelta(days=14)) == []


# --- setting and removing --------------------------------------------------------------------------------------------


def test_setting_the_same_again_changes_nothing_and_another_takes_its_place(running, start):
    first = set_rule(running, at=start)
    with nothing_changes(running):
        assert set_rule(running, at=start + MINUTE).pk == first.pk
    second = set_rule(running, at=start + MINUTE, minutes=10)

    first.refresh_from_db()
    assert (first.enabled, first.note, first.fired_at) == (False, "replaced", None)
    assert list(AutoStopRule.objects.filter(enabled=True)) == [second]


def test_a_rule_of_each_kind_may_stand_and_the_first_that_is_due_stops(running, start):
    set_rule(running, at=start)
    set_rule(running, "at_time", at=start, stop_at=start + MINUTE)
    set_rule(running, "at_spend", at=start, amount_minor=100_000)

    assert sweep(start + MINUTE) == [running.pk]
    assert AutoStopRule.objects.filter(enabled=True).count() == 2


def test_a_removed_rule_stops_nothing_and_removing_twice_is_nothing(running, start):
    rule = set_rule(running, at=start)
    watched(running, start, 30)
    actions.remove_auto_stop(rental_id=running.pk, kind="idle", actor=None, at=start + MINUTE)
    with nothing_changes(running):
        actions.remove_auto_stop(rental_id=running.pk, kind="idle", actor=None, at=start + 2 * MINUTE)

    assert sweep(start + 30 * MINUTE) == []
    rule.refresh_from_db()
    assert (rule.enabled, rule.note) == (False, "removed")
    assert running.events.get(what="auto_stop_removed_idle").at == start + MINUTE


@pytest.mark.parametrize(
    ("kind", "figures", "field"),
    [
        ("idle", {"minutes": 0}, "minutes"),
        ("idle", {"minutes": 1441}, "minutes"),
        ("idle", {"threshold_percent": 0}, "threshold_percent"),
        ("idle", {"threshold_percent": 101}, "threshold_percent"),
        ("at_time", {"stop_at": NOON}, "stop_at"),
        ("at_time", {}, "stop_at"),
        ("at_spend", {"amount_minor": 0}, "amount"),
        ("at_spend", {}, "amount"),
        ("never", {}, "kind"),
    ],
)
def test_a_figure_that_no_rule_can_have_is_refused(shop, kind, figures, field):
    rental = shop.rental()

    with nothing_changes(rental), pytest.raises(actions.BadRule) as refusal:
        set_rule(rental, kind, **figures)

    assert refusal.value.field == field
    assert not AutoStopRule.objects.exists()


def test_an_amount_that_was_spent_already_is_refused_with_what_it_cost(running):
    at = running.metered_from + timedelta(hours=2)

    with pytest.raises(actions.BadRule, match=r"It has cost ¥10\.00 already\. Choose a higher amount\."):
        set_rule(running, "at_spend", at=at, amount_minor=1_000)
    assert set_rule(running, "at_spend", at=at, amount_minor=1_001).currency == "CNY"


def test_a_term_keeps_its_price_so_no_rule_is_set(shop):
    rental = shop.rental(term="month")

    with nothing_changes(rental), pytest.raises(actions.TermKeepsPrice, match="keeps its cards and its price"):
        set_rule(rental)


def test_a_rental_that_ended_takes_no_rule(running, start):
    actions.request_terminate(rental_id=running.pk, actor=None, at=start)

    with nothing_changes(running), pytest.raises(actions.NotNow):
        set_rule(running, at=start)


@pytest.mark.parametrize(
    "row",
    [
        {"kind": "idle", "minutes": None, "threshold_percent": 5},
        {"kind": "idle", "minutes": 30, "threshold_percent": None},
        {"kind": "idle", "minutes": 30, "threshold_percent": 5, "amount_minor": 1, "currency": "CNY"},
        {"kind": "idle", "minutes": 2000, "threshold_percent": 5},
        {"kind": "at_time"},
        {"kind": "at_time", "stop_at": NOON, "minutes": 1},
        {"kind": "at_spend", "amount_minor": None, "currency": "CNY"},
        {"kind": "at_spend", "amount_minor": 0, "currency": "CNY"},
        {"kind": "at_spend", "amount_minor": 5},
        {"kind": "other"},
        {"kind": "at_time", "stop_at": NOON, "enabled": False},
        {"kind": "at_time", "stop_at": NOON, "enabled": False, "note": "fired"},
        {"kind": "at_time", "stop_at": NOON, "note": "fired", "fired_at": NOON},
    ],
)
def test_the_database_holds_a_rule_to_its_fields(shop, row):
    rental = shop.rental()

    with pytest.raises(IntegrityError, match="auto_stop_"), transaction.atomic():
        AutoStopRule.objects.create(rental=rental, created_at=NOON, **row)


def test_the_database_lets_one_rule_of_a_kind_stand(shop):
    rental = shop.rental()
    set_rule(rental)

    with pytest.raises(IntegrityError, match="auto_stop_one_in_force"), transaction.atomic():
        AutoStopRule.objects.create(rental=rental, kind="idle", minutes=1, threshold_percent=1, created_at=NOON)


# --- trouble ---------------------------------------------------------------------------------------------------------


def test_a_sweep_that_dies_anywhere_leaves_all_or_nothing(running, start, monkeypatch):
    set_rule(running, "at_time", at=start, stop_at=start + MINUTE)
    for place in ("notify", "request_stop", "_switch_off"):
        with monkeypatch.context() as broken, nothing_changes(running):
            broken.setattr(f"rentals.actions.auto_stop.{place}", _die)
            assert sweep(start + MINUTE) == []
        assert AutoStopRule.objects.get().enabled

    assert sweep(start + MINUTE) == [running.pk]


def _die(*_arguments, **_named):
    raise RuntimeError("killed here")


def test_one_rule_that_cannot_be_enforced_holds_up_no_other_and_its_organization_is_told_once(engine, monkeypatch):
    unlucky, lucky = Shop(cards=1), Shop(cards=1)
    broken, fine = unlucky.running(), lucky.running()
    at = fine.running_at + MINUTE
    for rental in (broken, fine):
        set_rule(rental, "at_time", stop_at=at)
    from rentals.actions import auto_stop as acting  # noqa: PLC0415

    real = acting.request_stop

    def stop(*, rental_id, **wanted):
        if rental_id == broken.pk:
            raise RuntimeError("no")
        return real(rental_id=rental_id, **wanted)

    monkeypatch.setattr(acting, "request_stop", stop)
    assert [sweep(at), sweep(at + MINUTE)] == [[fine.pk], []]

    told = Notification.objects.filter(kind="auto_stop_failed")
    assert [one.organization for one in told] == [unlucky.organization]
    monkeypatch.undo()
    assert sweep(at + 2 * MINUTE) == [broken.pk]


def test_a_lost_machine_is_waited_for(running, start, engine):
    rule = set_rule(running, "at_time", at=start, stop_at=start + MINUTE)
    engine.delete_by_hand(engine.machine()["name"])
    advance(running, to="lost")

    with nothing_changes(running):
        assert sweep(start + 2 * MINUTE) == []
    rule.refresh_from_db()
    assert rule.enabled
    assert "stopping" not in statuses(running)
