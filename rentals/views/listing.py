"""The list of an organization's rentals."""

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.generic import View

from accounts.access import OrganizationRequired
from marketplace.lib import clock
from rentals import metering, queries
from rentals.keeping import kept_until
from rentals.models import Rental
from rentals.presentation import last_second, total

PAGE = 20


class RentalList(OrganizationRequired, View):
    """Every rental of the organization, what it costs now and what it has cost."""

    def get(self, request: HttpRequest) -> HttpResponse:
        at = clock.now()
        page = Paginator(queries.of_organization(self.organization), PAGE).get_page(request.GET.get("page"))
        costs = metering.so_far(rentals=page.object_list, at=at)
        rows = [_row(rental, costs[rental.pk]) for rental in page.object_list]
        context = {"page": page, "rows": rows, "burn": queries.burn_per_hour(self.organization.pk)}
        return render(request, "rentals/list.html", context)


def _row(rental: Rental, usage: list[metering.Usage]) -> dict[str, Any]:
    prepaid = queries.prepaid(rental)
    return {
        "rental": rental,
        "cost_minor": prepaid.minor if prepaid else total(rental, usage).minor,
        "burn": metering.burn(rental) or None,
        "ends_at": last_second(rental),
        "kept_until": kept_until(rental),
        "is_demo": rental.pool.is_demo,
    }
