"""Minimum commitments: what a month is made up to when it closes."""

from __future__ import annotations

from orders.pricing.terms import Period, prorated


def committed_in(amount_minor: int, *, month: Period, valid: Period) -> int:
    """What is committed in this month: the whole amount, and of a first or last month its share by the second."""
    start, end = max(month[0], valid[0]), min(month[1], valid[1])
    if start >= end:
        return 0
    return prorated(amount_minor, used=(start, end), period=month)


def true_up(*, committed_minor: int, billed_minor: int) -> int:
    """What is missing to the commitment once the month is billed, in minor units; nothing when it was reached. A month
    whose corrections outweigh its use misses the whole commitment, not more."""
    return max(0, committed_minor - max(0, billed_minor))
