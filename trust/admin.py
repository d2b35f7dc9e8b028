"""The desk for what the public is told: pages and their blocks, incidents, maintenance."""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminTextareaWidget

from catalog.models import Region
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, Rows, button
from marketplace.lib import clock
from trust import actions as verbs
from trust.models import Block, Incident, IncidentUpdate, Maintenance, Page, Watch

IMPACTS = {"degraded": "warning", "partial": "warning", "outage": "danger"}
STATUSES = {"investigating": "danger", "identified": "warning", "monitoring": "info", "resolved": "success"}


# --- pages -----------------------------------------------------------------------------------------------------------
class BlockRows(Rows):
    model = Block
    fields = ("position", "named", "figure_zh", "source_zh", "published")
    ordering = ("position", "pk")
    show_change_link = True

    named = show.plain("heading", gettext_lazy("heading"))


@admin.register(Page)
class PageDesk(Desk):
    """The public pages. Their texts are edited here, their sections as blocks."""

    editable = ("title_zh", "title_en", "lead_zh", "lead_en", "notice_zh", "notice_en")
    fieldsets = (
        (None, {"fields": (("slug", "changed"), ("title_zh", "title_en"), "lead_zh", "lead_en")}),
        (gettext_lazy("Notice"), {"fields": ("notice_zh", "notice_en")}),
        (gettext_lazy("Blocks"), {"fields": ("more",)}),
    )
    inlines = (BlockRows,)
    list_display = ("slug", "title_zh", "title_en", "changed")
    search_fields = ("title_zh", "title_en", "lead_zh", "lead_en")

    changed = show.instant("updated_at", gettext_lazy("updated at"))

    @display(description=gettext_lazy("One more"))
    def more(self, page: Page) -> str:
        address = reverse("admin:trust_block_add", query={"page": page.pk})
        return format_html('<a class="text-link" href="{}">{}</a>', address, _("Add a block to this page"))

    def save_model(self, request: HttpRequest, obj: Page, form: forms.ModelForm, change: bool) -> None:
        obj.updated_at = clock.now()
        super().save_model(request, obj, form, change)


@admin.register(Block)
class BlockDesk(Desk):
    """Sections of the public pages. One that is no longer wanted is taken off the page and kept."""

    addable = True
    editable = (
        "position", "published", "heading_zh", "heading_en", "body_zh", "body_en", "figure_zh", "figure_en", "unit_zh",
        "unit_en", "label_zh", "label_en", "source_zh", "source_en", "note",
    )  # fmt: skip
    select = ("page",)
    fieldsets = (
        (None, {"fields": ("page", ("position", "published"))}),
        (gettext_lazy("Text"), {"fields": (("heading_zh", "heading_en"), "body_zh", "body_en")}),
        (
            gettext_lazy("Figure"),
            {"fields": (("figure_zh", "figure_en"), ("unit_zh", "unit_en"), ("label_zh", "label_en"))},
        ),
        (gettext_lazy("Where it comes from"), {"fields": ("source_zh", "source_en", "note")}),
    )
    list_display = ("heading_zh", "heading_en", "page", "position", "published")
    list_filter = ("page", "published")
    search_fields = ("heading_zh", "heading_en", "body_zh", "body_en", "source_zh", "source_en")

    def save_model(self, request: HttpRequest, obj: Block, form: forms.ModelForm, change: bool) -> None:
        super().save_model(request, obj, form, change)
        verbs.mark_page_changed(page_id=obj.page_id, at=clock.now())


# --- how the regions do ----------------------------------------------------------------------------------------------
@admin.register(Watch)
class WatchDesk(Desk):
    """Since when each region's incidents are recorded; earlier days show as days without a record."""

    addable = True
    editable = ("since",)
    select = ("region",)
    fieldsets = ((None, {"fields": ("region", "since")}),)
    list_display = ("region", "since")
    search_fields = ("region__code", "region__name_zh", "region__name_en")


def _regions() -> forms.ModelMultipleChoiceField:
    return forms.ModelMultipleChoiceField(
        queryset=Region.objects.all(),
        label=gettext_lazy("regions"),
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        error_messages={"required": gettext_lazy("Choose at least one region.")},
    )


