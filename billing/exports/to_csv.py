"""CSV as Excel and people want it, written by PostgreSQL's COPY: UTF-8 with BOM, LF, nothing that runs as a formula."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import CharField, Func, QuerySet

from billing.exports.chunks import Chunks
from billing.exports.columns import COLUMNS, NUMBERS, Column, rows
from billing.models import Invoice

BOM = "\ufeff"
IN_MEMORY = 4 * 1024 * 1024

# Characters that make a spreadsheet take a text for a formula, with their full-width twins.
_STARTS_FORMULA = r"^([=+\-@\t\r\n＝＋－＠])"
_FORMULA = f"'{_STARTS_FORMULA}'"
# Digits that a spreadsheet would turn into a rounded number or strip of their zeros.
_DIGITS = r"'^([0-9]{12,}|0[0-9]+)$'"


def harmless(text: str) -> str:
    """The text with an apostrophe before it where a spreadsheet would take it for a formula."""
    return re.sub(_STARTS_FORMULA, r"'\1", text)


def invoice_lines_csv(invoices: QuerySet[Invoice]) -> Chunks:
    """The lines of these invoices as CSV in the active language, in chunks. One statement: one moment of the books.

    The work is done before the first chunk is asked for, so an error is an error page and not half a file.
    """
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by its reader
    try:
        file.write(_header())
        _copy(rows(invoices, wrap=_guarded), file)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return Chunks(file)


def _header() -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([str(column.header) for column in COLUMNS])
    return (BOM + text.getvalue()).encode()


def _guarded(column: Column, expression: Any) -> Any:
    """Text that would run as a formula gets an apostrophe, digits that would be rounded a tab; numbers stay numbers."""
    if column.kind in NUMBERS or column.kind == "instant":
        return expression
    guarded = f"regexp_replace(%(expressions)s, {_FORMULA}, E'''\\\\1')"
    if column.kind == "id":
        guarded = f"regexp_replace({guarded}, {_DIGITS}, E'\\t\\\\1')"
    return Func(expression, template=guarded, output_field=CharField())


def _copy(query: QuerySet, file: Any) -> None:
    try:
        sql, values = query.query.get_compiler(connection.alias).as_sql()
    except EmptyResultSet:
        return  # Django knows without asking that there is nothing
    quoted = ", ".join(f'"{column.alias}"' for column in COLUMNS if column.kind in {"text", "id"})
    with connection.cursor() as cursor:
        # COPY takes no parameters: the driver writes them into the text, quoted as it does for every statement.
        text = cursor.cursor.mogrify(sql, values).decode()
        cursor.cursor.copy_expert(
            f"COPY ({text}) TO STDOUT WITH (FORMAT csv, ENCODING 'UTF8', FORCE_QUOTE ({quoted}))", file
        )
