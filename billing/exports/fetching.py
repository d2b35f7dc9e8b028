"""A finished file as an answer of the web server: its first byte does not wait for the rest."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.http import FileResponse, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from billing.exports.download import CONTENT_TYPES
from billing.models import ExportJob


def answer(job: ExportJob, path: Path) -> HttpResponseBase:
    """The file; by nginx where EXPORT_ACCEL_PREFIX says so."""
    name = f"{job.kind}-{job.requested_at:%Y%m%d-%H%M%S}.{job.shape}"
    kind = CONTENT_TYPES[job.shape]
    # As it lies there: compressing a large file on its way out would cost a worker, and its length.
    headers = {"Content-Encoding": "identity"}
    prefix = settings.EXPORT_ACCEL_PREFIX.rstrip("/")
    if prefix:
        headers["Content-Disposition"] = content_disposition_header(True, name)
        accelerated = HttpResponse(content_type=kind, headers=headers)
        accelerated.headers["X-Accel-Redirect"] = f"{prefix}/{path.name}"
        return accelerated
    return FileResponse(path.open("rb"), as_attachment=True, filename=name, content_type=kind, headers=headers)
