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
from billing.exports.reading import INNER_LINE, Pieces, Progress, Write, copy_out
from billing.exports.table import TYPED, Column, Line, Rows, Table, written_rows
from billing.exports.words import Label

__all__ = ["BOM", "IN_MEMORY", "harmless", "write_csv"]

BOM = "\ufeff"
IN_MEMORY = 4 * 1024 * 1024
LINE = Line(between=",")
QUOTED = TYPED | {"word"}


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
    cells = [cell(column, for_machines=for_machines) for column in table.columns]
    return copy_out(cursor, written_rows(table, rows, LINE, cells), rows.values, Pieces(write, progress))


def header(table: Table, *, for_machines: bool = False) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(table.headers)
    return (("" if for_machines else BOM) + text.getvalue()).encode()


def cell(column: Column, *, for_machines: bool = False) -> str:
    """One cell. Texts are always quoted; one that would run as a formula gets an apostrophe, digits that would be
    rounded a tab; numbers stay numbers."""
    expression = f"({column.expression()})"
    if column.kind not in QUOTED:
        return expression
    if column.kind in TYPED:
        as_id = column.kind == "id" and not for_machines
        text = escaping.csv_id(expression) if as_id else escaping.csv_text(expression)
        return _quoted(f"replace({text}, chr(10), chr({INNER_LINE}))")
    if isinstance(column.sql, Label):
        return column.sql.written(_in_quotes, _quoted(column.sql.expression))
    return _quoted(expression)


def _quoted(text: str) -> str:
    return f"""'"' || replace({text}, '"', '""') || '"'"""


def _in_quotes(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
