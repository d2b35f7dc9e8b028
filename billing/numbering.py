"""Gapless document numbers: one row per series and year, taken under its lock by the transaction that issues."""

from django.db import connection

INVOICE_SERIES = "INV"

_TAKE = """
    INSERT INTO billing_numberseries AS taken (series, year, next_number) VALUES (%s, %s, 2)
    ON CONFLICT (series, year) DO UPDATE SET next_number = taken.next_number + 1
    RETURNING next_number - 1
"""


def next_number(*, series: str, year: int) -> str:
    """The next number, like INV-2026-000001.

    Must run in the transaction that uses it: the row stays locked until that commits, and a rollback gives it back.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("a document number is taken inside the transaction that issues the document")
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [series, year])
        (number,) = cursor.fetchone()
    return f"{series}-{year}-{number:06d}"
