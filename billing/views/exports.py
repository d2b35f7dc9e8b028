"""An organization's exports: ask for one, see how far it is, fetch it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.access import OrganizationRequired
from billing.actions import exporting
from billing.exports.catalogue import EXPORTS
from billing.exports.download import SHAPES
from billing.exports.fetching import answer
from billing.exports.selection import Selection
from billing.models import ExportEvent, ExportJob
from billing.tasks import write_export
from marketplace.lib import clock, visitor
from marketplace.lib.nudge import nudge

PAGE_SIZE = 20
REFRESH_SECONDS = 3
UNFINISHED = (ExportJob.Status.QUEUED, ExportJob.Status.RUNNING)


class ExportForm(forms.Form):
    """What to export, over which local days; both days belong to it."""

    kind = forms.ChoiceField(label=gettext_lazy("What"))
    shape = forms.ChoiceField(label=gettext_lazy("Format"), choices=[(shape, shape.upper()) for shape in SHAPES])
    since = forms.DateField(
        label=gettext_lazy("Issued from"), required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
    until = forms.DateField(
        label=gettext_lazy("Issued to"), required=False, widget=forms.DateInput(attrs={"type": "date"})
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offered = [(export.key, str(export.title)) for export in EXPORTS.values() if export.for_customers]
        self.fields["kind"].choices = offered  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        since, until = data.get("since"), data.get("until")
        if since and until and until < since:
            self.add_error("until", _("The last day is before the first one."))
        return data


class Exports(OrganizationRequired, View):
    """The organization's exports, newest first; the page looks again by itself while one is being written."""

    verb = "bills"

    def get(self, request: HttpRequest) -> HttpResponse:
        return self._page(ExportForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        form = ExportForm(request.POST)
        if self.switched or not form.is_valid():
            return self._page(form, status=422)
        at, data = clock.now(), form.cleaned_data
        with_days = {name: self._midnight(data[name], late) for name, late in (("since", False), ("until", True))}
        selection = Selection(at=at, organization_id=self.organization.pk, **with_days)
        job = exporting.request_export(
            kind=data["kind"],
            shape=data["shape"],
            selection=selection,
            language=get_language() or "",
            actor=request.user,  # type: ignore[arg-type]
            address=visitor.address_of(request),
            at=at,
            organization=self.organization,
            filters=" – ".join(str(data[name]) for name in ("since", "until") if data[name]),
            rows=exporting.rows_of(kind=data["kind"], selection=selection),
        )
        nudge(write_export, job_id=job.pk)
        messages.success(request, _("The export is being written. It appears below when it is ready."))
        return redirect("billing:exports")

    def _midnight(self, day: date | None, late: bool) -> Any:
        """The instant at which the day begins, or is over."""
        if day is None:
            return None
        return clock.local_midnight(day + timedelta(days=late), self.organization.zone)

    def _page(self, form: ExportForm, *, status: int = 200) -> HttpResponse:
        jobs = ExportJob.objects.filter(organization=self.organization).select_related("requested_by").defer("params")
        page = Paginator(jobs, PAGE_SIZE).get_page(self.request.GET.get("page"))
        context = {"page": page, "rows": [_row(job) for job in page], "form": form, "switched": self.switched}
        response = render(self.request, "billing/exports.html", context, status=status)
        if status == 200 and any(job.status in UNFINISHED for job in page):
            response.headers["Refresh"] = str(REFRESH_SECONDS)
        return response


def _row(job: ExportJob) -> dict[str, Any]:
    """A job as its line shows it; a kind that is not offered any more by its key."""
    title = EXPORTS[job.kind].title if job.kind in EXPORTS else job.kind
    return {"job": job, "title": title, "unfinished": job.status in UNFINISHED}


class ExportFile(OrganizationRequired, View):
    """The finished file of one of the organization's exports."""

    verb = "bills"

    def get(self, request: HttpRequest, key: UUID) -> HttpResponseBase:
        job = get_object_or_404(ExportJob.objects.defer("params"), organization=self.organization, key=key)
        path = exporting.file_of(job)
        if path is None:
            raise Http404
        exporting.record(
            ExportEvent.Kind.DOWNLOADED, job, what=f"{job.kind}.{job.shape} {self.organization}",
            actor=request.user, address=visitor.address_of(request), at=clock.now(),
        )  # fmt: skip
        return answer(job, path)
