"""What the status page shows: facts in, words and rows out. The page is made of these values and of nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from marketplace.lib import clock
from marketplace.lib.templatetags.values import duration
from trust import uptime
from trust.models import Incident
from trust.queries import Place, Told, Trouble, Work
from trust.uptime import ZONE

# Cells of a history bar.
DAYS = 90

# What a region or a day can be, from the best to the worst, with its word and its look among the status marks.
STATES = {
    "unknown": (gettext_lazy("No record"), "neutral"),
    "operational": (gettext_lazy("Operational"), "good"),
    "maintenance": (gettext_lazy("Under maintenance"), "busy"),
    "degraded": (Incident.Impact.DEGRADED.label, "warn"),
    "partial": (Incident.Impact.PARTIAL.label, "warn"),
    "outage": (Incident.Impact.OUTAGE.label, "bad"),
}
RANK = list(STATES)
OVERALL = {
    "unknown": gettext_lazy("No region is on record yet"),
    "operational": gettext_lazy("All regions are operational"),
    "maintenance": gettext_lazy("Maintenance is under way"),
    "degraded": gettext_lazy("Some services are slower than usual"),
    "partial": gettext_lazy("Part of the service is down"),
    "outage": gettext_lazy("There is an outage"),
}
TONES = {"good": "good", "busy": "info", "warn": "warn", "bad": "bad", "neutral": "info"}
# The look of an incident's status among the status marks.
LOOKS = {"investigating": "bad", "identified": "warn", "monitoring": "busy", "resolved": "good"}


class State(NamedTuple):
    key: str
    label: str
    look: str
    tone: str


class Cell(NamedTuple):
    """One day of a history bar."""

    state: str
    title: str


class TroubledDay(NamedTuple):
    """A day that was not plain, for the table behind the bar."""

    day: str
    label: str
    affected: str
    down: str


class RegionRow(NamedTuple):
    name: str
    has_machine_room: bool
    state: State
    uptime: Decimal | None
    recorded_since: date | None
    summary: str
    cells: tuple[Cell, ...]
    troubled: tuple[TroubledDay, ...]


class Update(NamedTuple):
    label: str
    body: str
    at: datetime


class IncidentView(NamedTuple):
    id: int
    title: str
    impact: State
    status: str
    look: str
    regions: tuple[str, ...]
    started_at: datetime
    ended_at: datetime | None
    lasted: str
    updates: tuple[Update, ...]


class WorkView(NamedTuple):
    id: int
    title: str
    body: str
    starts_at: datetime
    ends_at: datetime
    announced_at: datetime
    lasts: str
    running: bool
    cancelled: bool
    regions: tuple[str, ...]


class Month(NamedTuple):
    name: str
    incidents: tuple[IncidentView, ...]


class StatusPage(NamedTuple):
    """All of the status page, equal for equal facts."""

    overall: State
    headline: str
    regions: tuple[RegionRow, ...]
    current: tuple[IncidentView, ...]
    planned: tuple[WorkView, ...]
    months: tuple[Month, ...]
    legend: tuple[State, ...]
    days: int
    zone: str


def window_start(at: datetime) -> datetime:
    """The instant at which the first day of the history bars began."""
    return clock.local_midnight(uptime.last_days(at, ZONE, DAYS)[0], ZONE)


def status_page(
    places: Sequence[Place], troubles: Sequence[Trouble], works: Sequence[Work], *, at: datetime
) -> StatusPage:
    """The page at the instant `at`, in the reader's language."""
    names = {place.id: place.name for place in places}
    regions = tuple(_region(place, troubles, works, at) for place in places)
    overall = max((row.state.key for row in regions), key=RANK.index, default="unknown")
    views = [_incident(trouble, names, at) for trouble in troubles]
    return StatusPage(
        overall=state(overall),
        headline=str(OVERALL[overall]),
        regions=regions,
        current=tuple(view for view in views if view.ended_at is None),
        planned=tuple(_work(work, names, at) for work in works),
        months=tuple(_months([view for view in views if view.ended_at is not None], places, at)),
        legend=tuple(state(key) for key in ("operational", "degraded", "partial", "outage", "unknown")),
        days=DAYS,
        zone=ZONE,
    )


def state(key: str) -> State:
    label, look = STATES[key]
    return State(key, str(label), look, TONES[look])


