"""The export as an answer of the web server, for the console and for the desk."""

from __future__ import annotations

import tempfile

from django.db.models import QuerySet
from django.http import FileResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header

from billing.exports.to_csv import invoice_lines_csv
from billing.exports.to_xlsx import invoice_lines_xlsx
from billing.models import Invoice

SHAPES = ("csv", "xlsx")
SPREADSHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def invoice_lines_download(
    invoices: QuerySet[Invoice], *, shape: str, name: str
) -> StreamingHttpResponse | FileResponse:
    """The lines of these invoices in the active language as `name`.csv or `name`.xlsx.

    Raises ValueError for a shape that is not in SHAPES. The work is done here: an error is an error page, not half a
    file.
    """
    filename = f"{name}.{shape}"
    if shape == "csv":
        return StreamingHttpResponse(
            invoice_lines_csv(invoices),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": content_disposition_header(True, filename)},
        )
    if shape == "xlsx":
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the response closes it when it was sent
        invoice_lines_xlsx(invoices, file)
        file.seek(0)
        return FileResponse(file, as_attachment=True, filename=filename, content_type=SPREADSHEET)
    raise ValueError(f"no export as {shape!r}")
