"""What we say of ourselves and how our regions do: pages made of blocks, incidents with updates, maintenance."""

from datetime import datetime

import pghistory
import pgtrigger
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from accounts.models import User
from catalog.changes import leave_a_change
from catalog.models import Region
from marketplace.lib.spoken import either


def _spoken(field: str) -> property:
    """A text that is kept in both languages, in the reader's."""
    return property(lambda row: either(getattr(row, f"{field}_zh"), getattr(row, f"{field}_en")))


def _filled(*fields: str) -> Q:
    """Every one of these texts is there."""
    return Q(*(~Q(**{field: ""}) for field in fields))


def _both_or_neither(field: str) -> Q:
    """An optional text is there in both languages or in none."""
    return _filled(f"{field}_zh", f"{field}_en") | Q(**{f"{field}_zh": "", f"{field}_en": ""})


@pghistory.track()
class Page(models.Model):
    """A public page whose every word is edited in the admin. Shown with its published blocks, in order."""

    class Slug(models.TextChoices):
        ABOUT = "about", _("About us")
        SLA = "sla", _("Service level")
        SECURITY = "security", _("Security and data locality")

    slug = models.CharField(_("page"), max_length=10, choices=Slug, unique=True)
    title_zh = models.CharField(_("title (Chinese)"), max_length=80)
    title_en = models.CharField(_("title (English)"), max_length=120)
    lead_zh = models.TextField(_("introduction (Chinese)"))
    lead_en = models.TextField(_("introduction (English)"))
    notice_zh = models.TextField(
        _("notice (Chinese)"), blank=True, help_text=_("Stands above the page, for example while it is a template.")
    )
    notice_en = models.TextField(_("notice (English)"), blank=True)
    updated_at = models.DateTimeField(_("updated at"))

    class Meta:
        verbose_name = _("page")
        verbose_name_plural = _("pages")
        ordering = ["slug"]
        triggers = [leave_a_change()]
        constraints = [
            models.CheckConstraint(
                condition=_filled("title_zh", "title_en", "lead_zh", "lead_en"),
                name="page_in_both_languages",
                violation_error_message=_("Every text is needed in Chinese and in English."),
            ),
            models.CheckConstraint(
                condition=_both_or_neither("notice"),
                name="page_notice_in_both_languages",
                violation_error_message=_("The notice is needed in both languages or in none."),
            ),
        ]

    title = _spoken("title")
    lead = _spoken("lead")
    notice = _spoken("notice")

    def __str__(self) -> str:
        return str(self.get_slug_display())


@pghistory.track()
class Block(models.Model):
    """One section of a page: plain text, and where it states a fact, the figure and where it comes from."""

    page = models.ForeignKey(Page, models.PROTECT, related_name="blocks", verbose_name=_("page"))
    # Names a block that came with the software, so that loading again never adds it twice.
    key = models.SlugField(max_length=40, null=True, editable=False)
    position = models.PositiveIntegerField(_("position"), default=100)
    published = models.BooleanField(_("published"), default=True)
    heading_zh = models.CharField(_("heading (Chinese)"), max_length=80)
    heading_en = models.CharField(_("heading (English)"), max_length=120)
    body_zh = models.TextField(
        _("text (Chinese)"), help_text=_("Plain text. An empty line ends a paragraph; lines with “- ” are a list.")
    )
    body_en = models.TextField(_("text (English)"))
    figure_zh = models.CharField(
        _("figure (Chinese)"), max_length=20, blank=True, help_text=_("Shown large among the facts at the top.")
    )
    figure_en = models.CharField(_("figure (English)"), max_length=20, blank=True)
    unit_zh = models.CharField(_("unit (Chinese)"), max_length=20, blank=True)
    unit_en = models.CharField(_("unit (English)"), max_length=20, blank=True)
    label_zh = models.CharField(_("what the figure is (Chinese)"), max_length=40, blank=True)
    label_en = models.CharField(_("what the figure is (English)"), max_length=60, blank=True)
    source_zh = models.CharField(_("source or evidence (Chinese)"), max_length=200, blank=True)
    source_en = models.CharField(_("source or evidence (English)"), max_length=300, blank=True)
    note = models.TextField(
        _("note for ourselves"), blank=True, help_text=_("Never shown on the site: what is to be confirmed, by whom.")
    )

    class Meta:
        verbose_name = _("block")
        verbose_name_plural = _("blocks")
        ordering = ["page", "position", "pk"]
        triggers = [leave_a_change()]
        constraints = [
            models.UniqueConstraint(fields=["page", "key"], name="block_key_once"),
            models.CheckConstraint(
                condition=_filled("heading_zh", "heading_en", "body_zh", "body_en"),
                name="block_in_both_languages",
                violation_error_message=_("Every text is needed in Chinese and in English."),
            ),
            models.CheckConstraint(
                condition=_both_or_neither("figure")
                & _both_or_neither("unit")
                & _both_or_neither("label")
                & _both_or_neither("source"),
                name="block_options_in_both_languages",
                violation_error_message=_("Figure, unit, name and source are needed in both languages or in none."),
            ),
            models.CheckConstraint(
                condition=Q(figure_zh="", label_zh="", unit_zh="") | _filled("figure_zh", "label_zh", "source_zh"),
                name="block_figure_is_named_and_sourced",
                violation_error_message=_("A figure needs its name and its source."),
            ),
        ]

    heading = _spoken("heading")
    body = _spoken("body")
    figure = _spoken("figure")
    unit = _spoken("unit")
    label = _spoken("label")
    source = _spoken("source")

    def __str__(self) -> str:
        return self.heading


