"""The queue of fapiao for finance, and the buyers' tax profiles."""

from __future__ import annotations

from datetime import date
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display
from unfold.widgets import INPUT_CLASSES, UnfoldAdminFileFieldWidget

from billing import actions as verbs
from billing.fapiao import NothingToInvoice
from billing.fapiao_template import VERSION, ExportRefused
from billing.models import Fapiao, FapiaoEvent, TaxProfile
from billing.views.fapiao import fapiao_download
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, Rows, button
from marketplace.lib import clock
from marketplace.lib.money import format_minor

STATES = {
    "requested": "warning", "issued": "success", "failed": "danger", "withdrawn": "info", "red_pending": "warning",
    "red_flushed": "info",
}  # fmt: skip
Status = Fapiao.Status
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def day(**kwargs: Any) -> forms.DateField:
    """A day, with the browser's own picker."""
    attrs = {"type": "date", "class": " ".join(INPUT_CLASSES)}
    return forms.DateField(widget=forms.DateInput(attrs=attrs, format="%Y-%m-%d"), **kwargs)


class IssueForm(inputs.DeskForm):
    number = inputs.text(label=gettext_lazy("Number"), max_length=20, help_text=gettext_lazy("20 digits."))
    issued_on = day(label=gettext_lazy("Issued on"))
    file = forms.FileField(
        label=gettext_lazy("File"),
        widget=UnfoldAdminFileFieldWidget,
        help_text=gettext_lazy("PDF or OFD as the tax bureau made it, at most 10 MB."),
    )


class RefuseForm(inputs.DeskForm):
    reason = inputs.note(label=gettext_lazy("Reason"), max_length=300, help_text=gettext_lazy("The customer reads it."))


class RedForm(inputs.DeskForm):
    reason = inputs.choice(label=gettext_lazy("Reason"), choices=Fapiao.RedReason.choices)
    note = inputs.note(label=gettext_lazy("Note"), max_length=300, required=False)


class FlushedForm(inputs.DeskForm):
    red_number = inputs.text(label=gettext_lazy("Number of the red fapiao"), max_length=20)
    flushed_on = day(label=gettext_lazy("Issued on"))


class EventRows(Rows):
    model = FapiaoEvent
    fields = ("when", "became", "who", "remark")
    ordering = ("-at", "-pk")
    select = ("actor",)
    verbose_name_plural = gettext_lazy("What happened")

    when = show.instant("at", gettext_lazy("When"))
    who = show.plain("actor", gettext_lazy("By"))
    remark = show.plain("note", gettext_lazy("Note"))
    became = show.badge("status", gettext_lazy("status"), STATES)


