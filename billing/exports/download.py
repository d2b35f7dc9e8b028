"""An export as an answer of the web server, for the console and for the desk."""

from __future__ import annotations

import tempfile
from typing import Any

from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header

from billing.exports.chunks import Chunks
from billing.exports.reading import one_moment
from billing.exports.table import Rows, Table
from billing.exports.to_csv import IN_MEMORY, write_csv
from billing.exports.to_xlsx import write_xlsx

SHAPES = ("csv", "xlsx")
CONTENT_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def written(table: Table, rows: Rows, *, shape: str, for_machines: bool = False) -> Chunks:
    """The finished file in the active language, in chunks: an error is an error page, not half a file.

    Raises ValueError for a shape that is not in SHAPES.
    """
    if shape not in SHAPES:
        raise ValueError(f"no export as {shape!r}")
    file: Any = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by its reader
    try:
        with one_moment() as cursor:
            if shape == "csv":
                write_csv(table, rows, file.write, cursor=cursor, for_machines=for_machines)
            else:
                write_xlsx(table, rows, file, cursor=cursor)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return Chunks(file)


def download(table: Table, rows: Rows, *, shape: str, name: str, for_machines: bool = False) -> StreamingHttpResponse:
    """The export as `name`.csv or `name`.xlsx."""
    return StreamingHttpResponse(
        written(table, rows, shape=shape, for_machines=for_machines),
        content_type=CONTENT_TYPES[shape],
        headers={"Content-Disposition": content_disposition_header(True, f"{name}.{shape}")},
    )
