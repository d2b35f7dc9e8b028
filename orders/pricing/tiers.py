"""Volume tiers: card-hours beyond a threshold of the month are cheaper, those below it are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from orders.pricing.terms import half_up

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Tier:
    """From so many card-hours of the month on, this much off."""

    from_card_hours: int
    discount_percent: Decimal


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a month's use of one class: card-seconds, and what they cost before any discount."""

    card_seconds: int
    amount_minor: int


def tier_discount(pieces: Sequence[Piece], *, tiers: Sequence[Tier], used_before: int = 0) -> list[int]:
    """What is taken off each piece, in minor units, rounded once each, half up; pieces come in order of time.

    `used_before`: card-seconds of the month that came before the first piece and are booked already. Each piece is
    taken to cost the same in each of its seconds. A piece that takes back has negative seconds and a negative amount,
    and its discount is taken back.
    """
    discounts, used = [], used_before
    for piece in pieces:
        discounts.append(_off(piece, used, tiers))
        used += piece.card_seconds
    return discounts


def _off(piece: Piece, used: int, tiers: Sequence[Tier]) -> int:
    if not piece.card_seconds:
        return 0
    start, end = sorted((used, used + piece.card_seconds))
    share = sum((_overlap(start, end, low, high) * percent for low, high, percent in _brackets(tiers)), Fraction(0))
    return half_up(piece.amount_minor * share / 100 / (end - start))


def _brackets(tiers: Sequence[Tier]) -> Iterator[tuple[int, int | None, Fraction]]:
    """Each tier's card-seconds `[low, high)` with its percentage; the last has no end."""
    ordered = sorted(tiers, key=lambda tier: tier.from_card_hours)
    ends = [tier.from_card_hours * SECONDS_PER_HOUR for tier in ordered[1:]]
    for tier, high in zip(ordered, [*ends, None], strict=False):
        yield tier.from_card_hours * SECONDS_PER_HOUR, high, Fraction(tier.discount_percent)


def _overlap(start: int, end: int, low: int, high: int | None) -> int:
    return max(0, (end if high is None else min(end, high)) - max(start, low))
