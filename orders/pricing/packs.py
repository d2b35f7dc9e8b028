"""Packs of card-hours: what they pay of a use, the oldest first, and never more than is left of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from orders.pricing.terms import half_up


@dataclass(frozen=True, slots=True)
class PackLeft:
    """What is left of a pack: it pays for use of its class within `[starts_at, expires_at)`."""

    pack_id: int
    gpu_class: str
    card_seconds: int
    starts_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Use:
    """Card-seconds of one class in `[start, end)`, no longer than a day; `fact` names it for ever."""

    fact: str
    gpu_class: str
    card_seconds: int
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Draw:
    """Card-seconds that one pack pays of one use."""

    pack_id: int
    fact: str
    card_seconds: int


def draw_down(packs: Sequence[PackLeft], uses: Sequence[Use]) -> list[Draw]:
    """What the packs pay of these uses, which come in order of time: of each use the pack that began first pays, then
    the next. A pack pays for a use that lies within its time as a whole; each card-second is paid once."""
    left = {pack.pack_id: pack.card_seconds for pack in packs}
    oldest_first = sorted(packs, key=lambda pack: (pack.starts_at, pack.pack_id))
    draws = []
    for use in uses:
        needed = use.card_seconds
        for pack in oldest_first:
            if pack.gpu_class != use.gpu_class or not pack.starts_at <= use.start <= use.end <= pack.expires_at:
                continue
            taken = min(needed, left[pack.pack_id])
            if taken > 0:
                draws.append(Draw(pack.pack_id, use.fact, taken))
                left[pack.pack_id] -= taken
                needed -= taken
    return draws


def covered(amount_minor: int, *, card_seconds: int, paid_by_packs: int) -> int:
    """Of an amount for `card_seconds`, what the card-seconds that packs paid come to, in minor units, half up."""
    if not card_seconds:
        return 0
    return half_up(Fraction(amount_minor * paid_by_packs, card_seconds))
