"""Gapless document numbers: one row per series and year, taken under its lock by the transaction that issues."""

from collections import Counter
from collections.abc import Iterator, Sequence

from django.db import connection

INVOICE_SERIES = "INV"

_TAKE = """
    INSERT INTO billing_numberseries AS taken (series, year, next_number) VALUES (%s, %s, 1 + %s)
    ON CONFLICT (series, year) DO UPDATE SET next_number = taken.next_number + %s
    RETURNING next_number
"""


def next_number(*, series: str, year: int) -> str:
    """The next number, like INV-2026-000001.

    Must run in the transaction that uses it: the row stays locked until that commits, and a rollback gives it back.
    """
    return next_numbers(series=series, years=[year])[0]


def next_numbers(*, series: str, years: Sequence[int]) -> list[str]:
    """One number for each of these documents, in their order, counted on within each one's year; see `next_number`."""
    if not connection.in_atomic_block:
        raise RuntimeError("a document number is taken inside the transaction that issues the document")
    numbers = {year: _take(series, year, count) for year, count in sorted(Counter(years).items())}
    return [f"{series}-{year}-{next(numbers[year]):06d}" for year in years]


def _take(series: str, year: int, count: int) -> Iterator[int]:
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [series, year, count, count])
        (following,) = cursor.fetchone()
    return iter(range(following - count, following))
