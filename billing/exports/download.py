"""The export as an answer of the web server, for the console and for the desk."""

from __future__ import annotations

import tempfile

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header

from billing.exports.chunks import Chunks
from billing.exports.to_csv import invoice_lines_csv
from billing.exports.to_xlsx import invoice_lines_xlsx
from billing.models import Invoice

SHAPES = ("csv", "xlsx")
CONTENT_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def invoice_lines_download(invoices: QuerySet[Invoice], *, shape: str, name: str) -> StreamingHttpResponse:
    """The lines of these invoices in the active language as `name`.csv or `name`.xlsx.

    Raises ValueError for a shape that is not in SHAPES. The work is done here: an error is an error page, not half a
    file.
    """
    if shape not in SHAPES:
        raise ValueError(f"no export as {shape!r}")
    return StreamingHttpResponse(
        invoice_lines_csv(invoices) if shape == "csv" else _spreadsheet(invoices),
        content_type=CONTENT_TYPES[shape],
        headers={"Content-Disposition": content_disposition_header(True, f"{name}.{shape}")},
    )


def _spreadsheet(invoices: QuerySet[Invoice]) -> Chunks:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by its reader
    try:
        invoice_lines_xlsx(invoices, file)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return Chunks(file)
