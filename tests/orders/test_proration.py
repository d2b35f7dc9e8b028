"""Golden tables of months, anchors and parts of a period. Every value was worked out by hand from the rule."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketplace.lib import clock
from orders import pricing

SHANGHAI, KOLKATA, NEW_YORK = "Asia/Shanghai", "Asia/Kolkata", "America/New_York"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def midnight(day: str, zone: str) -> datetime:
    return clock.local_midnight(date.fromisoformat(day), zone)


# --- a part of a period divides by the whole anchor period -----------------------------------------------------------
@pytest.mark.parametrize(
    ("month", "days", "used_days", "minor"),
    [
        # ¥310.00 for the month; the days are those of the month, never 30 by custom.
        ("2026-02-01", 28, 7, 7750),
        ("2028-02-01", 29, 7, 7483),  # 31000 × 7 / 29 = 7482.76
        ("2026-04-01", 30, 7, 7233),  # 31000 × 7 / 30 = 7233.33
        ("2026-01-01", 31, 7, 7000),
        ("2026-02-01", 28, 0, 0),
        ("2026-02-01", 28, 28, 31000),
        ("2028-02-01", 29, 29, 31000),
        ("2026-04-01", 30, 15, 15500),
        ("2026-01-01", 31, 1, 1000),
    ],
)
def test_days_of_a_month_cost_their_share_of_that_month(month, days, used_days, minor):
    first = date.fromisoformat(month)
    start = clock.local_midnight(first, SHANGHAI)
    end = clock.local_midnight(clock.add_months(first, 1, anchor_day=1), SHANGHAI)
    assert (end - start).days == days

    used = (start, clock.local_midnight(date.fromordinal(first.toordinal() + used_days), SHANGHAI))

    assert pricing.prorated(31000, used=used, period=(start, end)) == minor


@pytest.mark.parametrize(
    ("used_from", "minor"),
    [
        # An upgrade in the middle pays for what is left by the length of the whole period (lago-api pull 6194: dividing
        # by the 16 days that were left charged all of it).
        ("2026-01-16", 16000),
        ("2026-01-31", 1000),
        ("2026-01-01", 31000),
    ],
)
def test_what_is_left_of_a_period_is_divided_by_the_whole_of_it(used_from, minor):
    period = (midnight("2026-01-01", SHANGHAI), midnight("2026-02-01", SHANGHAI))

    assert pricing.prorated(31000, used=(midnight(used_from, SHANGHAI), period[1]), period=period) == minor


def test_a_second_costs_its_share_and_half_a_unit_is_rounded_up():
    period = (utc("2026-01-01T00:00:00"), utc("2026-01-01T00:00:02"))
    half = (period[0], utc("2026-01-01T00:00:01"))

    assert pricing.prorated(1, used=half, period=period) == 1
    assert pricing.prorated(-1, used=half, period=period) == -1
    assert pricing.prorated(3, used=half, period=period) == 2


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2025-12-31T00:00:00", "2026-01-02T00:00:00"),
        ("2026-01-02T00:00:00", "2026-02-02T00:00:00"),
        ("2026-01-03T00:00:00", "2026-01-02T00:00:00"),
    ],
)
def test_a_part_outside_of_its_period_is_refused(start, end):
    period = (utc("2026-01-01T00:00:00"), utc("2026-02-01T00:00:00"))

    with pytest.raises(pricing.NotInPeriod):
        pricing.prorated(100, used=(utc(start), utc(end)), period=period)


@pytest.mark.parametrize(
    ("zone", "month", "day", "hours_of_month", "hours_of_day", "minor"),
    [
        # New York's March has 743 hours and its November 721; the day of the change has 23 and 25.
        (NEW_YORK, "2026-03-01", "2026-03-08", 743, 23, 2300),
        (NEW_YORK, "2026-11-01", "2026-11-01", 721, 25, 2500),
        (NEW_YORK, "2026-03-01", "2026-03-09", 743, 24, 2400),
        (KOLKATA, "2026-03-01", "2026-03-08", 744, 24, 2400),
        (SHANGHAI, "2026-11-01", "2026-11-30", 720, 24, 2400),
    ],
)
def test_a_day_of_summer_time_costs_its_own_length(zone, month, day, hours_of_month, hours_of_day, minor):
    first, one = date.fromisoformat(month), date.fromisoformat(day)
    period = (
        clock.local_midnight(first, zone),
        clock.local_midnight(clock.add_months(first, 1, anchor_day=1), zone),
    )
    used = (clock.local_midnight(one, zone), clock.local_midnight(date.fromordinal(one.toordinal() + 1), zone))
    assert (period[1] - period[0]).total_seconds() == hours_of_month * 3600
    assert (used[1] - used[0]).total_seconds() == hours_of_day * 3600

    assert pricing.prorated(hours_of_month * 100, used=used, period=period) == minor


seconds = st.integers(0, 31 * 86_400)


@given(amount=st.integers(-(10**12), 10**12), cuts=st.lists(seconds, max_size=6))
def test_the_parts_of_a_period_differ_from_its_amount_by_less_than_a_unit_each(amount, cuts):
    period = (utc("2026-01-01T00:00:00"), utc("2026-02-01T00:00:00"))
    bounds = sorted({*period, *(period[0] + timedelta(seconds=cut) for cut in cuts)})

    parts = [pricing.prorated(amount, used=used, period=period) for used in pairwise(bounds)]

    assert abs(sum(parts) - amount) <= len(parts) / 2
    assert all(part * amount >= 0 for part in parts)


@given(amount=st.integers(0, 10**12), parts=st.integers(1, 60))
def test_shares_add_up_and_differ_by_one_unit_at_most(amount, parts):
    made = pricing.shares(amount, parts)

    assert (len(made), sum(made)) == (parts, amount)
    assert max(made) - min(made) <= 1


# --- anchors through 24 months ---------------------------------------------------------------------------------------
# The last day of each of 24 months of a term that began on that day (it ends at the midnight after it).
LAST_DAYS = {
    "2027-01-31": (
        "2027-02-28 2027-03-31 2027-04-30 2027-05-31 2027-06-30 2027-07-31 2027-08-31 2027-09-30 2027-10-31 2027-11-30"
        " 2027-12-31 2028-01-31 2028-02-29 2028-03-31 2028-04-30 2028-05-31 2028-06-30 2028-07-31 2028-08-31"
        " 2028-09-30 2028-10-31 2028-11-30 2028-12-31 2029-01-31"
    ),
    "2027-01-30": (
        "2027-02-28 2027-03-30 2027-04-30 2027-05-30 2027-06-30 2027-07-30 2027-08-30 2027-09-30 2027-10-30 2027-11-30"
        " 2027-12-30 2028-01-30 2028-02-29 2028-03-30 2028-04-30 2028-05-30 2028-06-30 2028-07-30 2028-08-30"
        " 2028-09-30 2028-10-30 2028-11-30 2028-12-30 2029-01-30"
    ),
    "2027-01-29": (
        "2027-02-28 2027-03-29 2027-04-29 2027-05-29 2027-06-29 2027-07-29 2027-08-29 2027-09-29 2027-10-29 2027-11-29"
        " 2027-12-29 2028-01-29 2028-02-29 2028-03-29 2028-04-29 2028-05-29 2028-06-29 2028-07-29 2028-08-29"
        " 2028-09-29 2028-10-29 2028-11-29 2028-12-29 2029-01-29"
    ),
}


@pytest.mark.parametrize("zone", [SHANGHAI, KOLKATA, NEW_YORK])
@pytest.mark.parametrize("first", LAST_DAYS)
def test_the_months_of_a_term_keep_their_anchor_through_two_years(first, zone):
    began = clock.local_midnight(date.fromisoformat(first), zone).replace(microsecond=0)
    days = [date.fromisoformat(day) for day in LAST_DAYS[first].split()]
    ends = [clock.local_midnight(date.fromordinal(day.toordinal() + 1), zone) for day in days]

    periods = pricing.term_periods(started_at=began, term="month", periods=24, zone=zone)

    assert periods == list(zip([began, *ends], ends, strict=False))
    assert pricing.term_end(started_at=began, term="month", periods=24, zone=zone) == (int(first[-2:]), ends[-1])


@pytest.mark.parametrize("zone", [SHANGHAI, KOLKATA, NEW_YORK])
@pytest.mark.parametrize("first", LAST_DAYS)
def test_a_term_extended_month_by_month_ends_where_one_of_two_years_does(first, zone):
    """Extending goes on from the old end and never loses the anchor in February."""
    began = clock.local_midnight(date.fromisoformat(first), zone)
    anchor, end = pricing.term_end(started_at=began, term="month", periods=1, zone=zone)
    ends = [end]

    for _month in range(23):
        end = pricing.extended_end(ends_at=end, anchor_day=anchor, term="month", periods=1, zone=zone)
        ends.append(end)

    last_days = [clock.local_date(end, zone) for end in ends]
    assert [date.fromordinal(day.toordinal() - 1).isoformat() for day in last_days] == LAST_DAYS[first].split()


@pytest.mark.parametrize(
    ("ends_at", "anchor", "term", "periods", "new_last_day"),
    [
        ("2027-03-01", 31, "month", 1, "2027-03-31"),
        ("2027-03-01", 31, "month", 12, "2028-02-29"),
        ("2027-03-01", 31, "year", 1, "2028-02-29"),
        ("2028-03-01", 29, "year", 1, "2029-02-28"),
        ("2029-03-01", 29, "year", 3, "2032-02-29"),
        ("2027-05-01", 30, "month", 10, "2028-02-29"),
        ("2027-12-16", 15, "month", 1, "2028-01-15"),
    ],
)
def test_an_extension_goes_on_from_the_old_end(ends_at, anchor, term, periods, new_last_day):
    end = pricing.extended_end(
        ends_at=midnight(ends_at, SHANGHAI), anchor_day=anchor, term=term, periods=periods, zone=SHANGHAI
    )

    assert date.fromordinal(clock.local_date(end, SHANGHAI).toordinal() - 1).isoformat() == new_last_day


def test_years_from_29_february():
    began = midnight("2028-02-29", SHANGHAI)

    periods = pricing.term_periods(started_at=began, term="year", periods=5, zone=SHANGHAI)

    assert [clock.local_date(end, SHANGHAI).isoformat() for _start, end in periods] == [
        "2029-03-01", "2030-03-01", "2031-03-01", "2032-03-01", "2033-03-01",
    ]  # fmt: skip
    # The last day is the 28th, in 2032 the 29th again; each ends at the midnight after it.
    last_days = [date.fromordinal(clock.local_date(end, SHANGHAI).toordinal() - 1) for _start, end in periods]
    assert [day.isoformat() for day in last_days] == [
        "2029-02-28", "2030-02-28", "2031-02-28", "2032-02-29", "2033-02-28",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("zone", "started_at", "anchor", "ends_at"),
    [
        # The same second is another day, another anchor and another month's end.
        (SHANGHAI, "2026-12-31T15:59:59", 31, "2027-01-31T16:00:00"),
        (SHANGHAI, "2026-12-31T16:00:00", 1, "2027-02-01T16:00:00"),
        (KOLKATA, "2026-12-31T18:29:59", 31, "2027-01-31T18:30:00"),
        (KOLKATA, "2026-12-31T18:30:00", 1, "2027-02-01T18:30:00"),
        # Winter time at the start, summer time at the end.
        (NEW_YORK, "2027-02-20T04:59:59", 19, "2027-03-20T04:00:00"),
        (NEW_YORK, "2027-02-20T05:00:00", 20, "2027-03-21T04:00:00"),
    ],
)
def test_the_edge_of_a_day_decides_the_anchor(zone, started_at, anchor, ends_at):
    made = pricing.term_end(started_at=utc(started_at), term="month", periods=1, zone=zone)

    assert made == (anchor, utc(ends_at))


def test_an_extension_has_the_periods_that_were_added():
    periods = pricing.extension_periods(
        ends_at=midnight("2027-03-01", SHANGHAI), anchor_day=31, term="month", periods=3, zone=SHANGHAI
    )

    bounds = [midnight(day, SHANGHAI) for day in ("2027-03-01", "2027-04-01", "2027-05-01", "2027-06-01")]
    assert periods == list(pairwise(bounds))


# --- what recurs -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("first", "months", "starts"),
    [
        ("2027-01-31", 1, "2027-01-31 2027-02-28 2027-03-31 2027-04-30 2027-05-31"),
        ("2028-01-30", 1, "2028-01-30 2028-02-29 2028-03-30 2028-04-30 2028-05-30"),
        # Killbill issue 2133: began on the last day, and 30 May was billed a day early.
        ("2027-03-31", 1, "2027-03-31 2027-04-30 2027-05-31 2027-06-30 2027-07-31"),
        ("2028-02-29", 12, "2028-02-29 2029-02-28 2030-02-28 2031-02-28 2032-02-29"),
    ],
)
@pytest.mark.parametrize("zone", [SHANGHAI, KOLKATA, NEW_YORK])
def test_what_recurs_begins_on_its_anchor_day(first, months, starts, zone):
    days = [date.fromisoformat(day) for day in starts.split()]
    until = clock.local_midnight(days[-1], zone)

    made = list(pricing.anchor_periods(starts_on=date.fromisoformat(first), months=months, zone=zone, until=until))

    bounds = [clock.local_midnight(day, zone) for day in days]
    assert made == list(pairwise(bounds))


def test_a_period_that_begins_at_the_asked_instant_is_not_yet_due():
    first = date(2027, 1, 31)
    until = midnight("2027-02-28", SHANGHAI)

    assert len(list(pricing.anchor_periods(starts_on=first, months=1, zone=SHANGHAI, until=until))) == 1


def test_bill_day_31_never_stops_after_february():
    """Killbill issue 127: 24 months from 31 January are 24 periods without gap or overlap."""
    made = list(
        pricing.anchor_periods(
            starts_on=date(2027, 1, 31), months=1, zone=SHANGHAI, until=midnight("2029-01-31", SHANGHAI)
        )
    )

    assert len(made) == 24
    assert all(before[1] == after[0] for before, after in pairwise(made))
