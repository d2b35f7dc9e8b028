"""The list of an organization's rentals."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.permissions import can
from marketplace.lib import clock
from rentals import metering, queries
from rentals.forms import RentalFilterForm
from rentals.keeping import kept_until
from rentals.models import Rental, Utilisation
from rentals.presentation import last_second, per_hour, ssh_command, total

PAGE = 20


class RentalList(OrganizationRequired, View):
    """Every rental of the organization: what it does, what it has cost, when it ends."""

    def get(self, request: HttpRequest) -> HttpResponse:
        at = clock.now()
        form = RentalFilterForm(request.GET, self.organization)
        wanted = form.wanted()
        found = queries.narrowed(queries.of_organization(self.organization), **wanted)
        page = Paginator(found, PAGE).get_page(request.GET.get("page"))
        rows = _rows(list(page.object_list), at)
        may_operate = can(self.membership, "operate")
        context = {
            "page": page,
            "rows": rows,
            "form": form,
            "is_narrowed": any(wanted.values()) or bool(form.errors),
            "burn": queries.burn_per_hour(self.organization.pk),
            "next_invoice_at": clock.next_month_start(at, self.organization.zone),
            "may_order": can(self.membership, "order"),
            "picks": may_operate and any(row["may_pick"] for row in rows),
        }
        return render(request, "rentals/list.html", context)


def _rows(rentals: list[Rental], at: datetime) -> list[dict[str, Any]]:
    costs = metering.so_far(rentals=rentals, at=at)
    readings = queries.latest_utilisation([rental.pk for rental in rentals], at=at)
    return [_row(rental, costs[rental.pk], readings.get(rental.pk)) for rental in rentals]


def _row(rental: Rental, usage: list[metering.Usage], utilisation: Utilisation | None) -> dict[str, Any]:
    prepaid = queries.prepaid(rental)
    return {
        "rental": rental,
        "cost_minor": prepaid.minor if prepaid else total(rental, usage).minor,
        "burn": per_hour(metering.burn(rental), rental.subscription.currency) if rental.meter else "",
        "ends_at": last_second(rental),
        "kept_until": kept_until(rental),
        "is_demo": rental.pool.is_demo,
        "ssh": ssh_command(rental) if rental.status == Rental.Status.RUNNING else "",
        "reading": _reading(rental, utilisation),
        "may_pick": rental.status not in Rental.OVER,
    }


def _reading(rental: Rental, utilisation: Utilisation | None) -> dict[str, Any]:
    """How busy its cards are, or why nobody knows."""
    if utilisation is not None and utilisation.busy is not None:
        return {"utilisation": utilisation, "value": int(utilisation.busy)}
    return {"why": _("no reading") if rental.status == Rental.Status.RUNNING else _("not running")}
