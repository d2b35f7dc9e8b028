"""XLSX with a control sheet: XlsxWriter makes the package, PostgreSQL makes the rows.

The book is made with its headers, widths, number formats and control totals, and without a row; then its parts are
copied into the file, and the XML of the rows is streamed by COPY into the sheets where they belong. Cells name no
place of their own, which the format allows: they follow one another.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import IO, Any

import xlsxwriter
from django.utils.translation import gettext as _
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from billing.exports.escaping import xml_text
from billing.exports.reading import Pieces, Progress, copy_out
from billing.exports.table import NUMBERS, TYPED, Column, Line, Rows, Table, control, written_rows
from billing.exports.words import Label
from marketplace.lib.money import major

OPTIONS = {
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
    "nan_inf_to_errors": False,
}
# A sheet holds 1,048,576 rows with its header; more go on a further one.
MOST_ROWS = 1_048_575
# The rows are repetitive: the fastest level halves the time of the usual one.
ROWS_LEVEL = 1
WIDTHS = {
    "text": 22, "id": 24, "word": 16, "instant": 20, "day": 12, "count": 9, "quantity": 14, "rate": 14, "percent": 9,
    "money": 16,
}  # fmt: skip
SHAPES = {
    "count": "0", "quantity": "#,##0.000000", "rate": "#,##0.00########", "percent": "0.##", "money": "#,##0.00",
    "id": "@", "text": "@",
}  # fmt: skip
LINE = Line(start="<row>", end="</row>", empty="<c/>")
ROWS_END = b"</sheetData>"


class NotOneMoment(Exception):
    """More or fewer rows came than were counted: the books were not read at one moment. The file must not be used."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The control sheet's row of one currency: how many rows, and each of the table's totals."""

    currency: str
    rows: int
    totals: tuple[int, ...]


