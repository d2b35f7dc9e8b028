"""The arithmetic of a line as it is shown before buying, by the functions that will bill it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from marketplace.lib import clock
from orders.pricing.lines import SECONDS_PER_HOUR, advance_amount, headroom, line_amount, tax_within
from orders.pricing.terms import MONTHS_PER_TERM

# Hours shown as "about a month" beside an hourly price.
HOURS_PER_DAY = 24


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
