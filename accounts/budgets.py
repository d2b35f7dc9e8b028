"""Budgets of a month: set by the customer, written down by billing, asked by orders before they spend.

Lock order: a budget's row comes right after the credit line's and before hosts, orders and rentals.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from accounts.models import Budget, Organization, Project, User
from marketplace.lib import clock
from marketplace.lib.money import format_minor
from marketplace.lib.refusals import Refusal, Text

# Percent of a budget that are told of when they are crossed.
LEVELS = (50, 80, 100)
# What stands in an eight-byte column, with room for sums.
MOST_MINOR = 10**15
OnReached = Budget.OnReached
STOPS_ORDERS = (OnReached.BLOCK, OnReached.STOP)


class BudgetRefused(Refusal):
    """This budget cannot be; nothing has changed."""

    code = "bad_budget"


class BudgetUsedUp(Refusal):
    """A budget of the month has no room for this; nothing was ordered or started."""

    code = "budget_used_up"
    next_step = _("Raise the budget, wait for the next month, or choose another project.")

    def __init__(self, budget: Budget, message: Text) -> None:
        super().__init__(message=message)
        self.budget = budget


def month_of(organization: Organization, at: datetime) -> date:
    """The first day of the local month of `at`."""
    return clock.local_date(clock.month_start(at, organization.zone), organization.zone)


# --- what people do --------------------------------------------------------------------------------------------------
def set_budget(
    *,
    organization: Organization,
    project: Project | None,
    amount_minor: int,
    on_reached: str,
    actor: User | None,
    at: datetime,
) -> Budget:
    """A new budget for the organization or, with `project`, for one of its projects; each has at most one.

    What was spent is written down by the next sweep. Raises BudgetRefused.
    """
    _check(amount_minor, on_reached)
    if project is not None and project.organization_id != organization.pk:
        raise BudgetRefused(message=_("Choose a project of your organization."), field="project")
    try:
        with transaction.atomic():
            return Budget.objects.create(
                organization=organization,
                project=project,
                amount_minor=amount_minor,
                on_reached=on_reached,
                created_by=actor,
                created_at=at,
            )
    except IntegrityError:
        words = _("There is a budget for this already. Change that one.")
        raise BudgetRefused("budget_exists", words, field="project") from None


@transaction.atomic
def change_budget(*, budget_id: int, amount_minor: int, on_reached: str) -> Budget:
    """Another amount or another consequence, from now on. Raises BudgetRefused."""
    _check(amount_minor, on_reached)
    budget = Budget.objects.select_for_update(no_key=True).get(pk=budget_id)
    budget.amount_minor, budget.on_reached = amount_minor, on_reached
    budget.save(update_fields=["amount_minor", "on_reached"])
    return budget


def delete_budget(*, budget_id: int) -> None:
    """Take the budget away; nothing that it stopped is started. Repeating it changes nothing."""
    Budget.objects.filter(pk=budget_id).delete()


def _check(amount_minor: int, on_reached: str) -> None:
    if not 0 < amount_minor <= MOST_MINOR:
        raise BudgetRefused(message=_("Enter an amount above zero."), field="amount")
    if on_reached not in OnReached.values:
        raise BudgetRefused(message=_("Choose what happens when it is used up."), field="on_reached")


# --- what orders ask -------------------------------------------------------------------------------------------------
def spend(*, organization: Organization, project_id: int, amount_minor: int, at: datetime) -> None:
    """Let an order of this project pass that costs `amount_minor` at once (0: it is metered later), or refuse it.

    In the caller's transaction, after the credit line: the budgets stay locked until it ends and hold what it spends,
    so that two orders cannot both take the last of one. Raises BudgetUsedUp.
    """
    month = month_of(organization, at)
    budgets = list(
        _of(organization.pk, project_id, STOPS_ORDERS).select_for_update(no_key=True, of=("self",)).order_by("pk")
    )
    for budget in budgets:
        spent = budget.spent_in(month)
        if spent >= budget.amount_minor:
            raise used_up(budget, organization, spent)
        if spent + amount_minor > budget.amount_minor:
            raise BudgetUsedUp(budget, _too_much(budget, organization, spent, amount_minor))
    if amount_minor:
        for budget in budgets:
            budget.spent_minor, budget.month = budget.spent_in(month) + amount_minor, month
            budget.save(update_fields=["spent_minor", "month"])


def require_running_allowed(*, organization: Organization, project_id: int, at: datetime) -> None:
    """Refuse to start a machine of a project whose budget stops machines and is used up. Raises BudgetUsedUp."""
    month = month_of(organization, at)
    for budget in _of(organization.pk, project_id, (OnReached.STOP,)):
        if budget.spent_in(month) >= budget.amount_minor:
            raise used_up(budget, organization, budget.spent_in(month))


def _of(organization_id: int, project_id: int, kinds: Sequence[str]) -> QuerySet[Budget]:
    scope = Q(project__isnull=True) | Q(project=project_id)
    return Budget.objects.filter(scope, organization=organization_id, on_reached__in=kinds).select_related(
        "project", "organization"
    )


def used_up(budget: Budget, organization: Organization, spent_minor: int) -> BudgetUsedUp:
    words = _("This month's budget of “%(name)s” is used up: %(spent)s of %(amount)s was spent.")
    return BudgetUsedUp(
        budget,
        words
        % {
            "name": str(budget),
            "spent": format_minor(spent_minor, organization.currency),
            "amount": format_minor(budget.amount_minor, organization.currency),
        },
    )


def _too_much(budget: Budget, organization: Organization, spent_minor: int, amount_minor: int) -> Text:
    words = _("This costs %(cost)s; %(left)s is left of this month's budget of “%(name)s”.")
    return words % {
        "name": str(budget),
        "cost": format_minor(amount_minor, organization.currency),
        "left": format_minor(budget.amount_minor - spent_minor, organization.currency),
    }
