"""Exports of the desk: ask for one, watch it being written, fetch it; and the audit's list of who took what away."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from unfold import widgets
from unfold.decorators import display

from accounts.models import Organization
from billing.actions import exporting
from billing.exports.catalogue import EXPORTS
from billing.exports.download import SHAPES
from billing.exports.fetching import answer
from billing.exports.selection import Selection
from billing.models import ExportEvent, ExportJob
from billing.tasks import write_export
from marketplace.desk import inputs, show
from marketplace.desk.base import Button, Desk, Rows
from marketplace.lib import clock, visitor
from marketplace.lib.money import BILLING_CURRENCIES
from marketplace.lib.nudge import nudge

STATES = {"queued": "info", "running": "info", "done": "success", "failed": "danger", "expired": "warning"}
REFRESH_SECONDS = 3
UNFINISHED = (ExportJob.Status.QUEUED, ExportJob.Status.RUNNING)
ASK = Button(
    gettext_lazy("New export"),
    explain=gettext_lazy(
        "Days are the company's own and both belong to the export: invoices by their issue, money by its arrival, the "
        "ledger by its booking. Receivables are asked for at the end of the last day, or now."
    ),
)


def _day(**kwargs: Any) -> forms.DateField:
    attrs = {"type": "date", "class": " ".join(widgets.INPUT_CLASSES)}
    return forms.DateField(required=False, widget=forms.DateInput(attrs=attrs), **kwargs)


class AskForm(inputs.DeskForm):
    kind = inputs.choice(label=gettext_lazy("What"))
    shape = inputs.choice(label=gettext_lazy("Format"), choices=[(shape, shape.upper()) for shape in SHAPES])
    since = _day(label=gettext_lazy("From"))
    until = _day(label=gettext_lazy("To"))
    organization = inputs.row(Organization.objects.order_by("name"), label=gettext_lazy("Organization"), required=False)
    currency = inputs.choice(
        label=gettext_lazy("Currency"),
        choices=[("", "–"), *((code, code) for code in BILLING_CURRENCIES)],
        required=False,
    )

    def __init__(self, *args: Any, kinds: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["kind"].choices = kinds

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        since, until = data.get("since"), data.get("until")
        if since and until and until < since:
            self.add_error("until", _("The last day is before the first one."))
        return data


class ExportEventRows(Rows):
    model = ExportEvent
    fields = ("when", "kind", "what", "who", "address")
    ordering = ("-at", "-pk")
    select = ("actor",)
    verbose_name_plural = gettext_lazy("Who asked for it and fetched it")

    when = show.instant("at", gettext_lazy("When"))
    who = show.plain("actor", gettext_lazy("By"))


@admin.register(ExportJob)
class ExportJobDesk(Desk):
    """Files that were asked for. A page of one that is being written looks again by itself."""

    select = ("organization", "requested_by")
    list_before_template = "admin/desk/new_export.html"
    fieldsets = (
        (None, {"fields": (("what", "shape"), ("state", "progress"), "file", ("customer", "requested_by"))}),
        (gettext_lazy("Dates"), {"fields": (("asked", "finished"), "expires")}),
        (gettext_lazy("Details"), {"fields": ("filters", "language", "size", "attempts", "error")}),
    )
    inlines = (ExportEventRows,)
    list_display = ("what", "shape", "state", "progress", "customer", "requested_by", "asked", "file")
    list_filter = ("status", "shape", "requested_at")
    search_fields = ("=key", "kind", "organization__name", "requested_by__email")
    ordering = ("-requested_at", "-pk")

    customer = show.link("organization", gettext_lazy("organization"))
    state = show.badge("status", gettext_lazy("status"), STATES)
    asked = show.instant("requested_at", gettext_lazy("asked at"))
    finished = show.instant("finished_at", gettext_lazy("finished at"))
    expires = show.instant("expires_at", gettext_lazy("deleted at"))

    def get_queryset(self, request: HttpRequest) -> Any:
        # A list of invoices can be long, and a list of jobs shows none of it.
        return super().get_queryset(request).defer("params")

    @display(description=gettext_lazy("kind"), ordering="kind")
    def what(self, job: ExportJob) -> str:
        return str(EXPORTS[job.kind].title) if job.kind in EXPORTS else job.kind

    @display(description=gettext_lazy("rows"), ordering="rows_done")
    def progress(self, job: ExportJob) -> str:
        total = show.DASH if job.rows_total is None else f"{job.rows_total:,}"
        return f"{job.rows_done:,} / {total}" if job.status in UNFINISHED else total

    @display(description=gettext_lazy("filters"))
    def filters(self, job: ExportJob) -> str:
        shown = {name: value for name, value in job.params.items() if name not in {"invoices", "at"} and value}
        if job.params.get("invoices") is not None:
            shown["invoices"] = len(job.params["invoices"])
        return ", ".join(f"{name}: {value}" for name, value in shown.items()) or show.DASH

    @display(description=gettext_lazy("file"))
    def file(self, job: ExportJob) -> str:
        if job.status != ExportJob.Status.DONE:
            return show.DASH
        address = reverse("admin:billing_exportjob_file", args=[job.pk])
        return format_html('<a class="text-link" href="{}">{}</a>', address, _("Download"))

    def get_urls(self) -> list:
        view = self.admin_site.admin_view
        return [
            path("new/", view(self.ask), name="billing_exportjob_new"),
            path("<int:pk>/file/", view(self.fetch), name="billing_exportjob_file"),
            *super().get_urls(),
        ]

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        response = super().change_view(request, object_id, *args, **kwargs)
        if response.status_code == 200 and ExportJob.objects.filter(pk=object_id, status__in=UNFINISHED).exists():
            response.headers["Refresh"] = str(REFRESH_SECONDS)
        return response

    def ask(self, request: HttpRequest) -> HttpResponse:
        """The page on which an export is asked for."""
        kinds = [(one.key, str(one.title)) for one in EXPORTS.values() if request.user.has_perm(one.permission)]
        if not kinds or not self.has_view_permission(request):
            raise PermissionDenied
        form = AskForm(request.POST or None, obj=ExportJob(), query=request.GET.dict(), kinds=kinds)
        if request.method == "POST" and form.is_valid():
            job = self._request(request, form.cleaned_data)
            return HttpResponseRedirect(show.page_of(job))
        context = {
            **self.admin_site.each_context(request), "opts": self.opts, "title": ASK.label, "button": ASK, "form": form,
            "row": self.opts.verbose_name_plural, "back": reverse("admin:billing_exportjob_changelist"),
        }  # fmt: skip
        return TemplateResponse(request, "admin/desk/ask.html", context, status=422 if form.errors else 200)

    def _request(self, request: HttpRequest, data: dict[str, Any]) -> ExportJob:
        at = clock.now()
        since, until = _midnight(data["since"]), _midnight(data["until"], over=True)
        if EXPORTS[data["kind"]].at_instant:
            since, at, until = None, min(until or at, at), None
        selection = Selection(
            at=at, organization_id=data["organization"].pk if data["organization"] else None,
            currency=data["currency"], since=since, until=until,
        )  # fmt: skip
        named = {name: data[name] for name in ("since", "until", "organization", "currency") if data[name]}
        return start(
            request, kind=data["kind"], shape=data["shape"], selection=selection,
            filters=", ".join(f"{name}={value}" for name, value in named.items()),
            rows=exporting.rows_of(kind=data["kind"], selection=selection),
        )  # fmt: skip

    def fetch(self, request: HttpRequest, pk: int) -> HttpResponseBase:
        """The finished file, for those who may see what is in it."""
        job = self.get_queryset(request).filter(pk=pk).first()
        if not self.has_view_permission(request) or (job and not may_take(request, job)):
            raise PermissionDenied
        file = exporting.file_of(job) if job else None
        if job is None or file is None:
            raise Http404
        exporting.record(
            ExportEvent.Kind.DOWNLOADED, job, what=f"{job.kind}.{job.shape}", actor=request.user,
            address=visitor.address_of(request), at=clock.now(),
        )  # fmt: skip
        return answer(job, file)


def may_take(request: HttpRequest, job: ExportJob) -> bool:
    export = EXPORTS.get(job.kind)
    return export is not None and request.user.has_perm(export.permission)


def start(request: HttpRequest, *, kind: str, shape: str, selection: Selection, filters: str, rows: int) -> ExportJob:
    """Ask for an export on behalf of the person at the desk, and wake a worker."""
    job = exporting.request_export(
        kind=kind, shape=shape, selection=selection, language=get_language() or "", actor=request.user,
        address=visitor.address_of(request), at=clock.now(), filters=filters, rows=rows,
    )  # fmt: skip
    nudge(write_export, job_id=job.pk)
    messages.success(request, _("The export is being written. This page shows how far it is."))
    return job


def _midnight(day: date | None, *, over: bool = False) -> Any:
    return None if day is None else clock.local_midnight(day + timedelta(days=over), settings.TIME_ZONE)
