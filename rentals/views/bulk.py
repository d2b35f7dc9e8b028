"""Stopping several machines: what will happen to each is shown first, then each is stopped as if alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.models import User
from marketplace.lib import clock
from marketplace.lib.nudge import nudge
from rentals import actions, metering, queries, tasks
from rentals.models import Rental
from rentals.presentation import per_hour

Status, Meter = Rental.Status, Rental.Meter
MOST = 100

ALREADY = gettext_lazy("It is stopped or stopping already.")
NOT_READY = gettext_lazy("It is not ready yet; it can be stopped once it runs.")
WAITS = gettext_lazy("Our staff looks after it; it can be terminated, but not stopped.")
GOES = gettext_lazy("It is being deleted or is gone.")
KEPT_OFF = gettext_lazy("It is suspended: it is off already.")
WHY_NOT: dict[str, Promise] = {
    Status.STOPPING: ALREADY,
    Status.STOPPED: ALREADY,
    Status.SUSPENDED: KEPT_OFF,
    Status.DESTROYING: GOES,
    Status.GONE: GOES,
    Status.FAILED: GOES,
    Status.LOST: WAITS,
    Status.NEEDS_OPERATOR: WAITS,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What stopping one machine ends and what it leaves, in major units an hour."""

    rental: Rental
    saves: Decimal
    keeps: Decimal

    @property
    def hourly(self) -> bool:
        return self.rental.subscription.is_hourly


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one machine; `refusal` says why it was not stopped."""

    rental: Rental
    refusal: actions.RentalRefused | None = None


class BulkStop(OrganizationRequired, View):
    """POST of the chosen `rental` keys asks; the same with `confirmed` stops. Both can be repeated without harm."""

    verb = "operate"
    http_method_names = ("post", "options")

    def post(self, request: HttpRequest) -> HttpResponse:
        chosen = list(dict.fromkeys(request.POST.getlist("rental")))
        if not chosen:
            return self._refused(_("Choose the machines to stop in the list first. Nothing has changed."))
        if len(chosen) > MOST:
            text = _("At most %(most)d machines can be stopped together. Nothing has changed.")
            return self._refused(text % {"most": MOST})
        rentals = self._rentals(chosen)
        if "confirmed" not in request.POST:
            return self._ask(rentals)
        outcomes = [_stop(rental, request.user, clock.now()) for rental in rentals]
        return self._tell(outcomes)

    def _rentals(self, chosen: Sequence[str]) -> list[Rental]:
        """All of them, in the order of the list; 404 where one is unknown or another organization's."""
        try:
            keys = {UUID(key) for key in chosen}
        except ValueError:
            raise Http404 from None
        rentals = list(queries.of_organization(self.organization).filter(key__in=keys))
        if len(rentals) < len(keys):
            raise Http404
        return rentals

    def _refused(self, problem: str) -> HttpResponse:
        return render(self.request, "rentals/bulk_stop.html", {"problem": problem}, status=422)

    def _ask(self, rentals: Sequence[Rental]) -> HttpResponse:
        plans = [_plan(rental) for rental in rentals if rental.status == Status.RUNNING]
        currency = self.organization.currency
        context: dict[str, Any] = {
            "rentals": rentals,
            "plans": [(plan, per_hour(plan.saves, currency), per_hour(plan.keeps, currency)) for plan in plans],
            "others": [(one, WHY_NOT.get(one.status, NOT_READY)) for one in rentals if one.status != Status.RUNNING],
            "saves": per_hour(sum((plan.saves for plan in plans), Decimal(0)), currency),
            "keeps": per_hour(sum((plan.keeps for plan in plans), Decimal(0)), currency),
            "any_hourly": any(plan.hourly for plan in plans),
            "any_term": any(not plan.hourly for plan in plans),
            "retention_days": settings.STOPPED_RETENTION_DAYS,
        }
        return render(self.request, "rentals/bulk_stop.html", context)

    def _tell(self, outcomes: Sequence[Outcome]) -> HttpResponse:
        refused = [outcome for outcome in outcomes if outcome.refusal]
        context = {"outcomes": outcomes, "done": len(outcomes) - len(refused), "refused": len(refused)}
        return render(self.request, "rentals/bulk_stopped.html", context, status=200 if not refused else 409)


def _plan(rental: Rental) -> Plan:
    if not rental.subscription.is_hourly:
        return Plan(rental, Decimal(0), Decimal(0))
    quantity, rate = metering.terms_of(rental.subscription, Meter.DISK_GB_HOUR)
    keeps = quantity * rate
    return Plan(rental, metering.burn(rental) - keeps, keeps)


def _stop(rental: Rental, actor: User, at: datetime) -> Outcome:
    """Each in a transaction of its own: one that is refused holds up no other."""
    try:
        stopped = actions.request_stop(rental_id=rental.pk, actor=actor, at=at)
    except actions.RentalRefused as refusal:
        return Outcome(rental, refusal)
    nudge(tasks.step, rental_id=rental.pk)
    return Outcome(stopped)
