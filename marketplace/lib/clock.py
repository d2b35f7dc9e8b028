"""Time as the business counts it: UTC instants in, half-open periods cut at local midnight and calendar months."""

import calendar
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

FRIDAY = 5  # ISO
# A twelfth of 8,760: by it prices of an hour and of a month are compared. A month that is sold is a calendar month.
HOURS_PER_MONTH = 730


def now() -> datetime:
    """The present instant in UTC. Only edges, tasks and commands call this; everything below takes `at=`."""
    return datetime.now(UTC)


def local_date(at: datetime, zone: str) -> date:
    """The calendar day on which the instant `at` falls in `zone`."""
    return at.astimezone(ZoneInfo(zone)).date()


def local_midnight(day: date, zone: str) -> datetime:
    """The instant, in UTC, at which `day` begins in `zone`."""
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)


def read(at: datetime, zone: str) -> str:
    """The instant `at` as a sentence names it in `zone`: 2026-11-30 23:59."""
    return at.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")


def month_start(at: datetime, zone: str) -> datetime:
    """The instant at which the calendar month of `at` began in `zone`."""
    return local_midnight(local_date(at, zone).replace(day=1), zone)


def next_month_start(at: datetime, zone: str) -> datetime:
    """The instant at which the calendar month after that of `at` begins in `zone`."""
    day = local_date(at, zone)
    first = date(day.year + day.month // 12, day.month % 12 + 1, 1)
    return local_midnight(first, zone)


def add_months(day: date, months: int, *, anchor_day: int) -> date:
    """The day `months` calendar months later that carries the anchor day, or the month's last day where it has none.

    Pass the original anchor every time: 31 Jan → 28 or 29 Feb → 31 Mar.
    """
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(anchor_day, last))


def after_working_days(at: datetime, days: int, zone: str) -> datetime:
    """The instant at which the `days`-th day from Monday to Friday after that of `at` is over in `zone`."""
    day = local_date(at, zone)
    while days:
        day += timedelta(days=1)
        days -= day.isoweekday() <= FRIDAY
    return local_midnight(day + timedelta(days=1), zone)


def split_at_midnights(start: datetime, end: datetime, zone: str) -> Iterator[tuple[datetime, datetime]]:
    """Cut `[start, end)` at every local midnight inside it, in order; empty when `end` is not after `start`."""
    while start < end:
        midnight = local_midnight(local_date(start, zone) + timedelta(days=1), zone)
        stop = min(midnight, end)
        yield start, stop
        start = stop
