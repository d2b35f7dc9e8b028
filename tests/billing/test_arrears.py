"""A balance below zero, by the clock: hours more, suspended, kept, told, deleted; and paid at any time in between."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, InternalError, transaction

from accounts import actions as accounts
from accounts.models import Notification
from billing import actions, ledger
from billing.actions import arrears as ladder
from billing.actions.accounts import lock_account
from billing.models import Arrears, ArrearsStep, BillingAccount, Book, Posting
from rentals import actions as rentals
from rentals.actions import locked, move_rental
from rentals.models import Rental
from tests import factories
from tests.billing.builders import HOUR, NOVEMBER, rental
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
# ¥10 an hour from NOVEMBER on, with ¥20: the first sweep that sees less than nothing.
BELOW = NOVEMBER + 2 * HOUR + MINUTE
SUSPENDED = BELOW + 2 * HOUR


def customer(*, mode="wallet", minor=2_000, name="福州智算科技"):
    made = factories.organization(credit_minor=0, name=name)
    BillingAccount.objects.update_or_create(organization=made, defaults={"mode": mode, "email": "a@example.com"})
    if minor:
        top_up(made, minor, at=NOVEMBER)
    return made


def top_up(organization, minor, *, at):
    """Money that came for the balance, as any payment books it."""
    with transaction.atomic():
        account = lock_account(organization_id=organization.pk)
        ledger.post(
            account=account, kind=Posting.Kind.TOP_UP, fact=f"test:{organization.pk}:{at.isoformat()}", at=at,
            entries={Book.CASH: minor, Book.WALLET: -minor}, currency=organization.currency,
        )  # fmt: skip


def running(organization, *, name="train-1"):
    """A machine of four cards that burns ¥10 an hour from NOVEMBER on; its disk costs ¥0.05."""
    made = rental(organization, rate="2.50", cards=4, name=name)
    Rental.objects.filter(pk=made.pk).update(meter="card_hour", metered_from=NOVEMBER, running_at=NOVEMBER)
    return made


def stopped(organization, *, name="still"):
    """A machine that its customer had stopped."""
    made = running(organization, name=name)
    Rental.objects.filter(pk=made.pk).update(meter="disk_gb_hour")
    with transaction.atomic():
        move_rental(rental=locked(made.pk), to="stopping", at=NOVEMBER, desired="stopped")
        move_rental(rental=locked(made.pk), to="stopped", at=NOVEMBER, stopped_at=NOVEMBER)
    return made


def switched_off(machine, at):
    """What the reconciler writes once the engine has stopped it."""
    with transaction.atomic():
        move_rental(rental=locked(machine.pk), to="suspended", at=at, stopped_at=at)


def beat(at):
    """What runs every minute."""
    actions.refresh_all(at=at)
    return actions.enforce_arrears(at=at)


def suspended(organization, *machines):
    """Below zero, two hours more, and off."""
    beat(BELOW)
    beat(SUSPENDED)
    for machine in machines:
        switched_off(machine, SUSPENDED)


def told():
    return list(
        Notification.objects.filter(kind__startswith="arrears")
        .order_by("created_at", "pk")
        .values_list("kind", "created_at")
    )


def steps():
    return list(ArrearsStep.objects.order_by("pk").values_list("step", "at"))


def status(machine):
    machine.refresh_from_db()
    return machine.status


# --- the whole ladder ------------------------------------------------------------------------------------------------
def test_the_ladder_by_the_clock():
    organization = customer()
    machine = running(organization)

    assert beat(NOVEMBER + 2 * HOUR) == 0  # all of it used, nothing missing
    assert beat(BELOW) == 1
    assert [beat(BELOW + minutes * MINUTE) for minutes in (1, 60, 119)] == [0, 0, 0]
    assert status(machine) == "running"

    assert beat(SUSPENDED) == 2  # the account, then its machine
    assert (status(machine), machine.suspension, machine.meter) == ("stopping", "arrears", "disk_gb_hour")
    assert machine.windows.get().seconds == (SUSPENDED - NOVEMBER).total_seconds()
    switched_off(machine, SUSPENDED)

    walked = {day: beat(SUSPENDED + timedelta(days=day)) for day in range(15)}
    assert {day for day, changed in walked.items() if changed} == {7, 12, 14}
    assert [beat(SUSPENDED + timedelta(days=day, minutes=1)) for day in (7, 12, 14)] == [0, 0, 0]
    assert beat(SUSPENDED + 15 * DAY - timedelta(seconds=1)) == 0
    marked = SUSPENDED + 15 * DAY
    assert beat(marked) == 1
    assert beat(marked + 9 * MINUTE) == 0
    assert status(machine) == "suspended"

    assert beat(marked + 10 * MINUTE) == 1
    assert status(machine) == "destroying"
    assert beat(marked + 11 * MINUTE) == 1
    assert beat(marked + 40 * DAY) == 0
    assert told() == [
        ("arrears_begun", BELOW),
        ("arrears_suspended", SUSPENDED),
        ("arrears_kept", SUSPENDED + 7 * DAY),
        ("arrears_kept", SUSPENDED + 12 * DAY),
        ("arrears_kept", SUSPENDED + 14 * DAY),
        ("arrears_released", marked + 11 * MINUTE),
    ]
    assert steps() == [
        ("open", BELOW),
        ("suspended", SUSPENDED),
        ("kept_7", SUSPENDED + 7 * DAY),
        ("kept_12", SUSPENDED + 12 * DAY),
        ("kept_14", SUSPENDED + 14 * DAY),
        ("releasing", marked),
        ("released", marked + 11 * MINUTE),
    ]
    assert machine.events.filter(kind="wish").last().what == "arrears_unpaid"


def test_what_is_said_names_the_amount_the_days_and_the_dates():
    organization = customer()
    machine = running(organization)
    suspended(organization, machine)
    beat(SUSPENDED + 12 * DAY)

    said = {one.kind: one for one in Notification.objects.filter(kind__startswith="arrears")}
    assert said["arrears_begun"].params == {"amount": "¥0.17", "hours": 2, "date": "2026-11-01 04:01"}
    assert said["arrears_suspended"].params == {"amount": "¥20.17", "days": 15, "date": "2026-11-16 04:01"}
    # 12 days of its disk of 100 GB at 0.0005 an hour.
    assert said["arrears_kept"].params == {"amount": "¥34.57", "days": 3, "date": "2026-11-16 04:01"}
    assert said["arrears_kept"].page == "billing:balance"


def test_every_figure_of_the_ladder_is_a_setting(settings):
    settings.ARREARS_GRACE_HOURS, settings.ARREARS_RETENTION_DAYS = 1, 3
    settings.ARREARS_NOTICE_DAYS, settings.ARREARS_RELEASE_MINUTES = (1,), 0
    organization = customer()
    machine = running(organization)
    beat(BELOW)
    beat(BELOW + HOUR)
    switched_off(machine, BELOW + HOUR)

    assert [beat(BELOW + HOUR + timedelta(days=day)) for day in (1, 2, 3, 4)] == [1, 0, 2, 1]
    assert status(machine) == "destroying"


def test_only_prepaid_accounts_climb_it():
    machine = running(customer(mode="credit", minor=0))

    for hours in (3, 5, 400):
        assert beat(NOVEMBER + hours * HOUR) == 0

    assert (Arrears.objects.count(), status(machine)) == (0, "running")


def test_an_account_that_is_given_a_credit_line_leaves_the_ladder():
    organization = customer()
    machine = running(organization)
    suspended(organization, machine)
    BillingAccount.objects.update(mode="credit")

    beat(SUSPENDED + DAY)

    assert (Arrears.objects.get().status, status(machine)) == ("cleared", "starting")


def test_a_prepaid_term_is_left_alone():
    organization = customer()
    running(organization)
    term = rental(organization, name="term-1")
    type(term.subscription).objects.filter(pk=term.subscription_id).update(term="month", ends_at=NOVEMBER + 300 * DAY)

    suspended(organization)

    assert status(term) == "running"


def test_without_machines_nothing_is_said():
    organization = customer(minor=0)
    with transaction.atomic():
        account = lock_account(organization_id=organization.pk)
        ledger.post(
            account=account, kind=Posting.Kind.CORRECTION, fact="test", at=NOVEMBER, currency="CNY",
            entries={Book.WALLET: 500, Book.REVENUE: -500},
        )  # fmt: skip

    for days in range(20):
        beat(NOVEMBER + timedelta(days=days))
    top_up(organization, 500, at=NOVEMBER + 21 * DAY)
    beat(NOVEMBER + 21 * DAY)

    assert (told(), Arrears.objects.get().status) == ([], "cleared")


# --- every machine, in whatever state --------------------------------------------------------------------------------
def test_a_machine_that_comes_up_later_is_suspended_then_and_kept_as_many_days():
    organization = customer()
    machine, late = running(organization), running(organization, name="late")
    Rental.objects.filter(pk=late.pk).update(meter="", metered_from=None)
    with transaction.atomic():
        one = locked(late.pk)
        move_rental(rental=one, to="stopping", at=NOVEMBER)
        move_rental(rental=one, to="stopped", at=NOVEMBER, desired="stopped", stopped_at=NOVEMBER)
        move_rental(rental=one, to="starting", at=NOVEMBER, desired="running")
        move_rental(rental=one, to="booting", at=NOVEMBER)
    suspended(organization, machine)
    assert status(late) == "booting"

    with transaction.atomic():
        one = locked(late.pk)
        move_rental(rental=one, to="verifying", at=SUSPENDED + DAY)
        move_rental(rental=one, to="running", at=SUSPENDED + DAY)
    beat(SUSPENDED + DAY)
    assert status(late) == "stopping"
    switched_off(late, SUSPENDED + DAY)
    for day in range(2, 16):
        beat(SUSPENDED + timedelta(days=day))
    beat(SUSPENDED + 15 * DAY + 10 * MINUTE)
    assert (status(machine), status(late)) == ("destroying", "suspended")

    beat(SUSPENDED + 16 * DAY)

    assert status(late) == "destroying"
    beat(SUSPENDED + 16 * DAY + MINUTE)
    assert Arrears.objects.get().status == "released"


def test_a_stopped_machine_is_suspended_too():
    organization = customer()
    running(organization)
    still = stopped(organization)

    beat(BELOW)
    beat(BELOW + 2 * HOUR)

    assert (status(still), still.desired) == ("suspended", "stopped")


# --- paid in between -------------------------------------------------------------------------------------------------
def test_paid_within_the_two_hours_nothing_stops():
    organization = customer()
    machine = running(organization)
    beat(BELOW)
    top_up(organization, 100_000, at=BELOW + HOUR)

    assert beat(BELOW + HOUR) == 1
    assert beat(BELOW + 3 * HOUR) == 0

    assert (status(machine), Arrears.objects.get().status) == ("running", "cleared")
    assert [
        params["now"] for params in Notification.objects.filter(kind="arrears_cleared").values_list("params", flat=True)
    ] == ["in_time"]


@pytest.mark.parametrize("day", [0, 6, 13])
def test_a_late_payment_resumes_with_the_same_subscription(day):
    organization = customer()
    machine, still = running(organization), stopped(organization)
    before = (machine.subscription_id, machine.subscription.anchor_day, machine.subscription.rate)
    suspended(organization, machine)
    paid_at = SUSPENDED + timedelta(days=day, hours=1)
    for walked in range(day + 1):
        beat(SUSPENDED + timedelta(days=walked))
    top_up(organization, 100_000, at=paid_at)

    assert beat(paid_at) == 3

    assert (status(machine), status(still)) == ("starting", "stopped")
    machine.subscription.refresh_from_db()
    assert (machine.subscription_id, machine.subscription.anchor_day, machine.subscription.rate) == before
    assert machine.subscription.ended_at is None
    assert (machine.desired, machine.suspension, still.stopped_at) == ("running", "", paid_at)
    assert Arrears.objects.get().cleared_at == paid_at
    assert beat(paid_at + MINUTE) == 0
    assert told()[-1] == ("arrears_cleared", paid_at)


def test_a_payment_while_it_is_marked_saves_the_data():
    organization = customer()
    machine = running(organization)
    suspended(organization, machine)
    for day in range(16):
        beat(SUSPENDED + timedelta(days=day))
    assert Arrears.objects.get().status == "releasing"
    top_up(organization, 100_000, at=SUSPENDED + 15 * DAY + 5 * MINUTE)

    beat(SUSPENDED + 15 * DAY + 10 * MINUTE)

    assert (Arrears.objects.get().status, status(machine)) == ("cleared", "starting")


def test_a_payment_after_the_balance_was_read_undoes_the_deletion(monkeypatch):
    """It commits between the first look and the account's lock; the second look sees it."""
    organization = customer()
    machine = running(organization)
    suspended(organization, machine)
    for day in range(16):
        beat(SUSPENDED + timedelta(days=day))
    real = ladder._balance

    def pays_first(organization_id, at):
        top_up(organization, 100_000, at=at)
        return real(organization_id, at)

    monkeypatch.setattr(ladder, "_balance", pays_first)
    with pytest.raises(ladder._Settled):
        ladder._delete(rental_id=machine.pk, at=SUSPENDED + 16 * DAY)

    assert status(machine) == "suspended"


