"""How a region did, worked out from the intervals of its incidents. Pure: no database, no clock.

Intervals are half-open, in UTC; an end of None means that it lasts. Days are calendar days of a zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from marketplace.lib import clock

Interval = tuple[datetime, datetime | None]

# Days are cut here in every region, as billing cuts them.
ZONE = "Asia/Shanghai"
# From the least to the worst; only an outage counts as time the service was not there.
IMPACTS = ("degraded", "partial", "outage")
OUTAGE = "outage"


class Event(NamedTuple):
    """What an incident was for one region."""

    impact: str
    start: datetime
    end: datetime | None


class Day(NamedTuple):
    """One local day: its worst impact ("" for none) and for how long something was wrong."""

    day: date
    worst: str
    affected: timedelta
    down: timedelta


def within(intervals: Iterable[Interval], start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """The parts of the intervals inside `[start, end)`, overlaps made one, in order."""
    inside = sorted((max(a, start), min(b or end, end)) for a, b in intervals)
    merged: list[tuple[datetime, datetime]] = []
    for a, b in inside:
        if a >= b:
            continue
        if merged and a <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], b)
        else:
            merged.append((a, b))
    return merged


def length(intervals: Iterable[tuple[datetime, datetime]]) -> timedelta:
    """How long disjoint intervals are together."""
    return sum((b - a for a, b in intervals), timedelta())


def uptime_percent(outages: Iterable[Interval], start: datetime, end: datetime) -> Decimal | None:
    """The share of `[start, end)` without an outage, in percent with three decimals, cut and not rounded up.

    So 100.000 means that there was none, to the microsecond. None for a time without length.
    """
    tick = timedelta(microseconds=1)
    total = (end - start) // tick
    if total <= 0:
        return None
    down = length(within(outages, start, end)) // tick
    return Decimal((total - down) * 100_000 // total).scaleb(-3)


def last_days(at: datetime, zone: str, count: int) -> list[date]:
    """The last `count` calendar days, that of `at` being the last."""
    today = clock.local_date(at, zone)
    return [today - timedelta(days=back) for back in range(count - 1, -1, -1)]


def by_day(events: Iterable[Event], days: Sequence[date], zone: str, at: datetime) -> list[Day]:
    """Each of the consecutive days, as the events up to `at` left it."""
    start = clock.local_midnight(days[0], zone)
    pieces: dict[date, list[Event]] = {}
    for event in events:
        for piece_start, piece_end in within([(event.start, event.end)], start, at):
            for a, b in clock.split_at_midnights(piece_start, piece_end, zone):
                pieces.setdefault(clock.local_date(a, zone), []).append(Event(event.impact, a, b))
    return [_day(day, pieces.get(day, ())) for day in days]


def _day(day: date, pieces: Sequence[Event]) -> Day:
    if not pieces:
        return Day(day, "", timedelta(), timedelta())
    start, end = min(piece.start for piece in pieces), max(piece.end or piece.start for piece in pieces)
    return Day(
        day,
        worst_of(piece.impact for piece in pieces),
        length(within([(p.start, p.end) for p in pieces], start, end)),
        length(within([(p.start, p.end) for p in pieces if p.impact == OUTAGE], start, end)),
    )


def worst_of(impacts: Iterable[str]) -> str:
    """The worst of them, "" for none."""
    return max(impacts, key=IMPACTS.index, default="")
