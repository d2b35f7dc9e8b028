"""The arithmetic of money: exact, rounded once, calendar months with an anchor."""

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketplace.lib import clock
from marketplace.lib.money import EXPONENTS, Money
from orders import pricing

SHANGHAI = "Asia/Shanghai"

rates = st.decimals(min_value=0, max_value=Decimal("999999.9999999999"), places=10)
percents = st.decimals(min_value=0, max_value=100, places=2)
currencies = st.sampled_from(sorted(EXPONENTS))


def half_up(exact: Fraction) -> int:
    magnitude = int(abs(exact) + Fraction(1, 2))
    return -magnitude if exact < 0 else magnitude


# --- golden values ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("meter", "quantity", "rate", "currency", "how_long", "minor"),
    [
        ("card_hour", 2, "1.88", "CNY", {"seconds": 3600}, 376),
        ("card_hour", 1, "1.88", "CNY", {"seconds": 1}, 0),
        ("card_hour", 1, "18", "CNY", {"seconds": 1}, 1),  # exactly half a fen
        ("card_hour", 8, "22", "CNY", {"seconds": 86_400}, 422_400),
        ("card_hour", 3, "0.0065", "CNY", {"seconds": 3600}, 2),
        ("disk_gb_hour", 500, "0.0003", "CNY", {"seconds": 86_400}, 360),
        ("month", 8, "12000", "CNY", {"periods": 3}, 28_800_000),
        ("year", 8, "122400", "CNY", {"periods": 2}, 195_840_000),
        ("month", 1, "0.005", "USD", {"periods": 1}, 1),
        ("month", 1, "0.0049999999", "USD", {"periods": 1}, 0),
        ("month", 1, "1500.5", "JPY", {"periods": 1}, 1501),
        ("card_hour", 1, "99.4", "JPY", {"seconds": 1800}, 50),
        ("month", 0, "12000", "CNY", {"periods": 3}, 0),
    ],
)
def test_a_line_is_rounded_once_half_up(meter, quantity, rate, currency, how_long, minor):
    amount = pricing.line_amount(meter=meter, quantity=quantity, rate=Decimal(rate), currency=currency, **how_long)

    assert amount == Money(minor, currency)


def test_a_correction_is_the_exact_opposite_of_what_it_corrects():
    charge = pricing.line_amount(meter="card_hour", quantity=1, rate=Decimal(18), currency="CNY", seconds=1)
    reversal = pricing.line_amount(meter="card_hour", quantity=-1, rate=Decimal(18), currency="CNY", seconds=1)

    assert (charge.minor, reversal.minor) == (1, -1)


def test_a_meter_without_arithmetic_is_refused():
    with pytest.raises(ValueError, match="kw_month"):
        pricing.line_amount(meter="kw_month", quantity=1, rate=Decimal(1), currency="CNY")


@pytest.mark.parametrize(
    ("gross", "percent", "tax"),
    [
        (10_600, "6", 600),
        (100, "6", 6),
        (25, "6", 1),
        (0, "6", 0),
        (12_345, "0", 0),
        (-10_600, "6", -600),
        (1, "100", 1),
    ],
)
def test_tax_within_a_gross_amount(gross, percent, tax):
    assert pricing.tax_within(gross, Decimal(percent)) == tax


def test_headroom_is_hours_of_burn():
    assert pricing.headroom(cards=2, rate=Decimal("1.88"), hours=24, currency="CNY") == Money(9024, "CNY")


@pytest.mark.parametrize(
    ("listed", "percent", "rate"),
    [
        ("12000", "15", "10200.0000000000"),
        ("1.88", "0", "1.8800000000"),
        ("1.88", "100", "0E-10"),
        ("0.0065", "33.33", "0.0043335500"),
    ],
)
def test_a_discount_keeps_ten_digits(listed, percent, rate):
    assert str(pricing.discounted(Decimal(listed), Decimal(percent))) == rate


@pytest.mark.parametrize(
    ("start", "term", "periods", "anchor", "end"),
    [
        # start and end as Shanghai wall time; the end is the midnight after the last day
        ("2026-01-15 10:30", "month", 1, 15, "2026-02-16"),
        ("2026-01-31 23:59", "month", 1, 31, "2026-03-01"),  # last day 28 Feb
        ("2028-01-31 00:00", "month", 1, 31, "2028-03-01"),  # last day 29 Feb
        ("2026-01-31 12:00", "month", 2, 31, "2026-04-01"),  # last day 31 Mar: the anchor returns
        ("2026-01-31 12:00", "month", 3, 31, "2026-05-01"),  # last day 30 Apr
        ("2026-03-30 12:00", "month", 1, 30, "2026-05-01"),
        ("2026-12-31 12:00", "month", 2, 31, "2027-03-01"),
        ("2028-02-29 12:00", "year", 1, 29, "2029-03-01"),  # last day 28 Feb
        ("2028-02-29 12:00", "year", 4, 29, "2032-03-01"),  # last day 29 Feb
        ("2026-11-30 00:00", "year", 1, 30, "2027-12-01"),
        ("2026-11-30 00:00", "month", 36, 30, "2029-12-01"),
    ],
)
def test_a_term_ends_at_the_midnight_after_its_last_day(start, term, periods, anchor, end):
    started_at = clock.local_midnight(datetime.fromisoformat(start).date(), SHANGHAI) + (
        datetime.fromisoformat(start) - datetime.fromisoformat(start[:10])
    )

    found = pricing.term_end(started_at=started_at, term=term, periods=periods, zone=SHANGHAI)

    assert found == (anchor, clock.local_midnight(datetime.fromisoformat(end).date(), SHANGHAI))


