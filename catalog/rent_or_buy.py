"""Rent or buy: what a server of one's own costs by the month, and from which use on it is cheaper than renting.

Pure. Amounts are Decimal major units of one currency; shares are fractions (0.15 is 15 %); every input is an assumption
that the visitor may change. Amounts are rounded half up to the currency's minor unit, each once, and sums are of
rounded parts, so that the table adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from marketplace.lib.clock import HOURS_PER_MONTH
from marketplace.lib.money import exponent

MONTHS_PER_YEAR = 12


@dataclass(frozen=True, slots=True)
class Purchase:
    """One server of `cards` cards: its price, power and people, and how long it is written off."""

    server: Decimal
    network_share: Decimal
    years: int
    residual: Decimal
    kw: Decimal
    load: Decimal
    pue: Decimal
    kwh: Decimal
    maintenance: Decimal
    staff: Decimal
    rack: Decimal
    capital: Decimal
    cards: int
    currency: str = "CNY"

    @property
    def months(self) -> int:
        return self.years * MONTHS_PER_YEAR


class Rates(NamedTuple):
    """Rent per card by the hour, month and year; None where that term has no price."""

    hour: Decimal | None
    month: Decimal | None
    year: Decimal | None


class Parts(NamedTuple):
    """Owning, by the month."""

    depreciation: Decimal
    power: Decimal
    maintenance: Decimal
    staff: Decimal
    rack: Decimal
    capital: Decimal


class Ownership(NamedTuple):
    capex: Decimal
    parts: Parts
    month: Decimal
    card_month: Decimal


class Comparison(NamedTuple):
    """Owning against renting the same cards. Percentages have one digit; None where that term has no price.

    `break_even_use` is the share of 730 hours from which owning is cheaper than renting by the hour; above 100 it never
    is. `own_to_month` and `own_to_year` are owning as a share of that rent: below 100 owning is cheaper.
    """

    month_rent: Decimal | None
    year_rent_per_month: Decimal | None
    hourly_per_month: Decimal | None
    break_even_use: Decimal | None
    own_to_month: Decimal | None
    own_to_year: Decimal | None


class Point(NamedTuple):
    """What has been paid by the end of a month; None where that term has no price."""

    month: int
    buy: Decimal
    hourly: Decimal | None
    monthly: Decimal | None
    yearly: Decimal | None


def ownership(of: Purchase) -> Ownership:
    """capex = server × (1 + network share); by the month: depreciation, power, maintenance, staff, rack, capital."""
    capex = _round(of.server * (1 + of.network_share), of.currency)
    parts = Parts(
        depreciation=_round(capex * (1 - of.residual) / of.months, of.currency),
        power=_round(of.kw * of.load * of.pue * HOURS_PER_MONTH * of.kwh, of.currency),
        maintenance=_round(capex * of.maintenance / MONTHS_PER_YEAR, of.currency),
        staff=_round(of.staff, of.currency),
        rack=_round(of.rack, of.currency),
        # On what is tied up on average: half of what it cost and what it is worth at the end.
        capital=_round(capex * (1 + of.residual) / 2 * of.capital / MONTHS_PER_YEAR, of.currency),
    )
    month = sum(parts, Decimal(0))
    return Ownership(capex, parts, month, _round(month / of.cards, of.currency))


def compare(own: Ownership, rates: Rates, of: Purchase, *, use: Decimal) -> Comparison:
    """Owning beside the three ways to rent; `use` is the share of the month's hours that an hourly rental runs."""
    month_rent = _times(rates.month, of.cards)
    year_rent = None if rates.year is None else _round(rates.year * of.cards / MONTHS_PER_YEAR, of.currency)
    full_hourly = _times(rates.hour, of.cards * HOURS_PER_MONTH)
    return Comparison(
        month_rent=month_rent,
        year_rent_per_month=year_rent,
        hourly_per_month=None if full_hourly is None else _round(full_hourly * use, of.currency),
        break_even_use=_percent(own.month, full_hourly),
        own_to_month=_percent(own.month, month_rent),
        own_to_year=_percent(own.month, year_rent),
    )


def paid_over_time(own: Ownership, rates: Rates, of: Purchase, *, use: Decimal) -> list[Point]:
    """Month by month until the server is written off: the purchase at the start and its running costs, against rent.

    Running costs are the monthly parts but depreciation. What the server is still worth comes back with the last month,
    so that the sum is then exactly that of the monthly parts, but for their rounding. A year's rent is due with its
    first month.
    """
    running = own.month - own.parts.depreciation
    resale = _round(own.capex * of.residual, of.currency)
    points = []
    for month in range(of.months + 1):
        back = resale if month == of.months else Decimal(0)
        points.append(
            Point(
                month=month,
                buy=own.capex + running * month - back,
                hourly=_paid(rates.hour, of, use * HOURS_PER_MONTH * month),
                monthly=_paid(rates.month, of, Decimal(month)),
                yearly=_paid(rates.year, of, Decimal(-(-month // MONTHS_PER_YEAR))),
            )
        )
    return points


def cheaper_from(points: list[Point], term: str) -> int | None:
    """The first month by whose end owning has cost no more than this way to rent; None where it never has."""
    for point in points[1:]:
        rent = getattr(point, term)
        if rent is not None and point.buy <= rent:
            return point.month
    return None


def _paid(rate: Decimal | None, of: Purchase, periods: Decimal) -> Decimal | None:
    return None if rate is None else _round(rate * of.cards * periods, of.currency)


def _times(rate: Decimal | None, factor: int) -> Decimal | None:
    return None if rate is None else rate * factor


def _percent(part: Decimal, whole: Decimal | None) -> Decimal | None:
    """To one digit; None where there is nothing to divide by."""
    return (part / whole * 100).quantize(Decimal("0.1"), ROUND_HALF_UP) if whole else None


def _round(amount: Decimal, currency: str) -> Decimal:
    return amount.quantize(Decimal(1).scaleb(-exponent(currency)), ROUND_HALF_UP)
