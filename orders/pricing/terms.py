"""Time that is sold by the month or the year: calendar months with an anchor day, and parts of a period.

Instants are UTC and periods half-open; a period is cut at midnights of the organization's zone. Boundaries are always
counted from the first day with its anchor, never from the last boundary: 31 Jan → 28 Feb → 31 Mar, not → 28 Mar.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

from marketplace.lib import clock

MONTHS_PER_TERM = {"month": 1, "year": 12}
DAY = timedelta(days=1)

Period = tuple[datetime, datetime]


class NotInPeriod(ValueError):
    """A part was asked for that its period does not hold: a bug in the caller, never a small bill."""


def term_end(*, started_at: datetime, term: str, periods: int, zone: str) -> tuple[int, datetime]:
    """The anchor day of a prepaid term and the instant it ends: 00:00 in `zone` after its last day (half-open).

    The last day is the start day that many calendar months later, on the anchor day or the month's last:
    31 Jan + 1 month → 28 or 29 Feb, 29 Feb + 1 year → 28 Feb. Raises KeyError for a term without an end.
    """
    start = clock.local_date(started_at, zone)
    return start.day, _end_after(start, MONTHS_PER_TERM[term] * periods, start.day, zone)


def extended_end(*, ends_at: datetime, anchor_day: int, term: str, periods: int, zone: str) -> datetime:
    """The end of a running term after `periods` more: from its old end on, with its own anchor.

    A term from 31 Jan to 28 Feb ends on 31 Mar after one more month. Raises KeyError for a term without an end.
    """
    return _end_after(_last_day(ends_at, zone), MONTHS_PER_TERM[term] * periods, anchor_day, zone)


def term_periods(*, started_at: datetime, term: str, periods: int, zone: str) -> list[Period]:
    """The months or years of a term, in order; the first begins with the term, at any time of its day."""
    start = clock.local_date(started_at, zone)
    return _cut(started_at, start, start.day, _months(term, periods), zone)


def extension_periods(*, ends_at: datetime, anchor_day: int, term: str, periods: int, zone: str) -> list[Period]:
    """The months or years that an extension adds behind the old end, in order."""
    return _cut(ends_at, _last_day(ends_at, zone), anchor_day, _months(term, periods), zone)


def anchor_periods(*, starts_on: date, months: int, zone: str, until: datetime) -> Iterator[Period]:
    """The periods of `months` calendar months of something that recurs, from 00:00 of its first day in `zone`, as far
    as they begin before `until`. The anchor is the first day's."""
    number, start = 0, clock.local_midnight(starts_on, zone)
    while start < until:
        number += 1
        next_day = clock.add_months(starts_on, months * number, anchor_day=starts_on.day)
        end = clock.local_midnight(next_day, zone)
        yield start, end
        start = end


def prorated(amount_minor: int, *, used: Period, period: Period) -> int:
    """The part of a period's amount that `used` takes, in minor units, rounded once, half up on the magnitude.

    Divides by the seconds of the full anchor period, whatever of it was left when the use began. Nothing used costs
    nothing. Raises NotInPeriod when `used` lies outside of `period` or ends before it begins.
    """
    if not period[0] <= used[0] <= used[1] <= period[1] or period[0] == period[1]:
        raise NotInPeriod(f"{used[0]} – {used[1]} is no part of {period[0]} – {period[1]}")
    return half_up(amount_minor * Fraction(_microseconds(used), _microseconds(period)))


def shares(amount_minor: int, parts: int) -> list[int]:
    """An amount in `parts` parts that differ by a minor unit at most and add up to it."""
    up_to = [half_up(Fraction(amount_minor * number, parts)) for number in range(parts + 1)]
    return [after - before for before, after in pairwise(up_to)]


def half_up(exact: Fraction) -> int:
    """The nearest whole number, halves away from zero."""
    magnitude = abs(exact)
    rounded = (2 * magnitude.numerator + magnitude.denominator) // (2 * magnitude.denominator)
    return -rounded if exact < 0 else rounded


def _microseconds(period: Period) -> int:
    return (period[1] - period[0]) // timedelta(microseconds=1)


def _last_day(ends_at: datetime, zone: str) -> date:
    """The last local day of a term that ends at a midnight."""
    return clock.local_date(ends_at, zone) - DAY


def _end_after(first_day: date, months: int, anchor_day: int, zone: str) -> datetime:
    return clock.local_midnight(clock.add_months(first_day, months, anchor_day=anchor_day) + DAY, zone)


def _months(term: str, periods: int) -> list[int]:
    """After how many months each period ends."""
    return [MONTHS_PER_TERM[term] * number for number in range(1, periods + 1)]


def _cut(starts_at: datetime, first_day: date, anchor_day: int, months: Iterable[int], zone: str) -> list[Period]:
    ends = [_end_after(first_day, after, anchor_day, zone) for after in months]
    return list(pairwise([starts_at, *ends]))
