"""CSV written by PostgreSQL's COPY: LF, UTF-8, nothing that runs as a formula.

For people with a byte order mark, so that Excel reads Chinese, and with digits kept from being rounded; for machines
without either.
"""

from __future__ import annotations

import csv
import io
from typing import Any

from billing.exports import escaping
from billing.exports.escaping import harmless
from billing.exports.reading import Pieces, Progress, Write, copy_out
from billing.exports.table import TYPED, Column, Rows, Table, select

__all__ = ["BOM", "IN_MEMORY", "harmless", "write_csv"]

BOM = "\ufeff"
IN_MEMORY = 4 * 1024 * 1024


def write_csv(
    table: Table,
    rows: Rows,
    write: Write,
    *,
    cursor: Any,
    for_machines: bool = False,
    progress: Progress | None = None,
) -> int:
    """Pass the file piece by piece to `write`, in the active language. How many rows it has, the header left out."""
    write(header(table, for_machines=for_machines))
    quoted = ", ".join(f'"{column.alias}"' for column in table.columns if column.kind in TYPED)
    options = "FORMAT csv, ENCODING 'UTF8'" + (f", FORCE_QUOTE ({quoted})" if quoted else "")
    return copy_out(cursor, statement(table, rows, for_machines), rows.values, options, Pieces(write, progress))


def header(table: Table, *, for_machines: bool = False) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(table.headers)
    return (("" if for_machines else BOM) + text.getvalue()).encode()


def statement(table: Table, rows: Rows, for_machines: bool) -> str:
    cells = {column.key: _guarded(column, for_machines) for column in table.columns}
    if not rows.each:
        return select(rows, [], [f"{cells[column.key]} AS {column.alias}" for column in table.columns])
    heads = [f"{cells[column.key]} AS {column.alias}" for column in table.columns if column.level != "row"]
    outputs = [f"{_output(column, cells[column.key], rows)} AS {column.alias}" for column in table.columns]
    return select(rows, heads, outputs)


def _output(column: Column, cell: str, rows: Rows) -> str:
    if column.level == "row":
        return cell
    name = f"head.{column.alias}"
    return name if column.level == "head" else f"CASE WHEN {rows.first} THEN {name} END"


def _guarded(column: Column, for_machines: bool) -> str:
    """Text that would run as a formula gets an apostrophe, digits that would be rounded a tab; numbers stay numbers."""
    expression = column.expression()
    if column.kind not in TYPED:
        return expression
    name = f"({expression})"
    return escaping.csv_id(name) if column.kind == "id" and not for_machines else escaping.csv_text(name)
