"""One billed line: quantity × rate, rounded once; the tax within it; what an hourly unit keeps ready."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction

from marketplace.lib.money import Money
from orders.pricing.terms import half_up

SECONDS_PER_HOUR = 3600
METER_OF_TERM = {"hour": "card_hour", "month": "month", "year": "year"}
HOURLY_METERS = frozenset({"card_hour", "disk_gb_hour"})
PERIOD_METERS = frozenset({"month", "year"})

# Wide enough that a product of a rate, cards and decades of seconds is exact before its single rounding.
EXACT = Context(prec=60)


def line_amount(
    *, meter: str, quantity: int, rate: Decimal, currency: str, seconds: int = 0, periods: int = 0
) -> Money:
    """The price of one billed line, rounded once.

    card_hour and disk_gb_hour: quantity × seconds / 3600 × rate. month and year: quantity × periods × rate.
    Raises ValueError for a meter that cannot be priced this way.
    """
    with localcontext(EXACT):
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
    return half_up(gross_minor * Fraction(percent) / (100 + Fraction(percent)))


def headroom(*, cards: int, rate: Decimal, hours: int, currency: str) -> Money:
    """What an hourly unit keeps committed on the credit line: `hours` of its burn."""
    return line_amount(
        meter="card_hour", quantity=cards, rate=rate, currency=currency, seconds=hours * SECONDS_PER_HOUR
    )


def discounted(list_rate: Decimal, percent: Decimal) -> Decimal:
    """A rate less its discount, rounded half up to the ten digits that a rate has."""
    with localcontext(EXACT):
        return (list_rate * (100 - percent) / 100).quantize(Decimal("1e-10"), rounding=ROUND_HALF_UP)
