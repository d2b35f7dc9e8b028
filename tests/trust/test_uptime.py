"""Uptime to the microsecond: clipped to its time, overlaps once, open and future incidents, local days and months."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trust.builders import local
from trust import uptime
from trust.uptime import Day, Event

ZONE = "Asia/Shanghai"
NOVEMBER = local("2026-11-01 00:00"), local("2026-12-01 00:00")
HOUR = timedelta(hours=1)


def percent(*outages, span=NOVEMBER):
    return uptime.uptime_percent([(local(a), local(b) if b else None) for a, b in outages], *span)


def test_a_time_without_an_outage_is_whole():
    assert percent() == Decimal("100.000")


def test_an_hour_of_november_is_one_of_720():
    # 719 / 720 = 99.8611… %
    assert percent(("2026-11-10 08:00", "2026-11-10 09:00")) == Decimal("99.861")


def test_the_share_is_cut_and_never_rounded_up_to_whole():
    end = datetime(2026, 11, 10, tzinfo=UTC)
    outage = (end, end + timedelta(microseconds=1))
    assert uptime.uptime_percent([outage], *NOVEMBER) == Decimal("99.999")


def test_overlaps_count_once_and_touching_ones_join():
    whole = percent(("2026-11-10 08:00", "2026-11-10 11:00"))
    assert percent(("2026-11-10 08:00", "2026-11-10 10:00"), ("2026-11-10 09:00", "2026-11-10 11:00")) == whole
    assert percent(("2026-11-10 08:00", "2026-11-10 11:00"), ("2026-11-10 09:00", "2026-11-10 10:00")) == whole
    assert percent(("2026-11-10 10:00", "2026-11-10 11:00"), ("2026-11-10 08:00", "2026-11-10 10:00")) == whole


def test_what_reaches_over_a_months_end_counts_in_each_month_with_its_part():
    outage = ("2026-10-31 23:00", "2026-11-01 02:00")
    october = local("2026-10-01 00:00"), local("2026-11-01 00:00")
    # 743 of 744 hours, 718 of 720 hours.
    assert percent(outage, span=october) == Decimal("99.865")
    assert percent(outage) == Decimal("99.722")


def test_the_end_of_february_follows_the_calendar():
    outage = ("2028-02-28 12:00", "2028-03-01 12:00")
    february = local("2028-02-01 00:00"), local("2028-03-01 00:00")
    assert uptime.length(uptime.within([(local(a), local(b)) for a, b in [outage]], *february)) == 36 * HOUR
    # 29 days: 660 of 696 hours.
    assert percent(outage, span=february) == Decimal("94.827")


def test_an_open_outage_counts_up_to_the_end_of_the_time():
    assert percent(("2026-11-30 12:00", None)) == Decimal("98.333")


def test_what_lies_outside_or_in_the_future_counts_nothing():
    assert percent(("2026-12-01 00:00", None), ("2026-10-01 00:00", "2026-11-01 00:00")) == Decimal("100.000")
    assert percent(("2027-01-01 00:00", "2027-01-02 00:00")) == Decimal("100.000")


def test_an_outage_over_all_of_it_leaves_nothing():
    assert percent(("2026-10-01 00:00", None)) == Decimal("0.000")


def test_a_time_without_length_has_no_share():
    at = NOVEMBER[0]
    assert uptime.uptime_percent([], at, at) is None
    assert uptime.uptime_percent([], at, at - HOUR) is None


def test_the_last_days_end_with_today_on_the_local_clock():
    # 16:30 UTC is half past midnight in Shanghai.
    days = uptime.last_days(datetime(2026, 11, 30, 16, 30, tzinfo=UTC), ZONE, 90)
    assert (days[0], days[-1], len(days)) == (date(2026, 9, 3), date(2026, 12, 1), 90)
    assert uptime.last_days(datetime(2026, 11, 30, 15, 59, tzinfo=UTC), ZONE, 1) == [date(2026, 11, 30)]


def days_of(*events, at="2026-11-04 12:00", first=1, count=4):
    days = [date(2026, 11, first) + timedelta(days=n) for n in range(count)]
    return uptime.by_day(
        [Event(impact, local(a), local(b) if b else None) for impact, a, b in events], days, ZONE, local(at)
    )


def test_an_incident_across_midnight_in_shanghai_is_on_both_days():
    assert days_of(("outage", "2026-11-01 23:30", "2026-11-02 00:15")) == [
        Day(date(2026, 11, 1), "outage", timedelta(minutes=30), timedelta(minutes=30)),
        Day(date(2026, 11, 2), "outage", timedelta(minutes=15), timedelta(minutes=15)),
        Day(date(2026, 11, 3), "", timedelta(), timedelta()),
        Day(date(2026, 11, 4), "", timedelta(), timedelta()),
    ]


def test_one_that_ends_at_midnight_is_not_on_the_next_day():
    assert [day.worst for day in days_of(("partial", "2026-11-01 22:00", "2026-11-02 00:00"))] == [
        "partial",
        "",
        "",
        "",
    ]


def test_the_day_shows_the_worst_and_counts_overlaps_once():
    [day] = days_of(
        ("degraded", "2026-11-01 08:00", "2026-11-01 12:00"),
        ("outage", "2026-11-01 10:00", "2026-11-01 11:00"),
        ("outage", "2026-11-01 10:30", "2026-11-01 11:30"),
        count=1,
    )
    assert day == Day(date(2026, 11, 1), "outage", 4 * HOUR, timedelta(minutes=90))


def test_an_open_one_reaches_to_the_present_and_no_further():
    assert [day.affected for day in days_of(("outage", "2026-11-03 18:00", None))] == [
        timedelta(), timedelta(), 6 * HOUR, 12 * HOUR,
    ]  # fmt: skip


def test_one_in_the_future_or_before_the_first_day_is_on_none():
    found = days_of(("outage", "2026-11-04 13:00", None), ("outage", "2026-10-31 00:00", "2026-11-01 00:00"))
    assert [day.worst for day in found] == ["", "", "", ""]


START = datetime(2026, 11, 1, tzinfo=UTC)
MINUTES = st.integers(-200, 1700)
PAIRS = st.lists(st.tuples(MINUTES, MINUTES), max_size=6)


@given(PAIRS)
def test_the_exact_share_is_that_of_counting_minutes(pairs):
    outages = [(START + timedelta(minutes=a), START + timedelta(minutes=b)) for a, b in pairs]
    down = sum(any(a <= minute < b for a, b in pairs) for minute in range(1440))
    wanted = Decimal((1440 - down) * 100_000 // 1440) / 1000
    assert uptime.uptime_percent(outages, START, START + timedelta(days=1)) == wanted


@given(PAIRS)
def test_the_days_add_up_to_the_whole(pairs):
    outages = [(START + timedelta(minutes=a), START + timedelta(minutes=b)) for a, b in pairs]
    at = START + timedelta(minutes=1440)
    days = uptime.by_day([Event("outage", a, b) for a, b in outages], uptime.last_days(at, ZONE, 4), ZONE, at)
    since = START - timedelta(minutes=200)
    assert sum((day.down for day in days), timedelta()) == uptime.length(uptime.within(outages, since, at))


@pytest.mark.parametrize(
    ("impacts", "worst"), [([], ""), (["degraded"], "degraded"), (["partial", "outage", "degraded"], "outage")]
)
def test_the_worst_is_the_worst(impacts, worst):
    assert uptime.worst_of(impacts) == worst
