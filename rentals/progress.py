"""A rental's events as a person reads them: the steps of what is under way, and the timeline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from marketplace.lib.money import format_minor
from rentals import reasons
from rentals.models import Rental, RentalEvent

Status, Kind = Rental.Status, RentalEvent.Kind

Text = str | Promise
Cycle = tuple[tuple[str, Text], ...]

NEW: Cycle = (
    (Status.RESERVED, gettext_lazy("Cards reserved")),
    (Status.BOOTING, gettext_lazy("Machine created")),
    (Status.VERIFYING, gettext_lazy("Machine started")),
    (Status.RUNNING, gettext_lazy("Logged in and cards counted: ready")),
)
START: Cycle = (
    (Status.STARTING, gettext_lazy("Start requested, cards held")),
    (Status.BOOTING, gettext_lazy("Switched on")),
    (Status.VERIFYING, gettext_lazy("Machine started")),
    (Status.RUNNING, gettext_lazy("Logged in and cards counted: ready")),
)
STOP: Cycle = (
    (Status.STOPPING, gettext_lazy("Stop requested")),
    (Status.STOPPED, gettext_lazy("Machine stopped, disk kept")),
)
SUSPENDING: Cycle = (
    (Status.STOPPING, gettext_lazy("Being suspended")),
    (Status.SUSPENDED, gettext_lazy("Suspended, disk kept")),
)
KEPT_OFF: Cycle = SUSPENDING[1:]
END: Cycle = (
    (Status.DESTROYING, gettext_lazy("Being deleted")),
    (Status.GONE, gettext_lazy("Machine and disk deleted, cards free")),
)
FAILING: Cycle = (
    (Status.DESTROYING, gettext_lazy("Leftovers being removed")),
    (Status.FAILED, gettext_lazy("Removed, cards free")),
)
# Which steps a status event begins.
CYCLES: dict[str, Cycle] = {Status.RESERVED: NEW, Status.STARTING: START, Status.STOPPING: STOP, Status.DESTROYING: END}
TROUBLE = frozenset({Status.FAILED, Status.LOST, Status.NEEDS_OPERATOR})


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the stepper component: state is done, current, waiting or failed."""

    label: Text
    state: str
    at: datetime | None = None
    note: Text = ""


def steps(rental: Rental, events: Sequence[RentalEvent]) -> list[Step]:
    """The steps of what was begun last, with the instant at which each was reached. `events` in order of time."""
    cycle, reached = _reached(events)
    if cycle is END and rental.failure and rental.running_at is None:
        cycle = FAILING
    if rental.suspension:
        was_running = cycle is STOP and Status.STOPPED not in reached
        cycle = SUSPENDING if was_running else KEPT_OFF
    shown: list[Step] = []
    for status, label in cycle:
        at = reached.get(status)
        if at is not None:
            shown.append(Step(label, "done", at, _ready_after(status, reached, at)))
        elif shown and shown[-1].state != "done":
            shown.append(Step(label, "waiting"))
        elif rental.status in TROUBLE:
            shown.append(Step(label, "failed"))
        else:
            shown.append(Step(label, "current"))
    return shown


def _reached(events: Sequence[RentalEvent]) -> tuple[Cycle, dict[str, datetime]]:
    cycle, previous = NEW, ""
    reached: dict[str, datetime] = {}
    for event in events:
        if event.kind != Kind.STATUS:
            continue
        if event.what in CYCLES:
            cycle, reached = CYCLES[event.what], {}
        elif event.what == Status.CREATING and previous == Status.NEEDS_OPERATOR:
            reached = {Status.RESERVED: event.at}
        reached[event.what] = event.at
        previous = event.what
    return cycle, reached


def _ready_after(status: str, reached: dict[str, datetime], at: datetime) -> Text:
    if status != Status.RUNNING:
        return ""
    began = reached.get(Status.RESERVED) or reached.get(Status.STARTING)
    return _("ready after %(seconds).1f s") % {"seconds": (at - began).total_seconds()} if began else ""


# --- timeline --------------------------------------------------------------------------------------------------------

