"""What an export is: named columns, each an expression for PostgreSQL, and the rows they are worked out of.

Nothing here touches a row: the two writers put their own wrapping around each expression and let COPY do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from django.utils.functional import Promise

# text: may hold anything a person typed. id: the same, where digits must not be taken for a number.
# word: our own vocabulary, safe as it stands. instant, day: local time as text.
# count, quantity, rate, percent, money: numbers.
Kind = Literal["text", "id", "word", "instant", "day", "count", "quantity", "rate", "percent", "money"]
NUMBERS = frozenset({"count", "quantity", "rate", "percent", "money"})
TYPED = frozenset({"text", "id"})

# head: the same on every row that a head has, and worked out once for them. first: a head's, on its first row alone.
Level = Literal["row", "head", "first"]


@dataclass(frozen=True, slots=True)
class Column:
    """`sql` is an expression of the export's own row names; made anew each time, for labels depend on the language."""

    key: str
    header: str | Promise
    kind: Kind
    sql: str | Callable[[], str]
    level: Level = "row"

    @property
    def alias(self) -> str:
        return f"x_{self.key.lower()}"

    def expression(self) -> str:
        return self.sql if isinstance(self.sql, str) else self.sql()


@dataclass(frozen=True, slots=True)
class Total:
    """A sum of the control sheet, in minor units where it is money, else a count."""

    header: str | Promise
    sql: str
    is_money: bool = True


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the rows come from, in what order.

    Plain rows have a `source`. Rows that share heads name the heads' source, what a head passes on (`carries`), the
    rows of one head (`each`, a sub-select that may name `head`), how those are ordered and which of them is the first.
    """

    source: str
    order: tuple[str, ...]
    values: tuple[object, ...] = ()
    currency: str = "currency"
    carries: tuple[str, ...] = ()
    each: str = ""
    each_order: str = ""
    first: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One version of one export. A change of its headers or of what they mean is a new version."""

    key: str
    version: int
    title: str | Promise
    columns: tuple[Column, ...]
    control: tuple[Total, ...] = field(default=())
    # Of the control's sums, those that must agree; the difference stands beside them.
    agree: tuple[int, int] | None = None

    @property
    def headers(self) -> list[str]:
        return [str(column.header) for column in self.columns]


Wrap = Callable[[Column, str], str]


def select(rows: Rows, heads: Iterable[str], outputs: Iterable[str]) -> str:
    """The statement that yields `outputs`; they may name `heads` where rows share heads.

    The heads are sorted and their expressions worked out before rows are looked up, so what many rows share is paid
    for once, and the whole is never sorted.
    """
    if not rows.each:
        return f"SELECT {', '.join(outputs)} FROM {rows.source} ORDER BY {', '.join(rows.order)}"
    keys = [f"{expression} AS o_{number}" for number, expression in enumerate(rows.order)]
    order = ", ".join(f"o_{number}" for number in range(len(keys)))
    ordered = ", ".join([*(f"head.o_{number}" for number in range(len(keys))), rows.each_order])
    return (
        f"SELECT {', '.join(outputs)}"
        f" FROM (SELECT {', '.join([*rows.carries, *keys, *heads])} FROM {rows.source} ORDER BY {order}) head"
        f" CROSS JOIN LATERAL ({rows.each}) l ORDER BY {ordered}"
    )


def control(table: Table, rows: Rows) -> str:
    """Currency, number of rows and every sum of the control sheet, a row a currency."""
    sums = [f"COALESCE({total.sql}, 0)" for total in table.control]
    currency = f"head.{rows.currency}" if rows.each else rows.currency
    source = rows.source
    if rows.each:
        source = f"(SELECT {', '.join(rows.carries)} FROM {rows.source}) head CROSS JOIN LATERAL ({rows.each}) l"
    return f"SELECT {', '.join([currency, 'count(*)', *sums])} FROM {source} GROUP BY 1 ORDER BY 1"


def count(rows: Rows) -> str:
    """How many rows there are."""
    source = f"(SELECT {', '.join(rows.carries)} FROM {rows.source}) head CROSS JOIN LATERAL ({rows.each}) l"
    return f"SELECT count(*) FROM {source if rows.each else rows.source}"