def write_xlsx(table: Table, rows: Rows, file: IO[bytes], *, cursor: Any, progress: Progress | None = None) -> int:
    """Write the book in the active language. How many rows its sheets have, headers left out.

    Raises NotOneMoment where the cursor does not see one moment of the books.
    """
    cursor.execute(control(table, rows), rows.values)
    sums = [Sums(currency, count, tuple(map(int, totals))) for currency, count, *totals in cursor.fetchall()]
    counted = sum(one.rows for one in sums)
    sheets = max(1, -(-counted // MOST_ROWS))
    package = _package(table, sums, sheets)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=ROWS_LEVEL) as book:
        names = [f"xl/worksheets/sheet{number}.xml" for number in range(1, sheets + 1)]
        _copy_parts(package, book, names)
        filling = Sheets(book, [(name, package.read(name)) for name in names], counted, len(table.columns))
        cells = [cell(column, style) for column, style in zip(table.columns, filling.styles, strict=True)]
        statement = written_rows(table, rows, LINE, cells)
        written = copy_out(cursor, statement, rows.values, Pieces(filling.write, progress))
        filling.close()
    if written != counted:
        raise NotOneMoment(f"{written} rows were written, {counted} counted")
    return written


def _copy_parts(package: zipfile.ZipFile, book: zipfile.ZipFile, left_out: Sequence[str]) -> None:
    for info in package.infolist():
        if info.filename not in left_out:
            book.writestr(info, package.read(info.filename), zipfile.ZIP_DEFLATED)


class Sheets:
    """Takes the XML of rows and fills one sheet after another with it, cutting where a sheet is full."""

    def __init__(self, book: zipfile.ZipFile, skeletons: list[tuple[str, bytes]], counted: int, columns: int) -> None:
        self._book, self._counted, self._columns = book, counted, columns
        self._waiting = iter(skeletons)
        self.styles = _styles(skeletons[0][1])
        self._number, self._room = 0, 0
        self._part: Any = None
        self._tail = b""
        self._next()

    def write(self, data: bytes) -> None:
        while (count := data.count(b"\n")) > self._room:
            cut = _after_line(data, self._room)
            self._fill(data[:cut])
            data = data[cut:]
            self._next()
        self._room -= count
        self._fill(data)

    def close(self) -> None:
        self._end_part()
        while (following := next(self._waiting, None)) is not None:
            self._begin(*following)
            self._end_part()

    def _next(self) -> None:
        following = next(self._waiting, None)
        if following is None:
            raise NotOneMoment(f"more rows came than the {self._counted} counted")
        self._end_part()
        self._begin(*following)

    def _begin(self, name: str, skeleton: bytes) -> None:
        rows = min(MOST_ROWS, max(0, self._counted - self._number * MOST_ROWS))
        head, _end, tail = skeleton.partition(ROWS_END)
        self._number, self._room, self._tail = self._number + 1, MOST_ROWS, ROWS_END + tail
        # The same for the same rows: the moment of writing says nothing that the name of the file does not.
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.compress_type = zipfile.ZIP_DEFLATED
        info._compresslevel = ROWS_LEVEL  # type: ignore[attr-defined]  # public as compress_level from Python 3.13 on
        self._part = self._book.open(info, "w", force_zip64=True)
        last = xlsxwriter.utility.xl_rowcol_to_cell(rows, self._columns - 1)
        self._fill(re.sub(rb'<dimension ref="[^"]*"/>', f'<dimension ref="A1:{last}"/>'.encode(), head))

    def _fill(self, data: bytes) -> None:
        self._part.write(data)

    def _end_part(self) -> None:
        if self._part is not None:
            self._fill(self._tail)
            self._part.close()
            self._part = None


def _after_line(data: bytes, number: int) -> int:
    """Where the line after the `number`-th begins."""
    at = 0
    for _line in range(number):
        at = data.index(b"\n", at) + 1
    return at


def _styles(sheet: bytes) -> list[int]:
    """The style of each column, as XlsxWriter numbered them."""
    found = re.findall(rb'<col min="(\d+)" max="(\d+)"([^>]*)/>', sheet)
    styles: list[int] = []
    for first, last, rest in found:
        style = re.search(rb'style="(\d+)"', rest)
        styles += [int(style[1]) if style else 0] * (int(last) - int(first) + 1)
    return styles


# --- the package: everything but the rows ---


def _package(table: Table, sums: Sequence[Sums], sheets: int) -> zipfile.ZipFile:
    file = io.BytesIO()
    with xlsxwriter.Workbook(file, OPTIONS) as book:
        head = book.add_format({"bold": True, "text_wrap": True, "valign": "top", "bottom": 1})
        shapes = {kind: book.add_format({"num_format": shape}) for kind, shape in SHAPES.items()}
        for number in range(1, sheets + 1):
            title = str(table.title)[:28]
            sheet = book.add_worksheet(title if number == 1 else f"{title} {number}")
            for position, column in enumerate(table.columns):
                sheet.set_column(position, position, WIDTHS[column.kind], shapes.get(column.kind))
            _write_head(sheet, table.headers, head)
        _write_control(book, table, sums, head)
    return zipfile.ZipFile(file)


def _write_head(sheet: Worksheet, headers: Sequence[str], shape: Any) -> None:
    for position, header in enumerate(headers):
        sheet.write_string(0, position, header, shape)
    sheet.freeze_panes(1, 1)


def _write_control(book: Workbook, table: Table, sums: Sequence[Sums], head: Any) -> None:
    """A row a currency. Where two of the sums must agree, their difference stands last: zero, or the file must not be
    used."""
    sheet = book.add_worksheet(_("Control totals"))
    money = book.add_format({"num_format": SHAPES["money"]})
    headers = [_("Currency"), _("Lines"), *(str(total.header) for total in table.control)]
    sheet.set_column(0, len(headers), WIDTHS["money"])
    _write_head(sheet, [*headers, _("Difference")] if table.agree else headers, head)
    for row, one in enumerate(sums, start=1):
        sheet.write_string(row, 0, one.currency)
        sheet.write_number(row, 1, one.rows)
        for position, (total, value) in enumerate(zip(table.control, one.totals, strict=True), start=2):
            _write_sum(sheet, (row, position), value, one.currency if total.is_money else "", money)
        if table.agree:
            left, right = (one.totals[position] for position in table.agree)
            _write_sum(sheet, (row, len(headers)), left - right, one.currency, money)


def _write_sum(sheet: Worksheet, place: tuple[int, int], value: int, currency: str, money: Any) -> None:
    if currency:
        sheet.write_number(*place, major(value, currency), money)
    else:
        sheet.write_number(*place, value)


# --- the rows ---


def cell(column: Column, style: int) -> str:
    """The XML of one cell; an empty one where the value is none."""
    styled = f' s="{style}"' if style else ""
    expression = f"({column.expression()})"
    if column.kind in NUMBERS:
        return f"COALESCE('<c{styled}><v>' || {expression} || '</v></c>', '<c/>')"
    start, end = f'<c{styled} t="inlineStr"><is><t', "</t></is></c>"
    if column.kind in TYPED:
        text, start = xml_text(expression), f'{start} xml:space="preserve">'
    else:
        text, start = f"replace(replace({expression}, '&', '&amp;'), '<', '&lt;')", f"{start}>"
    other = f"COALESCE('{start}' || {text} || '{end}', '<c/>')"
    if isinstance(column.sql, Label):
        return column.sql.written(lambda word: f"{start}{escape(word, quote=False)}{end}", other)
    return other
