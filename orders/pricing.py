"""What things cost: pure functions that the page, the order, the quote and the invoice share.

Rates are Decimal major units per card (or GB); amounts are integer minor units. An amount is rounded once, half up on
the magnitude. Nothing here reads a database, a setting or the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction

from marketplace.lib import clock
from marketplace.lib.money import Money

SECONDS_PER_HOUR = 3600
MONTHS_PER_TERM = {"month": 1, "year": 12}
METER_OF_TERM = {"hour": "card_hour", "month": "month", "year": "year"}
HOURLY_METERS = frozenset({"card_hour", "disk_gb_hour"})
PERIOD_METERS = frozenset({"month", "year"})

# Hours shown as "about a month" beside an hourly price.
HOURS_PER_DAY = 24

# Wide enough that a product of a rate, cards and decades of seconds is exact before its single rounding.
_EXACT = Context(prec=60)


def line_amount(
    *, meter: str, quantity: int, rate: Decimal, currency: str, seconds: int = 0, periods: int = 0
) -> Money:
    """The price of one billed line, rounded once.

    card_hour and disk_gb_hour: quantity × seconds / 3600 × rate. month and year: quantity × periods × rate.
    Raises ValueError for a meter that cannot be priced this way.
    """
    with localcontext(_EXACT):
        if meter in HOURLY_METERS:
            return Money.rounded(rate * quantity * seconds / SECONDS_PER_HOUR, currency)
        if meter in PERIOD_METERS:
            return Money.rounded(rate * quantity * periods, currency)
    raise ValueError(f"no price arithmetic for the meter {meter!r}")


def advance_amount(*, term: str, cards: int, rate: Decimal, currency: str, periods: int) -> Money:
    """What a line of `cards` cards costs in advance: the whole term, as one billed line; nothing by the hour."""
    if term == "hour":
        return Money(0, currency)
    return line_amount(meter=METER_OF_TERM[term], quantity=cards, rate=rate, currency=currency, periods=periods)


def tax_within(gross_minor: int, percent: Decimal) -> int:
    """The tax contained in a gross amount, in minor units, half up on the magnitude: gross × p / (100 + p)."""
    tax = abs(gross_minor) * Fraction(percent) / (100 + Fraction(percent))
    rounded = (2 * tax.numerator + tax.denominator) // (2 * tax.denominator)
    return -rounded if gross_minor < 0 else rounded


def headroom(*, cards: int, rate: Decimal, hours: int, currency: str) -> Money:
    """What an hourly unit keeps committed on the credit line: `hours` of its burn."""
    return line_amount(
        meter="card_hour", quantity=cards, rate=rate, currency=currency, seconds=hours * SECONDS_PER_HOUR
    )


def discounted(list_rate: Decimal, percent: Decimal) -> Decimal:
    """A rate less its discount, rounded half up to the ten digits that a rate has."""
    with localcontext(_EXACT):
        return (list_rate * (100 - percent) / 100).quantize(Decimal("1e-10"), rounding=ROUND_HALF_UP)


def term_end(*, started_at: datetime, term: str, periods: int, zone: str) -> tuple[int, datetime]:
    """The anchor day of a prepaid term and the instant it ends: 00:00 in `zone` after its last day (half-open).

    The last day is the start day that many calendar months later, on the anchor day or the month's last:
    31 Jan + 1 month → 28 or 29 Feb, 29 Feb + 1 year → 28 Feb. Raises KeyError for a term without an end.
    """
    start = clock.local_date(started_at, zone)
    last = clock.add_months(start, MONTHS_PER_TERM[term] * periods, anchor_day=start.day)
    return start.day, clock.local_midnight(last + timedelta(days=1), zone)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The arithmetic of one line as it is shown before buying. Every amount is gross, in minor units."""

    term: str
    quantity: int
    cards_per_unit: int
    periods: int
    rate: Decimal
    currency: str
    total_minor: int
    """All units: per hour, or due in advance for the whole term."""
    tax_minor: int
    """The tax within the total."""
    day_minor: int = 0
    month_minor: int = 0
    """Hourly only: 24 and 730 hours of running, to compare with other terms."""
    disk_gb: int = 0
    disk_rate: Decimal = Decimal(0)
    stopped_day_minor: int = 0
    """Hourly only: what 24 hours of a stopped machine's disk cost, all units."""
    headroom_minor: int = 0
    """Hourly only: what placing it commits on the credit line, all units."""

    @property
    def cards(self) -> int:
        return self.quantity * self.cards_per_unit

    @property
    def is_hourly(self) -> bool:
        return self.term == "hour"


