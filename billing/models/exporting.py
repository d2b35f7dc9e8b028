"""Files that take longer than a request: asked for, written by a job, fetched, and forgotten after a while."""

import uuid

import pgtrigger
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from accounts.models import Organization, User


class ExportJob(models.Model):
    """One export that somebody asked for. `params` are the filters as they were chosen."""

    class Status(models.TextChoices):
        QUEUED = "queued", pgettext_lazy("export", "Waiting")
        RUNNING = "running", pgettext_lazy("export", "Being written")
        DONE = "done", pgettext_lazy("export", "Ready")
        FAILED = "failed", pgettext_lazy("export", "Failed")
        EXPIRED = "expired", pgettext_lazy("export", "Deleted")

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    kind = models.CharField(_("kind"), max_length=30)
    shape = models.CharField(_("format"), max_length=10)
    params = models.JSONField(_("filters"), default=dict)
    language = models.CharField(_("language"), max_length=10)
    # A customer's own export holds that organization's rows only; none is the desk's.
    organization = models.ForeignKey(
        Organization, models.PROTECT, null=True, blank=True, related_name="exports", verbose_name=_("organization")
    )
    requested_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("asked by"))
    requested_at = models.DateTimeField(_("asked at"))
    status = models.CharField(_("status"), max_length=7, choices=Status, default=Status.QUEUED)
    rows_done = models.BigIntegerField(_("rows written"), default=0)
    rows_total = models.BigIntegerField(_("rows"), null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True, editable=False)
    attempts = models.PositiveIntegerField(_("attempts"), default=0, editable=False)
    error = models.CharField(_("problem"), max_length=300, blank=True)
    path = models.CharField(max_length=200, blank=True, editable=False)
    size = models.BigIntegerField(_("size (bytes)"), default=0)
    finished_at = models.DateTimeField(_("finished at"), null=True, blank=True)
    expires_at = models.DateTimeField(_("deleted at"), null=True, blank=True)

    class Meta:
        verbose_name = _("export")
        verbose_name_plural = _("exports")
        ordering = ["-requested_at", "-pk"]
        indexes = [
            models.Index(fields=["requested_at"], condition=Q(status__in=["queued", "running"]), name="export_waiting")
        ]

    def __str__(self) -> str:
        return str(self.key)


class ExportEvent(models.Model):
    """Append-only: who asked for or fetched a file, when and from where."""

    class Kind(models.TextChoices):
        REQUESTED = "requested", pgettext_lazy("export", "Asked for")
        DOWNLOADED = "downloaded", pgettext_lazy("export", "Downloaded")

    job = models.ForeignKey(ExportJob, models.CASCADE, null=True, related_name="events")
    kind = models.CharField(_("kind"), max_length=10, choices=Kind)
    what = models.CharField(_("file"), max_length=200)
    actor = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    address = models.GenericIPAddressField(_("IP address"), null=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["at", "pk"]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update)]

    def __str__(self) -> str:
        return f"{self.kind} {self.what}"
