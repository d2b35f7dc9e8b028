"""What is paid back of a prepaid term that ends early. Never more than was paid, never less than nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from orders.pricing.terms import Period, prorated, shares


@dataclass(frozen=True, slots=True)
class Paid:
    """An amount that was paid in advance for these periods, months or years, all of one length in the calendar."""

    amount_minor: int
    periods: tuple[Period, ...]


def unused(paid: Sequence[Paid], *, at: datetime) -> list[int]:
    """Of each amount, what its periods after `at` are worth: whole periods whole, the running one by the seconds that
    are left of it."""
    return [
        sum(
            _left(part, period, at)
            for part, period in zip(shares(one.amount_minor, len(one.periods)), one.periods, strict=True)
        )
        for one in paid
    ]


def _left(amount_minor: int, period: Period, at: datetime) -> int:
    start, end = period
    return amount_minor - prorated(amount_minor, used=(start, min(max(at, start), end)), period=period)


def less(paid: Sequence[Paid], charge_minor: int) -> list[int]:
    """Of each amount, what is left after a charge for what was used; the earliest amounts bear it first."""
    left = []
    for one in paid:
        taken = min(charge_minor, one.amount_minor)
        charge_minor -= taken
        left.append(one.amount_minor - taken)
    return left