def test_paid_too_little_changes_nothing():
    organization = customer()
    machine = running(organization)
    suspended(organization, machine)
    top_up(organization, 1_000, at=SUSPENDED + HOUR)

    assert beat(SUSPENDED + HOUR) == 0
    assert status(machine) == "suspended"


def test_the_next_time_below_zero_is_a_ladder_of_its_own():
    organization = customer()
    machine = running(organization)
    beat(BELOW)
    top_up(organization, 2_000, at=BELOW + HOUR)
    beat(BELOW + HOUR)
    again = NOVEMBER + 4 * HOUR + MINUTE
    beat(again)
    beat(again + 2 * HOUR)

    assert list(Arrears.objects.order_by("pk").values_list("status", "opened_at")) == [
        ("cleared", BELOW),
        ("suspended", again),
    ]
    assert status(machine) == "stopping"
    assert [kind for kind, _at in told()] == [
        "arrears_begun", "arrears_cleared", "arrears_begun", "arrears_suspended",
    ]  # fmt: skip


def test_debts_that_remain_after_deletion_are_settled_by_a_payment():
    organization = customer()
    machine = running(organization)
    suspended(organization, machine)
    for day in range(17):
        beat(SUSPENDED + timedelta(days=day))
        beat(SUSPENDED + timedelta(days=day, minutes=11))
    assert (Arrears.objects.get().status, status(machine)) == ("released", "destroying")
    top_up(organization, 100_000, at=SUSPENDED + 20 * DAY)

    beat(SUSPENDED + 20 * DAY)

    assert Arrears.objects.get().status == "cleared"
    assert Notification.objects.get(kind="arrears_cleared").params["now"] == "released"


