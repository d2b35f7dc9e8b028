"""The first page of billing: where the organization stands."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.models import Organization
from accounts.permissions import can
from billing import queries
from billing.arrears import arrears_of, kept_until, suspends_at
from billing.views.invoices import PAGE_SIZE
from marketplace.lib import clock


class Overview(OrganizationRequired, View):
    """The credit line, the month so far, what is to be paid and what to do next."""

    verb = "bills"

    def get(self, request: HttpRequest) -> HttpResponse:
        at = clock.now()
        standing = queries.standing_of(self.organization, at=at)
        unpaid = list(queries.unpaid_invoices_of(self.organization)[:PAGE_SIZE])
        context = {
            "standing": standing,
            "unpaid": unpaid,
            "overdue": [invoice for invoice in unpaid if invoice.due_at and invoice.due_at < at],
            "month_start": clock.month_start(at, self.organization.zone),
            "month_end": clock.next_month_start(at, self.organization.zone),
            "may_pay": can(self.membership, "pay"),
            "arrears": _arrears(self.organization),
        }
        return render(request, "billing/overview.html", context)


def _arrears(organization: Organization) -> dict[str, Any] | None:
    """How far open arrears have come, and when the next step is due."""
    arrears = arrears_of(organization)
    if arrears is None:
        return None
    return {
        "status": arrears.status,
        "suspends_at": suspends_at(arrears),
        "kept_until": kept_until(arrears),
        "held_until": arrears.held_until,
    }
