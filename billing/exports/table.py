"""What an export is: named columns, each an expression for PostgreSQL, and the rows they are worked out of.

Nothing here touches a row: the two writers put their own wrapping around each expression and let COPY do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby
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
    rows of one head (`each`, a sub-select that may name `head`), their number from 1 on (`each_order`), and which of
    them is the first.
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


# How many rows of a head are sent as one at most, and the character between them, which no row holds.
BATCH, NEXT_ROW = 64, 3


@dataclass(frozen=True, slots=True)
class Line:
    """How a row is written as one text: before, between and after its cells, and what stands for no cell at all."""

    start: str = ""
    between: str = ""
    end: str = ""
    empty: str = ""


def written_rows(table: Table, rows: Rows, line: Line, cells: Iterable[str]) -> str:
    """The statement whose every row is one row as text. A head's neighbouring cells are made once, as one piece."""
    levels = [column.level if rows.each else "row" for column in table.columns]
    heads: list[str] = []
    outputs: list[str] = []
    for number, (level, group) in enumerate(groupby(zip(levels, cells, strict=True), key=lambda pair: pair[0])):
        pieces = [cell for _level, cell in group]
        if level == "row":
            outputs += pieces
            continue
        heads.append(f"{_concat(_between(pieces, line.between))} AS g_{number}")
        nothing = line.between.join([line.empty] * len(pieces))
        outputs.append(
            f"head.g_{number}"
            if level == "head"
            else f"CASE WHEN {rows.first} THEN head.g_{number} ELSE '{nothing}' END"
        )
    between = _between(outputs, line.between)
    text = _concat([f"'{line.start}'", *between, f"'{line.end}'"] if line.start else between)
    return _in_batches(rows, heads, text) if rows.each else select(rows, heads, [text])


def _in_batches(rows: Rows, heads: list[str], text: str) -> str:
    """As many as BATCH rows of a head as one, with NEXT_ROW between them: sending a row costs more than making it."""
    batch = f"(({rows.each_order}) - 1) / {BATCH}"
    joined = f"string_agg({text}, chr({NEXT_ROW}) ORDER BY {rows.each_order}) AS text, {batch} AS batch"
    batches = f"SELECT {joined} FROM ({rows.each}) l GROUP BY {batch}"
    return select(replace(rows, each=batches, each_order="l.batch"), heads, ["l.text"])


def _between(pieces: list[str], separator: str) -> list[str]:
    if not separator:
        return pieces
    return [part for piece in pieces for part in (f"'{separator}'", piece)][1:]


def _concat(parts: list[str]) -> str:
    """PostgreSQL's functions take a hundred arguments at most."""
    groups = [f"concat({', '.join(parts[start : start + 90])})" for start in range(0, len(parts), 90)]
    return groups[0] if len(groups) == 1 else f"concat({', '.join(groups)})"


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
