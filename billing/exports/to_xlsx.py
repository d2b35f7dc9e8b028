"""XLSX with a control sheet: rows are written as they are read, texts stay texts, totals add up per currency."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from typing import IO, Any

import xlsxwriter
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from xlsxwriter.format import Format
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from billing.exports.columns import COLUMNS, NUMBERS, rows
from billing.models import Invoice

OPTIONS = {
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
    "nan_inf_to_errors": False,
}
# A sheet holds 1,048,576 rows with its header.
MOST_ROWS = 1_048_575
WIDTHS = {"text": 22, "id": 24, "instant": 20, "count": 9, "quantity": 14, "rate": 14, "percent": 9, "money": 16}
SHAPES = {
    "count": "0", "quantity": "#,##0.000000", "rate": "#,##0.00########", "percent": "0.##", "money": "#,##0.00",
}  # fmt: skip
POSITION = {column.key: index for index, column in enumerate(COLUMNS)}


@dataclass
class Totals:
    """What was written for one currency."""

    lines: int = 0
    invoices: set[str] = field(default_factory=set)
    sums: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))


# The sums of the control sheet: columns of the lines sheet.
SUMMED = ("net", "tax", "gross", "total", "paid", "outstanding")


def invoice_lines_xlsx(invoices: QuerySet[Invoice], file: IO[bytes]) -> None:
    """Write the lines of these invoices in the active language to a binary file, with a sheet of control totals."""
    with xlsxwriter.Workbook(file, OPTIONS) as book:
        totals = _write_lines(book, invoices)
        _write_totals(book, totals)


def _write_lines(book: Workbook, invoices: QuerySet[Invoice]) -> dict[str, Totals]:
    formats = {kind: book.add_format({"num_format": shape}) for kind, shape in SHAPES.items()}
    text = book.add_format({"num_format": "@"})
    totals: dict[str, Totals] = defaultdict(Totals)
    sheet = _lines_sheet(book, 1)
    for index, values in enumerate(rows(invoices).iterator(chunk_size=2000)):
        number, row = divmod(index, MOST_ROWS)
        if number and not row:
            sheet = _lines_sheet(book, number + 1)
        _write_row(sheet, row + 1, values, formats, text)
        _count(totals[values[POSITION["currency"]]], values)
    return totals


def _lines_sheet(book: Workbook, number: int) -> Worksheet:
    name = _("Invoice lines")
    sheet = book.add_worksheet(name if number == 1 else f"{name} {number}")
    head = book.add_format({"bold": True, "text_wrap": True, "valign": "top", "bottom": 1})
    for position, column in enumerate(COLUMNS):
        sheet.set_column(position, position, WIDTHS[column.kind])
        sheet.write_string(0, position, str(column.header), head)
    sheet.freeze_panes(1, 1)
    return sheet


def _write_row(sheet: Worksheet, row: int, values: tuple, formats: dict[str, Format], text: Format) -> None:
    for position, (column, value) in enumerate(zip(COLUMNS, values, strict=True)):
        if value is None:
            continue
        if column.kind in NUMBERS:
            sheet.write_number(row, position, value, formats[column.kind])
        elif column.kind == "id":
            sheet.write_string(row, position, value, text)
        else:
            sheet.write_string(row, position, value)


def _count(totals: Totals, values: tuple[Any, ...]) -> None:
    totals.lines += 1
    totals.invoices.add(values[POSITION["invoice"]])
    for key in SUMMED:
        totals.sums[key] += values[POSITION[key]] or 0


def _write_totals(book: Workbook, totals: dict[str, Totals]) -> None:
    """A row a currency. The last column is lines less invoice totals: zero, or the file must not be used."""
    sheet = book.add_worksheet(_("Control totals"))
    head = book.add_format({"bold": True, "text_wrap": True, "valign": "top", "bottom": 1})
    money = book.add_format({"num_format": SHAPES["money"]})
    headers = [
        _("Currency"), _("Invoices"), _("Lines"), _("Amount without tax"), _("Tax"), _("Amount with tax"),
        _("Sum of invoice totals"), _("Paid"), _("Outstanding"), _("Difference"),
    ]  # fmt: skip
    sheet.set_column(0, len(headers) - 1, WIDTHS["money"])
    for position, header in enumerate(headers):
        sheet.write_string(0, position, header, head)
    for row, (currency, total) in enumerate(sorted(totals.items()), start=1):
        sheet.write_string(row, 0, currency)
        sheet.write_number(row, 1, len(total.invoices))
        sheet.write_number(row, 2, total.lines)
        for position, key in enumerate(SUMMED, start=3):
            sheet.write_number(row, position, total.sums[key], money)
        sheet.write_number(row, 9, total.sums["gross"] - total.sums["total"], money)