# --- repeats, sleeps, kills and holds --------------------------------------------------------------------------------
def test_a_sweep_that_slept_tells_the_last_notice_and_deletes_as_much_later():
    organization = customer()
    machine = running(organization)
    suspended(organization, machine)
    woke = SUSPENDED + 30 * DAY

    assert beat(woke) == 1
    assert Notification.objects.get(kind="arrears_kept").params["days"] == 1
    assert beat(woke + DAY - MINUTE) == 0
    assert status(machine) == "suspended"
    assert beat(woke + DAY) == 1
    assert Arrears.objects.get().status == "releasing"


def test_finance_holds_the_ladder_for_days():
    organization = customer()
    machine = running(organization)
    beat(BELOW)
    actions.hold_arrears(arrears_id=Arrears.objects.get().pk, days=3, at=BELOW)

    assert beat(BELOW + 3 * DAY - MINUTE) == 0
    assert status(machine) == "running"
    assert beat(BELOW + 3 * DAY) == 2
    assert status(machine) == "stopping"


def test_what_our_staff_suspended_is_neither_deleted_nor_resumed_by_money():
    organization = customer()
    machine = running(organization)
    suspended(organization, machine)
    rentals.suspend(rental_id=machine.pk, reason="operator", actor=None, at=SUSPENDED + HOUR)
    for day in range(20):
        beat(SUSPENDED + timedelta(days=day))
    top_up(organization, 100_000, at=SUSPENDED + 20 * DAY)
    beat(SUSPENDED + 20 * DAY)

    assert (status(machine), machine.suspension) == ("suspended", "operator")


