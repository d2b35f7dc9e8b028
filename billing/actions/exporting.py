"""Exports that take longer than a request: asked for, written by a worker, fetched, deleted after some days.

A job is held by a lease that its progress renews, and every attempt writes a file of its own, which becomes the job's
only when it is whole. So a job may be sent twice, run in parallel or be killed at any row: one whole file is left.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.utils import translation
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization, User
from billing.exports.catalogue import EXPORTS, Export
from billing.exports.download import SHAPES
from billing.exports.reading import one_moment, one_moment_apart
from billing.exports.selection import Selection
from billing.exports.table import count
from billing.exports.to_csv import write_csv
from billing.exports.to_xlsx import write_xlsx
from billing.models import ExportEvent, ExportJob, Invoice
from marketplace.lib.refusals import Refusal

logger = logging.getLogger(__name__)
Status = ExportJob.Status

# Attempts before a job is given up, the killed ones too, and the wait after one that failed.
MOST_ATTEMPTS = 5
WAIT = timedelta(seconds=30)
# A file that belongs to no job is deleted when nothing can be writing it any more.
ORPHAN_AGE = timedelta(days=1)
REPORT_SECONDS = 1.0


class ExportRefused(Refusal):
    """No such export, or not for this person."""

    code = "export_refused"


class _TakenOver(Exception):
    """The lease ran out and another worker has the job."""


# --- asking ---------------------------------------------------------------------------------------------------------
def rows_of(*, kind: str, selection: Selection) -> int:
    """How many rows the export would have now."""
    with one_moment() as cursor:
        rows = EXPORTS[kind].rows(selection)
        cursor.execute(count(rows), rows.values)
        return int(cursor.fetchone()[0])


@transaction.atomic
def request_export(
    *,
    kind: str,
    shape: str,
    selection: Selection,
    language: str,
    actor: User,
    address: str | None,
    at: datetime,
    organization: Organization | None = None,
    filters: str = "",
    rows: int | None = None,
) -> ExportJob:
    """Queue an export and write down who asked for it, from where and for what; the sweep and a nudge run it.

    A list of invoices is kept as it is now. With an `organization` the file holds that organization's rows only.
    Raises ExportRefused for a kind or shape that does not exist or that customers may not have.
    """
    export = _wanted(kind, shape, organization)
    job = ExportJob.objects.create(
        kind=kind,
        shape=shape,
        params=_params(selection) | {"version": export.table.version, "filters": filters},
        language=language,
        organization=organization,
        requested_by=actor,
        requested_at=at,
        rows_total=rows,
    )
    record(ExportEvent.Kind.REQUESTED, job, what=_what(job, filters), actor=actor, address=address, at=at)
    return job


def _wanted(kind: str, shape: str, organization: Organization | None) -> Export:
    export = EXPORTS.get(kind)
    if export is None or shape not in SHAPES or (organization is not None and not export.for_customers):
        raise ExportRefused(message=_("There is no such export."))
    return export


def record(
    kind: str, job: ExportJob | None, *, what: str, actor: User | None, address: str | None, at: datetime
) -> None:
    """A line for the auditor. Exports that were written within the request have no job."""
    ExportEvent.objects.create(job=job, kind=kind, what=what[:200], actor=actor, address=address or None, at=at)


@transaction.atomic
def record_at_once(
    *,
    kind: str,
    shape: str,
    rows: int,
    actor: User,
    address: str | None,
    at: datetime,
    organization: Organization | None = None,
    filters: str = "",
) -> None:
    """The two lines of an export that was written and sent within its request."""
    of = f" {organization}" if organization else ""
    what = f"{kind}.{shape}{of}: {rows}{f' ({filters})' if filters else ''}"
    for event in (ExportEvent.Kind.REQUESTED, ExportEvent.Kind.DOWNLOADED):
        record(event, None, what=what, actor=actor, address=address, at=at)


def _what(job: ExportJob, filters: str) -> str:
    of = f" {job.organization}" if job.organization_id else ""
    return f"{job.kind}.{job.shape}{of}{f' ({filters})' if filters else ''}"


def _params(selection: Selection) -> dict[str, Any]:
    """The selection as JSON. The moment it asks about is kept, so that a repeated attempt asks the same."""
    instants = {name: getattr(selection, name) for name in ("at", "since", "until")}
    return {
        **{name: value.isoformat() for name, value in instants.items() if value is not None},
        "organization": selection.organization_id,
        "currency": selection.currency,
        "invoices": None if selection.invoices is None else list(selection.invoices.values_list("pk", flat=True)),
    }


def selection_of(job: ExportJob) -> Selection:
    """What the job was asked about."""
    params = job.params
    instants = {name: datetime.fromisoformat(params[name]) for name in ("at", "since", "until") if params.get(name)}
    return Selection(
        **instants,
        organization_id=job.organization_id or params.get("organization"),
        currency=params.get("currency", ""),
        invoices=None if params.get("invoices") is None else _listed(params["invoices"]),
    )


def _listed(ids: Sequence[int]) -> QuerySet[Invoice]:
    return Invoice.objects.filter(pk__in=RawSQL("SELECT unnest(%s::bigint[])", (list(ids),)))


# --- running --------------------------------------------------------------------------------------------------------
def due_exports(*, at: datetime) -> list[int]:
    """Jobs that wait, and jobs whose worker has gone silent, the oldest first."""
    return list(_due(at).order_by("requested_at", "pk").values_list("pk", flat=True))


def _due(at: datetime) -> QuerySet[ExportJob]:
    return ExportJob.objects.filter(
        Q(status=Status.QUEUED, lease_until=None) | Q(status__in=[Status.QUEUED, Status.RUNNING], lease_until__lte=at)
    )


def run_export(*, job_id: int, at: datetime, now: Callable[[], datetime]) -> bool:
    """Write the job's file, if nobody else does; whether it is ready now. An error stands on the job and is tried
    again."""
    job = _due(at).filter(pk=job_id).select_related("organization").first()
    if job is None:
        return False
    if job.attempts >= MOST_ATTEMPTS:
        _move(job, Status.FAILED, finished_at=at, error=job.error or "its workers were killed")
        return False
    if not _move(job, Status.RUNNING, attempts=F("attempts") + 1, lease_until=at + _lease(), rows_done=0):
        return False
    job.refresh_from_db(fields=["attempts", "status"])
    try:
        return _write(job, now)
    except _TakenOver:
        return False
    except Exception as error:
        logger.exception("export %s failed", job.key)
        problem = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
        last = job.attempts >= MOST_ATTEMPTS
        _move(
            job, Status.FAILED if last else Status.QUEUED, error=problem, lease_until=None if last else now() + WAIT,
            finished_at=now() if last else None,
        )  # fmt: skip
        return False


def _write(job: ExportJob, now: Callable[[], datetime]) -> bool:
    name = f"{job.key}.{job.attempts}.{job.shape}"
    whole, part = folder() / name, folder() / f"{name}.part"
    try:
        with part.open("wb") as file:
            rows = _fill(job, file, _Report(job, now))
            file.flush()
            os.fsync(file.fileno())
        part.replace(whole)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    done = now()
    if _move(
        job, Status.DONE, path=name, size=whole.stat().st_size, rows_done=rows, rows_total=rows, error="",
        lease_until=None, finished_at=done, expires_at=done + timedelta(days=settings.EXPORT_DAYS),
    ):  # fmt: skip
        return True
    whole.unlink(missing_ok=True)
    return False


def _fill(job: ExportJob, file: IO[bytes], progress: Callable[[int], None]) -> int:
    export = EXPORTS[job.kind]
    with translation.override(job.language), one_moment_apart() as cursor:
        rows = export.rows(selection_of(job))
        if job.shape == "csv":
            return write_csv(
                export.table, rows, file.write, cursor=cursor, for_machines=export.for_machines, progress=progress
            )
        return write_xlsx(export.table, rows, file, cursor=cursor, progress=progress)


class _Report:
    """Says once a second how far a job is, which renews its lease; raises when another worker has it."""

    def __init__(self, job: ExportJob, now: Callable[[], datetime]) -> None:
        self._job, self._now, self._next = job, now, time.monotonic() + REPORT_SECONDS

    def __call__(self, rows: int) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + REPORT_SECONDS
        held = ExportJob.objects.filter(pk=self._job.pk, status=Status.RUNNING, attempts=self._job.attempts)
        if not held.update(rows_done=rows, lease_until=self._now() + _lease()):
            raise _TakenOver


def _move(job: ExportJob, to: str, **facts: Any) -> bool:
    """The only code that writes ExportJob.status: from what `job` says, or not at all where another was quicker."""
    held = ExportJob.objects.filter(pk=job.pk, status=job.status, attempts=job.attempts)
    return bool(held.update(status=to, **facts))


def _lease() -> timedelta:
    return timedelta(seconds=settings.EXPORT_LEASE_SECONDS)


# --- keeping --------------------------------------------------------------------------------------------------------
def folder() -> Path:
    """Where the files lie; nobody but this program may look into it."""
    path = Path(settings.EXPORT_FOLDER)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def file_of(job: ExportJob) -> Path | None:
    """The finished file, or None where there is none (yet, or any more)."""
    if job.status != Status.DONE or not job.path:
        return None
    path = folder() / Path(job.path).name
    return path if path.is_file() else None


def expire_exports(*, at: datetime) -> int:
    """Delete files whose days are over, and what killed attempts left behind; how many jobs expired."""
    expired = 0
    for job in ExportJob.objects.filter(status=Status.DONE, expires_at__lte=at).defer("params"):
        (folder() / Path(job.path).name).unlink(missing_ok=True)
        expired += _move(job, Status.EXPIRED, path="")
    _delete_orphans(at)
    return expired


def _delete_orphans(at: datetime) -> None:
    oldest = (at - ORPHAN_AGE).timestamp()
    old = {path.name: path for path in folder().iterdir() if path.is_file() and path.stat().st_mtime < oldest}
    kept = set(ExportJob.objects.filter(path__in=list(old)).values_list("path", flat=True))
    for name in old.keys() - kept:
        old[name].unlink(missing_ok=True)