class IncidentForm(forms.ModelForm):
    """What can be put right in an incident afterwards: all but its status and its end, which are the buttons'."""

    regions = _regions()

    class Meta:
        model = Incident
        fields = ("regions", "title_zh", "title_en", "impact", "started_at")

    def clean_started_at(self) -> datetime:
        start = self.cleaned_data["started_at"]
        if start > clock.now():
            raise forms.ValidationError(_("An incident cannot start in the future."))
        if self.instance.ended_at is not None and start >= self.instance.ended_at:
            raise forms.ValidationError(_("The start has to be before the end."))
        return start


class OpenIncidentForm(IncidentForm):
    """A new incident with the first that is told of it."""

    body_zh = forms.CharField(label=gettext_lazy("text (Chinese)"), widget=UnfoldAdminTextareaWidget)
    body_en = forms.CharField(label=gettext_lazy("text (English)"), widget=UnfoldAdminTextareaWidget)


class TellForm(inputs.DeskForm):
    status = inputs.choice(
        label=gettext_lazy("status"),
        choices=[choice for choice in Incident.Status.choices if choice[0] != Incident.Status.RESOLVED],
    )
    body_zh = inputs.note(label=gettext_lazy("text (Chinese)"))
    body_en = inputs.note(label=gettext_lazy("text (English)"))

    def __init__(self, *args: Any, obj: Incident, **kwargs: Any) -> None:
        super().__init__(*args, obj=obj, **kwargs)
        self.initial.setdefault("status", obj.status)