@pghistory.track()
class Watch(models.Model):
    """Since when the incidents of a region are recorded. Days before it have no record, which is no good record."""

    region = models.OneToOneField(Region, models.PROTECT, related_name="watch", verbose_name=_("region"))
    since = models.DateField(_("recorded since"))

    class Meta:
        verbose_name = _("region on the status page")
        verbose_name_plural = _("regions on the status page")
        ordering = ["region"]

    def __str__(self) -> str:
        return str(self.region)


INCIDENT_MOVES = {
    "investigating": {"identified", "monitoring", "resolved"},
    "identified": {"investigating", "monitoring", "resolved"},
    "monitoring": {"investigating", "identified", "resolved"},
}


@pghistory.track()
class Incident(models.Model):
    """Something that was wrong in one or more regions over `[started_at, ended_at)`; no end while it lasts.

    It counts with the worst it was over its whole time. A thing that got worse later is a second incident.
    """

    class Impact(models.TextChoices):
        DEGRADED = "degraded", _("Degraded performance")
        PARTIAL = "partial", _("Partial outage")
        OUTAGE = "outage", _("Outage")

    class Status(models.TextChoices):
        INVESTIGATING = "investigating", _("Investigating")
        IDENTIFIED = "identified", _("Cause identified")
        MONITORING = "monitoring", _("Fixed, being watched")
        RESOLVED = "resolved", pgettext_lazy("incident", "Resolved")

    NEXT = INCIDENT_MOVES

    regions = models.ManyToManyField(Region, related_name="incidents", verbose_name=_("regions"))
    title_zh = models.CharField(_("title (Chinese)"), max_length=120)
    title_en = models.CharField(_("title (English)"), max_length=200)
    impact = models.CharField(_("impact"), max_length=10, choices=Impact)
    status = models.CharField(_("status"), max_length=15, choices=Status, editable=False)
    started_at = models.DateTimeField(_("started at"))
    ended_at = models.DateTimeField(_("ended at"), null=True, editable=False)

    class Meta:
        verbose_name = _("incident")
        verbose_name_plural = _("incidents")
        ordering = ["-started_at", "-pk"]
        constraints = [
            models.CheckConstraint(condition=_filled("title_zh", "title_en"), name="incident_in_both_languages"),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gt=F("started_at")), name="incident_ends_after_start"
            ),
            models.CheckConstraint(
                condition=Q(status="resolved", ended_at__isnull=False)
                | (~Q(status="resolved") & Q(ended_at__isnull=True)),
                name="incident_ended_when_resolved",
            ),
        ]
        indexes = [
            models.Index(fields=["status"], condition=~Q(status="resolved"), name="incident_open"),
            models.Index(fields=["ended_at"], name="incident_end"),
        ]
        triggers = [
            pgtrigger.FSM(
                name="status_moves",
                field="status",
                transitions=[(start, end) for start, ends in INCIDENT_MOVES.items() for end in sorted(ends)],
            )
        ]

    title = _spoken("title")

    def __str__(self) -> str:
        return self.title

    @property
    def is_open(self) -> bool:
        return self.status != self.Status.RESOLVED


class IncidentUpdate(models.Model):
    """Append-only: what was told of an incident, when and by whom, and the status it had from then on."""

    incident = models.ForeignKey(Incident, models.PROTECT, related_name="updates", verbose_name=_("incident"))
    status = models.CharField(_("status"), max_length=15, choices=Incident.Status)
    body_zh = models.TextField(_("text (Chinese)"))
    body_en = models.TextField(_("text (English)"))
    actor = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("by"))
    at = models.DateTimeField(_("at"))

    class Meta:
        verbose_name = _("update")
        verbose_name_plural = _("updates")
        ordering = ["-at", "-pk"]
        constraints = [
            models.CheckConstraint(condition=_filled("body_zh", "body_en"), name="update_in_both_languages"),
        ]

    body = _spoken("body")

    def __str__(self) -> str:
        return f"{self.incident} · {self.get_status_display()}"


@pghistory.track()
class Maintenance(models.Model):
    """Work that was announced for the window `[starts_at, ends_at)`. It is no incident and counts in no uptime."""

    regions = models.ManyToManyField(Region, related_name="maintenance", verbose_name=_("regions"))
    title_zh = models.CharField(_("title (Chinese)"), max_length=120)
    title_en = models.CharField(_("title (English)"), max_length=200)
    body_zh = models.TextField(_("text (Chinese)"))
    body_en = models.TextField(_("text (English)"))
    starts_at = models.DateTimeField(_("starts at"))
    ends_at = models.DateTimeField(_("ends at"))
    announced_at = models.DateTimeField(_("announced at"), editable=False)
    cancelled_at = models.DateTimeField(_("cancelled at"), null=True, editable=False)

    class Meta:
        verbose_name = _("maintenance")
        verbose_name_plural = _("planned maintenance")
        ordering = ["-starts_at", "-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("starts_at")),
                name="maintenance_ends_after_start",
                violation_error_message=_("The end has to be after the start."),
            ),
            models.CheckConstraint(
                condition=_filled("title_zh", "title_en", "body_zh", "body_en"), name="maintenance_in_both_languages"
            ),
        ]
        indexes = [models.Index(fields=["ends_at"], name="maintenance_end")]

    title = _spoken("title")
    body = _spoken("body")

    def __str__(self) -> str:
        return self.title

    def is_over(self, at: datetime) -> bool:
        return self.ends_at <= at