def test_one_machine_that_cannot_be_moved_holds_up_no_other(monkeypatch, caplog):
    organization = customer()
    first, second = running(organization), running(organization, name="second")
    real = ladder.rentals.suspend
    monkeypatch.setattr(
        ladder.rentals,
        "suspend",
        lambda rental_id, **rest: 1 / 0 if rental_id == first.pk else real(rental_id=rental_id, **rest),
    )
    beat(BELOW)

    assert beat(SUSPENDED) == 2

    assert (status(first), status(second)) == ("running", "stopping")
    assert "cannot be enforced" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_sweeps_at_once_take_every_step_once():
    organization = customer()
    machines = [running(organization, name=f"m{n}") for n in range(3)]
    moments = [BELOW, SUSPENDED, *(SUSPENDED + timedelta(days=day) for day in (7, 12, 14, 15))]

    for at in moments:
        at_once(*times(4, lambda _n, at=at: beat(at)))
        if at == SUSPENDED:
            for machine in machines:
                switched_off(machine, at)
    for minutes in (10, 11):
        at_once(*times(4, lambda _n, minutes=minutes: beat(SUSPENDED + 15 * DAY + minutes * MINUTE)))

    assert [step for step, _at in steps()] == [
        "open", "suspended", "kept_7", "kept_12", "kept_14", "releasing", "released",
    ]  # fmt: skip
    assert len(told()) == 6
    for machine in machines:
        assert status(machine) == "destroying"
        assert list(machine.events.filter(kind="wish").values_list("what", flat=True)) == [
            "suspend_arrears", "arrears_unpaid",
        ]  # fmt: skip


