"""The verbs of the status page: an incident from its opening to its end, and maintenance that is called off."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from catalog.models import Region
from marketplace.lib.refusals import Refusal
from trust.models import Incident, IncidentUpdate, Maintenance, Page


class IncidentRefused(Refusal):
    """An incident cannot become that."""


class MaintenanceRefused(Refusal):
    """Maintenance cannot be called off."""


@transaction.atomic
def open_incident(
    *,
    regions: Collection[Region],
    title_zh: str,
    title_en: str,
    impact: str,
    started_at: datetime,
    body_zh: str,
    body_en: str,
    actor: User | None,
    at: datetime,
) -> Incident:
    """Tell the public that something is wrong in these regions since `started_at`; its first update stands with it.

    Raises IncidentRefused for no region, a missing language or a start that is still to come.
    """
    if not regions:
        raise IncidentRefused("no_region", _("Choose at least one region."), field="regions")
    if started_at > at:
        raise IncidentRefused("future", _("An incident cannot start in the future."), field="started_at")
    _demand_both(title_zh=title_zh, title_en=title_en)
    incident = Incident.objects.create(
        title_zh=title_zh.strip(),
        title_en=title_en.strip(),
        impact=Incident.Impact(impact),
        status=Incident.Status.INVESTIGATING,
        started_at=started_at,
    )
    incident.regions.set(regions)
    _tell(incident, body_zh=body_zh, body_en=body_en, actor=actor, at=at)
    return incident


def update_incident(
    *, incident_id: int, status: str, body_zh: str, body_en: str, actor: User | None, at: datetime
) -> Incident:
    """Tell what is known now. The status may stay; to end an incident is `resolve_incident`'s.

    Raises IncidentRefused once it is resolved or where a language is missing.
    """
    wanted = Incident.Status(status)
    if wanted == Incident.Status.RESOLVED:
        raise IncidentRefused("needs_end", _("An incident is resolved with the moment it ended."), field="status")
    return _move(incident_id, wanted, ended_at=None, body_zh=body_zh, body_en=body_en, actor=actor, at=at)


def resolve_incident(
    *, incident_id: int, ended_at: datetime, body_zh: str, body_en: str, actor: User | None, at: datetime
) -> Incident:
    """End an incident at `ended_at`, which is after its start and not in the future; that closes its interval.

    Raises IncidentRefused otherwise, and for one that is resolved already.
    """
    if ended_at > at:
        raise IncidentRefused("future", _("An incident cannot end in the future."), field="ended_at")
    return _move(
        incident_id,
        Incident.Status.RESOLVED,
        ended_at=ended_at,
        body_zh=body_zh,
        body_en=body_en,
        actor=actor,
        at=at,
    )


@transaction.atomic
def cancel_maintenance(*, maintenance_id: int, at: datetime) -> Maintenance:
    """Call off work that has not ended. It stays on the page, marked, until its window is over."""
    maintenance = Maintenance.objects.select_for_update().get(pk=maintenance_id)
    if maintenance.cancelled_at is not None:
        raise MaintenanceRefused("cancelled", _("This maintenance is called off already."))
    if maintenance.is_over(at):
        raise MaintenanceRefused("over", _("This maintenance is over."))
    maintenance.cancelled_at = at
    maintenance.save(update_fields=["cancelled_at"])
    return maintenance


def mark_page_changed(*, page_id: int, at: datetime) -> None:
    """A page is as new as its newest block."""
    Page.objects.filter(pk=page_id).update(updated_at=at)


@transaction.atomic
def _move(
    incident_id: int,
    to: Incident.Status,
    *,
    ended_at: datetime | None,
    body_zh: str,
    body_en: str,
    actor: User | None,
    at: datetime,
) -> Incident:
    """The only code that writes Incident.status after its opening; every move has its update."""
    incident = Incident.objects.select_for_update(no_key=True).get(pk=incident_id)
    if incident.status not in Incident.NEXT:
        raise IncidentRefused("resolved", _("This incident is resolved. Open a new one if the trouble is back."))
    if ended_at is not None and ended_at <= incident.started_at:
        raise IncidentRefused("before_start", _("The end has to be after the start."), field="ended_at")
    incident.status = to
    incident.ended_at = ended_at
    incident.save(update_fields=["status", "ended_at"])
    _tell(incident, body_zh=body_zh, body_en=body_en, actor=actor, at=at)
    return incident


def _tell(incident: Incident, *, body_zh: str, body_en: str, actor: User | None, at: datetime) -> None:
    _demand_both(body_zh=body_zh, body_en=body_en)
    IncidentUpdate.objects.create(
        incident=incident,
        status=incident.status,
        body_zh=body_zh.strip(),
        body_en=body_en.strip(),
        actor=actor,
        at=at,
    )


def _demand_both(**texts: str) -> None:
    for field, text in texts.items():
        if not text.strip():
            raise IncidentRefused("language_missing", _("Every text is needed in Chinese and in English."), field=field)
