"""Where the console begins: what runs, what it costs, how long the credit lasts, what needs attention."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.permissions import can
from billing import queries as billing
from billing.queries import Standing
from marketplace.lib import clock
from rentals import outlook, queries
from rentals.presentation import per_hour
from rentals.queries import Fleet
from rentals.views.activity import recent
from rentals.views.alerts import alerts

RECENT = 8


class Overview(OrganizationRequired, View):
    """The organization at a glance; a new one is led to its first machine."""

    def get(self, request: HttpRequest) -> HttpResponse:
        at, organization = clock.now(), self.organization
        sees_bills = can(self.membership, "bills")
        fleet = queries.fleet(organization)
        standing = billing.standing_of(organization, at=at) if sees_bills else None
        lasts_until = _lasts_until(standing, fleet, at) if standing else None
        lines = recent(organization, sees_bills=sees_bills, limit=RECENT)
        context = {
            "at": at,
            "fleet": fleet,
            "burn": per_hour(fleet.burn, organization.currency),
            "rows": [(one, per_hour(one.burn, organization.currency)) for one in fleet.models],
            "disks_burn": per_hour(fleet.disks.burn, organization.currency),
            "standing": standing,
            "available_minor": _available(standing) if standing else None,
            "lasts_until": lasts_until,
            "lasts_seconds": int((lasts_until - at).total_seconds()) if lasts_until else None,
            "month": self._month(fleet, at) if sees_bills else None,
            "alerts": alerts(organization, at=at, standing=standing, lasts_until=lasts_until),
            "lines": lines,
            "is_new": not lines and not queries.of_organization(organization).exists(),
            "has_key": organization.ssh_keys.exists(),
            "may_order": can(self.membership, "order"),
        }
        return render(request, "rentals/overview.html", context)

    def _month(self, fleet: Fleet, at: datetime) -> dict[str, Any]:
        """What was spent in this calendar month of the organization, and what it comes to if all runs on."""
        organization = self.organization
        start = clock.month_start(at, organization.zone)
        end = clock.next_month_start(at, organization.zone)
        used = billing.used_since_minor(organization=organization, since=start, at=at)
        advance = billing.paid_in_advance_minor(organization=organization, since=start, at=at)
        spent = used + advance
        forecast = outlook.forecast_minor(
            spent_minor=spent, burn=fleet.burn, currency=organization.currency, at=at, until=end
        )
        return {"used": used, "advance": advance, "spent": spent, "forecast": forecast, "end": end}


def _available(standing: Standing) -> int:
    """Credit that running meters may still use; what is kept ready for them is theirs."""
    return 0 if standing.frozen else max(standing.limit_minor - standing.used_minor, 0)


def _lasts_until(standing: Standing, fleet: Fleet, at: datetime) -> datetime | None:
    return outlook.lasts_until(available_minor=_available(standing), burn=fleet.burn, currency=standing.currency, at=at)