@admin.register(Fapiao)
class FapiaoDesk(Desk):
    """Asked for by customers, issued at the tax bureau, recorded here. Nothing is ever deleted."""

    buttons = ("issue", "refuse", "recalculate", "open_red", "finish_red", "cancel_red")
    actions = ("export_batch",)
    refusals = (verbs.FapiaoRefused, NothingToInvoice)
    select = ("invoice__organization", "requested_by")
    list_display = ("__str__", "bill", "customer", "kind", "state", "total", "asked", "issued_on")
    list_filter = ("status", "kind", "requested_at")
    search_fields = ("serial", "number", "red_number", "invoice__number", "invoice__organization__name")
    ordering = ("-requested_at", "-pk")
    fieldsets = (
        (None, {"fields": (("serial", "state"), ("bill", "customer"), ("kind", "total", "tax"))}),
        (gettext_lazy("Buyer"), {"fields": ("buyer_shown",)}),
        (gettext_lazy("At the tax bureau"), {"fields": (("number", "issued_on"), "document", "reason")}),
        (gettext_lazy("Red flush"), {"fields": (("red_reason", "red_number", "red_flushed_on"),)}),
        (gettext_lazy("Request"), {"fields": (("asked", "requested_by"),)}),
    )
    inlines = (EventRows,)

    bill = show.link("invoice", gettext_lazy("invoice"))
    state = show.badge("status", gettext_lazy("status"), STATES)
    total = show.money("total_minor", gettext_lazy("amount with tax"))
    tax = show.money("tax_minor", gettext_lazy("tax within"))
    asked = show.instant("requested_at", gettext_lazy("asked at"))

    @display(description=gettext_lazy("organization"))
    def customer(self, fapiao: Fapiao) -> str:
        return str(fapiao.invoice.organization)

    @display(description=gettext_lazy("buyer"))
    def buyer_shown(self, fapiao: Fapiao) -> str:
        fields = ("title", "tax_id", "address", "phone", "bank", "bank_account", "email")
        return " · ".join(str(fapiao.buyer[name]) for name in fields if fapiao.buyer.get(name))

    @display(description=gettext_lazy("file"))
    def document(self, fapiao: Fapiao) -> str:
        if not fapiao.file:
            return show.DASH
        address = reverse("admin:billing_fapiao_file", args=[fapiao.pk])
        return format_html('<a class="text-link" href="{}">{}</a>', address, _("Download"))

    def get_urls(self) -> list:
        view = self.admin_site.admin_view(self.file)
        return [path("<path:object_id>/file/", view, name="billing_fapiao_file"), *super().get_urls()]

    def file(self, request: HttpRequest, object_id: str) -> FileResponse:
        fapiao = self.get_object(request, object_id)
        if fapiao is None:
            raise Http404
        if not self.has_view_permission(request, fapiao):
            raise PermissionDenied
        return fapiao_download(fapiao)

    # --- buttons ---

    @button(gettext_lazy("Issued"), form=IssueForm, shown=lambda row: row.status == Status.REQUESTED)
    def issue(self, request: HttpRequest, fapiao: Fapiao, *, number: str, issued_on: date, file: UploadedFile) -> str:
        verbs.issue_fapiao(
            fapiao=fapiao, number=number, issued_on=issued_on, content=file.read(), actor=request.user, at=clock.now()
        )  # type: ignore[arg-type]
        return _("Recorded; the customer can download it.")

    @button(
        gettext_lazy("Cannot be issued"), form=RefuseForm, danger=True, shown=lambda row: row.status == Status.REQUESTED
    )
    def refuse(self, request: HttpRequest, fapiao: Fapiao, *, reason: str) -> str:
        verbs.refuse_fapiao(fapiao=fapiao, reason=reason, actor=request.user, at=clock.now())  # type: ignore[arg-type]
        return _("The customer was told.")

    @button(gettext_lazy("Recalculate"), shown=lambda row: row.status in {Status.REQUESTED, Status.FAILED})
    def recalculate(self, request: HttpRequest, fapiao: Fapiao) -> str:
        now = verbs.recalculate_fapiao(fapiao=fapiao, actor=request.user, at=clock.now())  # type: ignore[arg-type]
        return _("%(fapiao)s is over %(amount)s now.") % {
            "fapiao": now,
            "amount": format_minor(now.total_minor, now.currency),
        }

    @button(gettext_lazy("Begin a red flush"), form=RedForm, danger=True, shown=lambda row: row.status == Status.ISSUED)
    def open_red(self, request: HttpRequest, fapiao: Fapiao, *, reason: str, note: str) -> str:
        verbs.open_red_flush(fapiao=fapiao, reason=reason, note=note, actor=request.user, at=clock.now())  # type: ignore[arg-type]
        return _("The red flush is under way.")

    @button(gettext_lazy("Red-flushed"), form=FlushedForm, shown=lambda row: row.status == Status.RED_PENDING)
    def finish_red(self, request: HttpRequest, fapiao: Fapiao, *, red_number: str, flushed_on: date) -> str:
        verbs.finish_red_flush(
            fapiao=fapiao, red_number=red_number, flushed_on=flushed_on, actor=request.user, at=clock.now()
        )  # type: ignore[arg-type]
        return _("Recorded; the customer was told.")

    @button(
        gettext_lazy("Cancel the red flush"),
        explain=gettext_lazy("The buyer or the bureau did not confirm it; the fapiao stands as before."),
        shown=lambda row: row.status == Status.RED_PENDING,
    )
    def cancel_red(self, request: HttpRequest, fapiao: Fapiao) -> str:
        verbs.cancel_red_flush(fapiao=fapiao, actor=request.user, at=clock.now())  # type: ignore[arg-type]
        return _("The fapiao stands as before.")

    # --- the batch file ---

    @admin.action(description=gettext_lazy("Export for the tax bureau"), permissions=["act"])
    def export_batch(self, request: HttpRequest, queryset: QuerySet) -> HttpResponse | None:
        """The file, or every row that the bureau would refuse, and then no file."""
        chosen = list(queryset.order_by().values_list("pk", flat=True))
        try:
            content = verbs.export_fapiao(fapiao_ids=chosen, actor=request.user, at=clock.now())  # type: ignore[arg-type]
        except ExportRefused as refusal:
            self.message_user(request, str(refusal), "ERROR")
            for refused in refusal.refused:
                self.message_user(request, str(refused), "ERROR")
            return None
        except (verbs.FapiaoRefused, NothingToInvoice) as refusal:
            self.message_user(request, str(refusal), "ERROR")
            return None
        name = f"fapiao-{VERSION}-{timezone.localtime(clock.now()):%Y%m%d-%H%M%S}.xlsx"
        return HttpResponse(
            content, content_type=XLSX, headers={"Content-Disposition": f'attachment; filename="{name}"'}
        )


@admin.register(TaxProfile)
class TaxProfileDesk(Desk):
    """Entered by customers. Finance confirms who sits abroad, once the proof was seen."""

    buttons = ("confirm_abroad",)
    refusals = (verbs.ExportNotConfirmed,)
    select = ("organization", "updated_by", "export_confirmed_by")
    list_display = ("title", "customer", "kind", "tax_id", "country", "updated", "confirmed")
    list_filter = ("kind", ("export_confirmed_at", admin.EmptyFieldListFilter))
    search_fields = ("title", "tax_id", "organization__name")
    ordering = ("-updated_at", "-pk")
    fieldsets = (
        (None, {"fields": (("customer", "kind"), "title", ("tax_id", "country"))}),
        (gettext_lazy("Details"), {"fields": (("address", "phone"), ("bank", "bank_account"), "email")}),
        (gettext_lazy("Abroad"), {"fields": (("confirmed", "export_confirmed_by"),)}),
        (gettext_lazy("Changed"), {"fields": (("updated", "updated_by"),)}),
    )

    customer = show.link("organization", gettext_lazy("organization"))
    updated = show.instant("updated_at", gettext_lazy("updated at"))
    confirmed = show.instant("export_confirmed_at", gettext_lazy("export confirmed at"))

    @button(
        gettext_lazy("Confirm the seat abroad"),
        explain=gettext_lazy("You have seen a proof of registration outside mainland China."),
        shown=lambda row: row.kind == TaxProfile.Kind.FOREIGN and row.export_confirmed_at is None,
    )
    def confirm_abroad(self, request: HttpRequest, profile: TaxProfile) -> str:
        verbs.confirm_export(profile=profile, actor=request.user, at=clock.now())  # type: ignore[arg-type]
        return _("Confirmed.")
