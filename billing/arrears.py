"""Questions about arrears: which are open, and when their next steps are due by the settings."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet

from accounts.models import Organization
from billing.models import Arrears


def open_arrears() -> QuerySet[Arrears]:
    """Everybody's arrears that are not settled."""
    return Arrears.objects.exclude(status=Arrears.Status.CLEARED)


def arrears_of(organization: Organization) -> Arrears | None:
    """The organization's open arrears, with its account."""
    return open_arrears().filter(account__organization=organization).select_related("account__organization").first()


def is_held(arrears: Arrears, at: datetime) -> bool:
    """Whether finance has stopped the ladder for the time being."""
    return arrears.held_until is not None and at < arrears.held_until


def suspends_at(arrears: Arrears) -> datetime:
    """Until when machines by the hour run on."""
    return arrears.opened_at + timedelta(hours=settings.ARREARS_GRACE_HOURS)


def kept_until(arrears: Arrears) -> datetime | None:
    """Until when at least the data of suspended machines is kept; None before they are suspended."""
    if arrears.suspended_at is None:
        return None
    return arrears.suspended_at + timedelta(days=settings.ARREARS_RETENTION_DAYS)


def deletes_at(arrears: Arrears) -> datetime:
    """When what was marked is deleted, should the balance still be below zero then."""
    if arrears.releasing_at is None:
        raise ValueError(f"{arrears.pk}: marked at no time")
    return arrears.releasing_at + timedelta(minutes=settings.ARREARS_RELEASE_MINUTES)