def breakdown(
    *,
    term: str,
    quantity: int,
    cards_per_unit: int,
    periods: int,
    rate: Decimal,
    currency: str,
    tax_percent: Decimal,
    disk_gb: int = 0,
    disk_rate: Decimal = Decimal(0),
    headroom_hours: int = 0,
) -> Breakdown:
    """Work out a line for showing, with the same functions that will bill it."""

    def running(hours: int) -> int:
        # Each unit is metered, billed and covered on its own, so the sum is of rounded units.
        return quantity * headroom(cards=cards_per_unit, rate=rate, hours=hours, currency=currency).minor

    if term != "hour":
        cards = quantity * cards_per_unit
        total = advance_amount(term=term, cards=cards, rate=rate, currency=currency, periods=periods).minor
        tax = tax_within(total, tax_percent)
        return Breakdown(term, quantity, cards_per_unit, periods, rate, currency, total_minor=total, tax_minor=tax)
    hour = headroom(cards=cards_per_unit, rate=rate, hours=1, currency=currency).minor
    disk = line_amount(
        meter="disk_gb_hour",
        quantity=disk_gb,
        rate=disk_rate,
        currency=currency,
        seconds=HOURS_PER_DAY * SECONDS_PER_HOUR,
    )
    return Breakdown(
        term,
        quantity,
        cards_per_unit,
        periods=1,
        rate=rate,
        currency=currency,
        total_minor=running(1),
        tax_minor=quantity * tax_within(hour, tax_percent),
        day_minor=running(HOURS_PER_DAY),
        month_minor=running(clock.HOURS_PER_MONTH),
        disk_gb=disk_gb,
        disk_rate=disk_rate,
        stopped_day_minor=disk.minor * quantity,
        headroom_minor=running(headroom_hours),
    )


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a line of a basket comes to, gross, in minor units: all units, all periods."""

    total_minor: int
    tax_minor: int
    """The tax within the total, as its invoice will state it."""
    hourly_minor: int | None = None
    """The same time paid by the hour; None by the hour itself and where the offer has no such price."""

    @property
    def saving_minor(self) -> int:
        """What the term saves against the hour; negative where it costs more, 0 where nothing is compared."""
        return 0 if self.hourly_minor is None else self.hourly_minor - self.total_minor

    @property
    def saving_percent(self) -> Decimal:
        """The saving as a share of the hourly price, to a tenth of a percent."""
        if not self.hourly_minor:
            return Decimal(0)
        share = Decimal(self.saving_minor) * 100 / self.hourly_minor
        return share.quantize(Decimal("0.1"), rounding=ROUND_HALF_UP)


def estimate(
    *,
    term: str,
    quantity: int,
    cards_per_unit: int,
    periods: int,
    rate: Decimal,
    currency: str,
    tax_percent: Decimal,
    hourly_rate: Decimal | None = None,
    hours_per_month: int = clock.HOURS_PER_MONTH,
) -> Estimate:
    """Work out a line for a length of time: `periods` months or years, or as many hours of running.

    By the hour each unit is metered and billed on its own, so the sum is of rounded units; a term is one billed line.
    """

    def running(hours: int, per_hour: Decimal) -> int:
        return headroom(cards=cards_per_unit, rate=per_hour, hours=hours, currency=currency).minor

    if term == "hour":
        unit = running(periods, rate)
        return Estimate(quantity * unit, quantity * tax_within(unit, tax_percent))
    cards = quantity * cards_per_unit
    total = advance_amount(term=term, cards=cards, rate=rate, currency=currency, periods=periods).minor
    hourly = None
    if hourly_rate:
        hourly = quantity * running(MONTHS_PER_TERM[term] * periods * hours_per_month, hourly_rate)
    return Estimate(total, tax_within(total, tax_percent), hourly)