class ResolveForm(inputs.DeskForm):
    ended_at = inputs.instant(label=gettext_lazy("Ended at"))
    body_zh = inputs.note(label=gettext_lazy("text (Chinese)"))
    body_en = inputs.note(label=gettext_lazy("text (English)"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial.setdefault("ended_at", timezone.localtime(clock.now()).replace(microsecond=0))


class UpdateRows(Rows):
    model = IncidentUpdate
    fields = ("when", "became", "body_zh", "body_en", "who")
    ordering = ("-at", "-pk")
    select = ("actor",)

    when = show.instant("at", gettext_lazy("When"))
    became = show.badge("status", gettext_lazy("status"), STATUSES)
    who = show.plain("actor", gettext_lazy("By"))


class RegionNames:
    """The regions of a row on one line; the list fetches them for all its rows at once."""

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).prefetch_related("regions")  # type: ignore[misc]

    @display(description=gettext_lazy("regions"))
    def where(self, row: Incident | Maintenance) -> str:
        return ", ".join(region.name for region in row.regions.all()) or show.DASH


@admin.register(Incident)
class IncidentDesk(RegionNames, Desk):
    """What went wrong. The public reads every update; nothing told is taken back."""

    form = IncidentForm
    addable = True
    editable = ("regions", "title_zh", "title_en", "impact", "started_at")
    buttons = ("tell", "resolve")
    refusals = (verbs.IncidentRefused,)
    add_fieldsets = (
        (None, {"fields": ("regions", "title_zh", "title_en", "impact", "started_at")}),
        (gettext_lazy("The first that is told"), {"fields": ("body_zh", "body_en")}),
    )
    fieldsets = ((None, {"fields": (("state", "ended"), "regions", "title_zh", "title_en", "impact", "started_at")}),)
    inlines = (UpdateRows,)
    list_display = ("title_zh", "title_en", "effect", "state", "where", "started", "ended")
    list_filter = ("status", "impact", "regions")
    search_fields = ("title_zh", "title_en")
    date_hierarchy = "started_at"

    state = show.badge("status", gettext_lazy("status"), STATUSES)
    effect = show.badge("impact", gettext_lazy("impact"), IMPACTS)
    started = show.instant("started_at", gettext_lazy("started at"))
    ended = show.instant("ended_at", gettext_lazy("ended at"))

    def get_form(self, request: HttpRequest, obj: Incident | None = None, change: bool = False, **kwargs: Any) -> Any:
        return super().get_form(request, obj, change, **{"form": self.form if obj else OpenIncidentForm} | kwargs)

    def get_inlines(self, request: HttpRequest, obj: Incident | None) -> Any:
        return self.inlines if obj else ()

    # A new incident is opened by its action, so that its first update comes with it.
    def save_form(self, request: HttpRequest, form: forms.ModelForm, change: bool) -> Incident:
        if change:
            return super().save_form(request, form, change)
        return verbs.open_incident(**form.cleaned_data, actor=request.user, at=clock.now())

    def save_model(self, request: HttpRequest, obj: Incident, form: forms.ModelForm, change: bool) -> None:
        if change:
            obj.save(update_fields=["title_zh", "title_en", "impact", "started_at"])

    def save_related(self, request: HttpRequest, form: forms.ModelForm, formsets: Any, change: bool) -> None:
        if change:
            super().save_related(request, form, formsets, change)

    @button(gettext_lazy("Tell what is known now"), form=TellForm, shown=lambda incident: incident.is_open)
    def tell(self, request: HttpRequest, incident: Incident, *, status: str, body_zh: str, body_en: str) -> str:
        verbs.update_incident(
            incident_id=incident.pk,
            status=status,
            body_zh=body_zh,
            body_en=body_en,
            actor=request.user,
            at=clock.now(),
        )
        return _("The update is on the status page.")

    @button(
        gettext_lazy("Resolve"),
        form=ResolveForm,
        explain=gettext_lazy("The incident ends at that moment and cannot be opened again."),
        shown=lambda incident: incident.is_open,
    )
    def resolve(
        self, request: HttpRequest, incident: Incident, *, ended_at: datetime, body_zh: str, body_en: str
    ) -> str:
        verbs.resolve_incident(
            incident_id=incident.pk,
            ended_at=ended_at,
            body_zh=body_zh,
            body_en=body_en,
            actor=request.user,
            at=clock.now(),
        )
        return _("The incident is resolved.")


class MaintenanceForm(forms.ModelForm):
    """Work is announced before it ends."""

    regions = _regions()

    class Meta:
        model = Maintenance
        fields = ("regions", "title_zh", "title_en", "body_zh", "body_en", "starts_at", "ends_at")

    def clean_ends_at(self) -> datetime:
        end = self.cleaned_data["ends_at"]
        if "ends_at" in self.changed_data and end <= clock.now():
            raise forms.ValidationError(_("This window is over already."))
        return end


@admin.register(Maintenance)
class MaintenanceDesk(RegionNames, Desk):
    """Work that is planned. What will not happen is called off and stays to be seen until its window is over."""

    form = MaintenanceForm
    addable = True
    editable = ("regions", "title_zh", "title_en", "body_zh", "body_en", "starts_at", "ends_at")
    buttons = ("call_off",)
    refusals = (verbs.MaintenanceRefused,)
    fieldsets = (
        (None, {"fields": ("regions", "starts_at", "ends_at")}),
        (gettext_lazy("Text"), {"fields": ("title_zh", "title_en", "body_zh", "body_en")}),
        (gettext_lazy("What became of it"), {"fields": (("announced", "cancelled"),)}),
    )
    add_fieldsets = fieldsets[:2]
    list_display = ("title_zh", "title_en", "where", "begins", "ends", "cancelled")
    list_filter = ("regions",)
    search_fields = ("title_zh", "title_en", "body_zh", "body_en")
    date_hierarchy = "starts_at"

    begins = show.instant("starts_at", gettext_lazy("starts at"))
    ends = show.instant("ends_at", gettext_lazy("ends at"))
    announced = show.instant("announced_at", gettext_lazy("announced at"))
    cancelled = show.instant("cancelled_at", gettext_lazy("cancelled at"))

    def save_model(self, request: HttpRequest, obj: Maintenance, form: forms.ModelForm, change: bool) -> None:
        if not change:
            obj.announced_at = clock.now()
        super().save_model(request, obj, form, change)

    @button(
        gettext_lazy("Call off"),
        explain=gettext_lazy("The page shows it as called off until its window is over."),
        shown=lambda work: work.cancelled_at is None and not work.is_over(clock.now()),
        danger=True,
    )
    def call_off(self, request: HttpRequest, work: Maintenance) -> str:
        verbs.cancel_maintenance(maintenance_id=work.pk, at=clock.now())
        return _("The maintenance is called off.")
