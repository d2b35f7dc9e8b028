"""Budgets kept up with what is spent: written down where orders look, told at their levels, and enforced."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import F, QuerySet

from accounts.budgets import LEVELS, month_of
from accounts.models import Budget, Notification, Organization
from accounts.notices import notify
from billing.spending import Month, month_spending
from marketplace.lib.money import format_minor
from orders.models import Term
from rentals import actions as rentals
from rentals.models import Rental

logger = logging.getLogger(__name__)
OnReached = Budget.OnReached


def enforce_budgets(*, at: datetime) -> int:
    """Write down what every budget's month has cost and comes to, tell of levels that were crossed, and stop machines
    by the hour where a budget says so; how many machines were stopped.

    Safe to repeat, in parallel and after being killed: an organization, and each machine, is a transaction of its own.
    """
    for organization_id in Budget.objects.order_by("organization").values_list("organization", flat=True).distinct():
        try:
            refresh_budgets(organization_id=organization_id, at=at)
        except Exception:
            logger.exception("budgets of organization %s could not be written down", organization_id)
    return sum(_attempt(budget_id, rental_id, at) for budget_id, rental_id in _to_stop(at))


@transaction.atomic
def refresh_budgets(*, organization_id: int, at: datetime) -> None:
    """The figures of all budgets of one organization. They are locked first, so that an order that was let pass
    meanwhile is in what is counted afterwards."""
    budgets = list(Budget.objects.select_for_update(no_key=True).filter(organization=organization_id).order_by("pk"))
    organization = Organization.objects.get(pk=organization_id)
    projects = dict(organization.projects.values_list("pk", "name"))
    spending = month_spending(organization, at=at)
    for budget in budgets:
        _write(budget, spending, organization, at)
        name = projects[budget.project_id] if budget.project_id else organization.name
        _tell(budget, name, organization, at)


def _write(budget: Budget, spending: Month, organization: Organization, at: datetime) -> None:
    part = spending.of(budget.project_id)
    budget.month, budget.refreshed_at = month_of(organization, at), at
    budget.spent_minor, budget.forecast_minor = part.spent_minor, spending.forecast_minor(part)
    budget.save(update_fields=["month", "spent_minor", "forecast_minor", "refreshed_at"])


def _tell(budget: Budget, name: str, organization: Organization, at: datetime) -> None:
    """Of the highest level that was crossed: once in a month, and anew for another amount."""
    crossed = [level for level in LEVELS if budget.spent_minor * 100 >= budget.amount_minor * level]
    if not crossed:
        return
    notify(
        organization=organization,
        kind=Notification.Kind.BUDGET_REACHED,
        fact=f"{budget.key}:{budget.month:%Y-%m}:{crossed[-1]}:{budget.amount_minor}",
        params={
            "name": name,
            "spent": format_minor(budget.spent_minor, organization.currency),
            "amount": format_minor(budget.amount_minor, organization.currency),
            "forecast": format_minor(budget.forecast_minor, organization.currency),
            "does": str(budget.on_reached) if crossed[-1] == LEVELS[-1] else OnReached.WARN.value,
        },
        page="accounts:budgets",
        page_args=[],
        at=at,
    )


# --- machines --------------------------------------------------------------------------------------------------------
def _reached() -> QuerySet[Budget]:
    return Budget.objects.filter(on_reached=OnReached.STOP, spent_minor__gte=F("amount_minor"))


def _to_stop(at: datetime) -> Sequence[tuple[int, int]]:
    """(budget, rental): machines by the hour that run though a budget of theirs is used up, also one that came up
    since."""
    found = []
    for budget in _reached().select_related("organization").order_by("pk"):
        if budget.month == month_of(budget.organization, at):
            found += [(budget.pk, rental_id) for rental_id in _running(budget).values_list("pk", flat=True)]
    return found


def _running(budget: Budget) -> QuerySet[Rental]:
    running = Rental.objects.filter(
        organization=budget.organization_id, subscription__term=Term.HOUR, status=Rental.Status.RUNNING
    )
    return (running.filter(project=budget.project_id) if budget.project_id else running).order_by("pk")


def _attempt(budget_id: int, rental_id: int, at: datetime) -> int:
    try:
        return int(_stop(budget_id=budget_id, rental_id=rental_id, at=at))
    except rentals.RentalRefused:
        return 0
    except Exception:
        logger.exception("rental %s could not be stopped by budget %s", rental_id, budget_id)
        return 0


@transaction.atomic
def _stop(*, budget_id: int, rental_id: int, at: datetime) -> bool:
    """The budget is read again under its lock: one that was raised meanwhile stops nothing."""
    if not _reached().select_for_update(no_key=True).filter(pk=budget_id).exists():
        return False
    if Rental.objects.get(pk=rental_id).status != Rental.Status.RUNNING:
        return False
    rentals.request_stop(rental_id=rental_id, actor=None, at=at, why="budget")
    return True