class Killed(BaseException):
    """The worker is gone; nothing after it ran."""


CALLS = [
    (ladder, "refresh_credit"), (ladder, "_move"), (ladder, "_note"), (ladder, "notify"), (ladder, "take_step"),
    (ladder, "_suspend"), (ladder, "_delete"), (ladder, "_resume"), (ladder.rentals, "suspend"),
    (ladder.rentals, "request_terminate"), (ladder.rentals, "resume"), (ladder, "_balance"),
]  # fmt: skip
QUICK = {"_move", "request_terminate", "resume"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("pays", [False, True])
@pytest.mark.parametrize(
    ("where", "name"), [pytest.param(*call, marks=() if call[1] in QUICK else pytest.mark.slow) for call in CALLS]
)
def test_killed_after_any_call_the_next_sweep_ends_it(monkeypatch, where, name, pays):
    """Every sweep dies once after the call and is run again: the same as if none had died."""
    organization = customer()
    machines = [running(organization, name=f"m{n}") for n in range(2)]
    real = getattr(where, name)
    marked = SUSPENDED + 15 * DAY

    def dies(*arguments, **named):
        real(*arguments, **named)
        raise Killed

    for at in (BELOW, SUSPENDED, SUSPENDED + 14 * DAY, marked, marked + 10 * MINUTE, marked + 11 * MINUTE):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, dies)
            for _attempt in range(3):
                try:
                    actions.refresh_all(at=at)
                    actions.enforce_arrears(at=at)
                except Killed:
                    continue
        for _again in range(2):
            beat(at)
        if at == SUSPENDED:
            for machine in machines:
                switched_off(machine, at)
        if pays and at == marked:
            top_up(organization, 1_000_000, at=at)

    expected = "starting" if pays else "destroying"
    assert [status(machine) for machine in machines] == [expected] * 2
    assert Arrears.objects.get().status == ("cleared" if pays else "released")
    assert [step for step, _at in steps()] == [
        "open", "suspended", "kept_14", "releasing", "cleared" if pays else "released",
    ]  # fmt: skip
    assert len(told()) == 4


# --- what the database holds -----------------------------------------------------------------------------------------
def test_an_account_has_one_open_arrears():
    account = actions.account_of(organization=customer())
    Arrears.objects.create(account=account, opened_at=NOVEMBER)

    with pytest.raises(IntegrityError), transaction.atomic():
        Arrears.objects.create(account=account, opened_at=NOVEMBER + DAY)


def test_a_step_stands_once_and_is_not_edited():
    one = Arrears.objects.create(account=actions.account_of(organization=customer()), opened_at=NOVEMBER)
    step = ArrearsStep.objects.create(arrears=one, step="kept_7", balance_minor=-1, at=NOVEMBER)

    with pytest.raises(IntegrityError), transaction.atomic():
        ArrearsStep.objects.create(arrears=one, step="kept_7", balance_minor=-2, at=NOVEMBER)
    with pytest.raises(InternalError), transaction.atomic():
        ArrearsStep.objects.filter(pk=step.pk).update(balance_minor=0)


@pytest.mark.parametrize("to", ["releasing", "released"])
def test_arrears_skip_no_step(to):
    one = Arrears.objects.create(account=actions.account_of(organization=customer()), opened_at=NOVEMBER)

    with pytest.raises(InternalError), transaction.atomic():
        Arrears.objects.filter(pk=one.pk).update(status=to, suspended_at=NOVEMBER)


def test_a_raised_limit_settles_it_too():
    organization = customer()
    machine = running(organization)
    suspended(organization, machine)
    accounts.set_credit_limit(organization=organization, limit_minor=100_000)

    beat(SUSPENDED + HOUR)

    assert status(machine) == "starting"