def _region(place: Place, troubles: Iterable[Trouble], works: Iterable[Work], at: datetime) -> RegionRow:
    events = [uptime.Event(one.impact, one.started_at, one.ended_at) for one in troubles if place.id in one.regions]
    days = uptime.by_day(events, uptime.last_days(at, ZONE, DAYS), ZONE, at)
    troubled = tuple(_troubled(day) for day in days if day.worst)
    percent = _uptime(place, events, at)
    return RegionRow(
        name=place.name,
        has_machine_room=place.has_machine_room,
        state=state(_state_now(place, events, works, at)),
        uptime=percent,
        recorded_since=place.recorded_since,
        summary=_summary(percent, len(troubled)),
        cells=tuple(_cell(day, place.recorded_since) for day in days),
        troubled=troubled[::-1],
    )


def _state_now(place: Place, events: Iterable[uptime.Event], works: Iterable[Work], at: datetime) -> str:
    wrong = uptime.worst_of(event.impact for event in events if event.start <= at and event.end is None)
    if wrong:
        return wrong
    if any(place.id in work.regions and not work.cancelled and work.starts_at <= at for work in works):
        return "maintenance"
    return "unknown" if place.recorded_since is None else "operational"


def _uptime(place: Place, events: Iterable[uptime.Event], at: datetime) -> Decimal | None:
    """Over the days of the bar that are on record, up to `at`."""
    if place.recorded_since is None:
        return None
    start = max(window_start(at), clock.local_midnight(place.recorded_since, ZONE))
    return uptime.uptime_percent([(e.start, e.end) for e in events if e.impact == uptime.OUTAGE], start, at)


def _cell(day: uptime.Day, recorded_since: date | None) -> Cell:
    unknown = recorded_since is None or day.day < recorded_since
    key = day.worst or ("unknown" if unknown else "operational")
    label = STATES[key][0]
    title = f"{day.day:%Y-%m-%d} · {label}"
    return Cell(key, f"{title} · {_length(day)}" if day.worst else title)


def _length(day: uptime.Day) -> str:
    return duration(int(day.affected.total_seconds()))


def _troubled(day: uptime.Day) -> TroubledDay:
    down = duration(int(day.down.total_seconds())) if day.down else ""
    return TroubledDay(f"{day.day:%Y-%m-%d}", str(STATES[day.worst][0]), _length(day), down)


def _summary(percent: Decimal | None, troubled: int) -> str:
    """The bar in words, for whoever does not see it."""
    days = ngettext(
        "%(count)d day with an incident in the last 90 days.",
        "%(count)d days with incidents in the last 90 days.",
        troubled,
    ) % {"count": troubled}
    if percent is None:
        return days
    share = _("Availability %(percent)s %%.") % {"percent": percent}
    return f"{share} {days}"


def _incident(trouble: Trouble, names: dict[int, str], at: datetime) -> IncidentView:
    end = trouble.ended_at or at
    return IncidentView(
        id=trouble.id,
        title=trouble.title,
        impact=state(trouble.impact),
        status=str(Incident.Status(trouble.status).label),
        look=LOOKS[trouble.status],
        regions=_names(trouble.regions, names),
        started_at=trouble.started_at,
        ended_at=trouble.ended_at,
        lasted=duration(int((end - trouble.started_at).total_seconds())) if trouble.ended_at else "",
        updates=tuple(_update(one) for one in trouble.updates),
    )


def _update(told: Told) -> Update:
    return Update(str(Incident.Status(told.status).label), told.body, told.at)


def _work(work: Work, names: dict[int, str], at: datetime) -> WorkView:
    return WorkView(
        id=work.id,
        title=work.title,
        body=work.body,
        starts_at=work.starts_at,
        ends_at=work.ends_at,
        announced_at=work.announced_at,
        lasts=duration(int((work.ends_at - work.starts_at).total_seconds())),
        running=work.starts_at <= at and not work.cancelled,
        cancelled=work.cancelled,
        regions=_names(work.regions, names),
    )


def _names(regions: Iterable[int], names: dict[int, str]) -> tuple[str, ...]:
    """In the order of the list of regions; one that was switched off since is left out."""
    wanted = set(regions)
    return tuple(name for pk, name in names.items() if pk in wanted)


def _months(past: Sequence[IncidentView], places: Sequence[Place], at: datetime) -> Iterable[Month]:
    """The calendar months that are on record, the newest first, each with the past incidents that started in it."""
    starts = [clock.local_date(view.started_at, ZONE) for view in past]
    first_shown = clock.local_date(window_start(at), ZONE)
    recorded = [max(place.recorded_since, first_shown) for place in places if place.recorded_since]
    earliest = min([*recorded, *starts], default=None)
    month = clock.local_date(at, ZONE).replace(day=1)
    while earliest is not None and month >= earliest.replace(day=1):
        inside = [view for view, day in zip(past, starts, strict=True) if day.replace(day=1) == month]
        yield Month(date_format(month, "YEAR_MONTH_FORMAT"), tuple(inside))
        month = clock.add_months(month, -1, anchor_day=1)