WISHES: dict[str, Text] = {
    "stop": gettext_lazy("Stop requested"),
    "start": gettext_lazy("Start requested"),
    "terminate": gettext_lazy("Termination requested"),
    "retry": gettext_lazy("Retry ordered by an operator"),
    "destroyed_by_operator": gettext_lazy("Ended by an operator"),
    "converted": gettext_lazy("A term has taken the place of the hour"),
    "term_over": gettext_lazy("The term has ended"),
    "restored": gettext_lazy("A new term was paid: the same cards are its own again"),
    "kept_long_enough": gettext_lazy("The keeping time is over"),
    "suspend_arrears": gettext_lazy("Suspended: the balance is below zero"),
    "suspend_operator": gettext_lazy("Suspended by our staff"),
    "resume": gettext_lazy("Suspension taken back"),
    "arrears_unpaid": gettext_lazy("The balance stayed below zero for as long as the data was kept"),
    "budget": gettext_lazy("Stopped by a budget that is used up"),
    "auto_stop_at_time": gettext_lazy("Stopped by rule: the time that was set has come"),
    "auto_stop_set_at_time": gettext_lazy("Auto-stop set: at a time"),
    "auto_stop_removed_idle": gettext_lazy("Auto-stop removed: when idle"),
    "auto_stop_removed_at_time": gettext_lazy("Auto-stop removed: at a time"),
    "auto_stop_removed_at_spend": gettext_lazy("Auto-stop removed: at a cost"),
}


def _idle_stop(figures: Mapping[str, Any]) -> str:
    return ngettext(
        "Stopped by rule: idle %(minutes)s minute below %(percent)s %%",
        "Stopped by rule: idle %(minutes)s minutes below %(percent)s %%",
        figures["minutes"],
    ) % {"minutes": figures["minutes"], "percent": figures["percent"]}


def _idle_set(figures: Mapping[str, Any]) -> str:
    return ngettext(
        "Auto-stop set: idle %(minutes)s minute below %(percent)s %%",
        "Auto-stop set: idle %(minutes)s minutes below %(percent)s %%",
        figures["minutes"],
    ) % {"minutes": figures["minutes"], "percent": figures["percent"]}


def _spend_stop(figures: Mapping[str, Any]) -> str:
    return _("Stopped by rule: it has cost %(amount)s") % {"amount": _amount(figures)}


def _spend_set(figures: Mapping[str, Any]) -> str:
    return _("Auto-stop set: at a cost of %(amount)s") % {"amount": _amount(figures)}


def _amount(figures: Mapping[str, Any]) -> str:
    return format_minor(figures["amount_minor"], figures["currency"])


# Wishes whose words hold figures of the event.
FIGURED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "auto_stop_idle": _idle_stop,
    "auto_stop_set_idle": _idle_set,
    "auto_stop_at_spend": _spend_stop,
    "auto_stop_set_at_spend": _spend_set,
}
CALLS: dict[str, Text] = {
    "ensure": gettext_lazy("Create machine"),
    "observe": gettext_lazy("Look at machine"),
    "power": gettext_lazy("Switch power"),
    "probe": gettext_lazy("Log in and count cards"),
    "destroy": gettext_lazy("Delete machine"),
    "fence": gettext_lazy("Cut off server"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the timeline."""

    at: datetime
    kind: str
    what: Text
    outcome: Text
    milliseconds: int | None
    who: Text


OUTCOMES: dict[str, Text] = {
    "": "",
    "ok": gettext_lazy("done"),
    "gone": gettext_lazy("gone"),
    "not_yet": gettext_lazy("not yet"),
}


def timeline(events: Sequence[RentalEvent]) -> list[Entry]:
    """Every event in the reader's words, the newest first. Needs `actor` loaded."""
    return [
        Entry(
            at=event.at,
            kind=event.kind,
            what=what_happened(event),
            outcome=OUTCOMES.get(event.outcome, reasons.WHAT.get(event.outcome, event.outcome)),
            milliseconds=event.milliseconds,
            who=str(event.actor) if event.actor else "",
        )
        for event in reversed(events)
    ]


def what_happened(event: RentalEvent) -> Text:
    """One event in the reader's words."""
    if event.kind == Kind.STATUS:
        return Status(event.what).label if event.what in Status.values else event.what
    if event.what in FIGURED:
        return FIGURED[event.what](event.details)
    return (WISHES if event.kind == Kind.WISH else CALLS).get(event.what, event.what)
