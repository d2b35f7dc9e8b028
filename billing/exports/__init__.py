"""What finance and customers take away: tables worked out by PostgreSQL, as CSV and XLSX."""

from __future__ import annotations

from typing import IO

from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from billing.exports.chunks import Chunks
from billing.exports.download import SHAPES, download, written
from billing.exports.kinds import invoice_lines
from billing.exports.reading import one_moment
from billing.exports.selection import Selection
from billing.exports.table import Rows
from billing.exports.to_xlsx import write_xlsx
from billing.models import Invoice
from marketplace.lib import clock

__all__ = ["SHAPES", "invoice_lines_csv", "invoice_lines_download", "invoice_lines_xlsx"]


def invoice_lines_csv(invoices: QuerySet[Invoice]) -> Chunks:
    """The lines of these invoices as CSV in the active language, in chunks, of one moment of the books."""
    return written(invoice_lines.TABLE, _lines(invoices), shape="csv")


def invoice_lines_xlsx(invoices: QuerySet[Invoice], file: IO[bytes]) -> None:
    """Write the lines of these invoices in the active language to a binary file, with a sheet of control totals."""
    with one_moment() as cursor:
        write_xlsx(invoice_lines.TABLE, _lines(invoices), file, cursor=cursor)


def invoice_lines_download(invoices: QuerySet[Invoice], *, shape: str, name: str) -> StreamingHttpResponse:
    """The lines of these invoices in the active language as `name`.csv or `name`.xlsx.

    Raises ValueError for a shape that is not in SHAPES. The work is done here: an error is an error page, not half a
    file.
    """
    return download(invoice_lines.TABLE, _lines(invoices), shape=shape, name=name)


def _lines(invoices: QuerySet[Invoice]) -> Rows:
    return invoice_lines.rows(Selection(at=clock.now(), invoices=invoices))