def test_the_day_is_the_organizations_not_the_servers():
    before = datetime(2026, 11, 30, 15, 59, 59, tzinfo=UTC)  # still 30 November in Shanghai
    after = datetime(2026, 11, 30, 16, 0, tzinfo=UTC)  # 1 December there

    assert pricing.term_end(started_at=before, term="month", periods=1, zone=SHANGHAI) == (
        30,
        datetime(2026, 12, 30, 16, 0, tzinfo=UTC),
    )
    assert pricing.term_end(started_at=after, term="month", periods=1, zone=SHANGHAI) == (
        1,
        datetime(2027, 1, 1, 16, 0, tzinfo=UTC),
    )


def test_an_hour_has_no_term_end():
    with pytest.raises(KeyError):
        pricing.term_end(started_at=datetime(2026, 1, 1, tzinfo=UTC), term="hour", periods=1, zone=SHANGHAI)


# --- properties ------------------------------------------------------------------------------------------------------
@given(
    quantity=st.integers(-10_000, 10_000),
    rate=rates,
    seconds=st.integers(0, 10**10),
    currency=currencies,
)
def test_metered_amounts_equal_exact_fractions(quantity, rate, seconds, currency):
    exact = Fraction(rate) * quantity * seconds / 3600 * 10 ** EXPONENTS[currency]

    found = pricing.line_amount(meter="card_hour", quantity=quantity, rate=rate, currency=currency, seconds=seconds)

    assert found == Money(half_up(exact), currency)


@given(quantity=st.integers(-512, 512), rate=rates, periods=st.integers(1, 36), currency=currencies)
def test_term_amounts_equal_exact_fractions(quantity, rate, periods, currency):
    exact = Fraction(rate) * quantity * periods * 10 ** EXPONENTS[currency]

    found = pricing.line_amount(meter="month", quantity=quantity, rate=rate, currency=currency, periods=periods)

    assert found == Money(half_up(exact), currency)


@given(gross=st.integers(-(10**15), 10**15), percent=percents)
def test_tax_equals_exact_fractions_and_turns_with_the_sign(gross, percent):
    exact = Fraction(gross) * Fraction(percent) / (100 + Fraction(percent))

    assert pricing.tax_within(gross, percent) == half_up(exact)
    assert pricing.tax_within(-gross, percent) == -pricing.tax_within(gross, percent)


@given(
    started_at=st.integers(1_577_836_800, 3_786_912_000).map(lambda second: datetime.fromtimestamp(second, UTC)),
    months=st.integers(1, 60),
)
def test_a_term_is_never_shorter_than_its_months(started_at, months):
    anchor, end = pricing.term_end(started_at=started_at, term="month", periods=months, zone=SHANGHAI)
    start, last = (clock.local_date(at, SHANGHAI) for at in (started_at, end))

    assert end > started_at
    assert anchor == start.day
    # The day after the last one is at most one past the anchor's month.
    assert (last.year * 12 + last.month) - (start.year * 12 + start.month) in {months, months + 1}


# --- what is shown is what is billed ---------------------------------------------------------------------------------
def test_the_breakdown_of_an_hourly_line():
    shown = pricing.breakdown(
        term="hour", quantity=2, cards_per_unit=2, periods=1, rate=Decimal("1.88"), currency="CNY",
        tax_percent=Decimal(6), disk_gb=500, disk_rate=Decimal("0.0003"), headroom_hours=24,
    )  # fmt: skip

    assert (shown.cards, shown.total_minor, shown.tax_minor) == (4, 752, 42)
    assert (shown.day_minor, shown.month_minor) == (18_048, 548_960)
    assert (shown.headroom_minor, shown.stopped_day_minor) == (18_048, 720)


def test_the_breakdown_of_a_term():
    shown = pricing.breakdown(
        term="month", quantity=1, cards_per_unit=8, periods=3, rate=Decimal("12000"), currency="CNY",
        tax_percent=Decimal(6),
    )  # fmt: skip

    assert (shown.cards, shown.total_minor, shown.tax_minor) == (8, 28_800_000, 1_630_189)
    assert (shown.headroom_minor, shown.day_minor) == (0, 0)


@pytest.mark.parametrize("rate", ["0.005", "1.885", "2.333", "0.0049999999"])
@pytest.mark.parametrize("quantity", [1, 2, 3, 64])
def test_what_several_hourly_units_cost_is_the_sum_of_their_invoice_lines(rate, quantity):
    rate, disk_rate = Decimal(rate), Decimal("0.00011")
    shown = pricing.breakdown(
        term="hour", quantity=quantity, cards_per_unit=1, periods=1, rate=rate, currency="CNY",
        tax_percent=Decimal(6), disk_gb=333, disk_rate=disk_rate, headroom_hours=24,
    )  # fmt: skip

    def line(meter, count, at_rate, hours):
        return pricing.line_amount(
            meter=meter, quantity=count, rate=at_rate, currency="CNY", seconds=hours * 3600
        ).minor

    lines = {hours: [line("card_hour", 1, rate, hours)] * quantity for hours in (1, 24, 730)}
    assert shown.total_minor == sum(lines[1])
    assert shown.tax_minor == sum(pricing.tax_within(amount, Decimal(6)) for amount in lines[1])
    assert (shown.day_minor, shown.month_minor) == (sum(lines[24]), sum(lines[730]))
    assert shown.stopped_day_minor == line("disk_gb_hour", 333, disk_rate, 24) * quantity
