"""What each project spends in this month, and the budgets for it; projects are named here too."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts import actions, budgets
from accounts.access import OrganizationRequired
from accounts.forms import BudgetForm, ProjectForm
from accounts.models import Budget, Project
from accounts.permissions import can
from billing.spending import Month, month_spending
from marketplace.lib import clock

LEVELS = budgets.LEVELS


class Budgets(OrganizationRequired, View):
    """The organization and its projects: spent and forecast of this month, the budget and how much of it is used."""

    verb = "bills"

    def get(self, request: HttpRequest) -> HttpResponse:
        at, organization = clock.now(), self.organization
        month = month_spending(organization, at=at)
        set_for = {one.project_id: one for one in organization.budgets.all()}
        projects = list(organization.projects.order_by("-is_default", "name"))
        context = {
            "whole": _row(month, set_for.get(None), None),
            "rows": [_row(month, set_for.get(one.pk), one) for one in projects],
            "month_start": clock.month_start(at, organization.zone),
            "currency": organization.currency,
            "may_edit": can(self.membership, "pay"),
            "may_manage": can(self.membership, "manage"),
        }
        return render(request, "accounts/budgets.html", context)


def _row(month: Month, budget: Budget | None, project: Project | None) -> dict[str, Any]:
    spending = month.of(project.pk if project else None)
    row: dict[str, Any] = {
        "project": project,
        "spending": spending,
        "forecast": month.forecast_minor(spending),
        "budget": budget,
    }
    if budget is not None:
        percent = spending.spent_minor * 100 // budget.amount_minor
        row |= {
            "percent": percent,
            "bar": min(percent, 100),
            "left": max(budget.amount_minor - spending.spent_minor, 0),
            "tone": "bad" if percent >= LEVELS[2] else "warn" if percent >= LEVELS[1] else "good",
            "will_pass": row["forecast"] > budget.amount_minor > spending.spent_minor,
        }
    return row


class BudgetPage(OrganizationRequired, View):
    """A form for one budget."""

    verb = "pay"

    def page(self, form: Form, budget: Budget | None = None, status: int = 200) -> HttpResponse:
        context = {"form": form, "budget": budget, "switched": self.switched}
        return render(self.request, "accounts/budget.html", context, status=status)

    def saved(self, form: BudgetForm, budget: Budget | None = None) -> HttpResponse:
        """Do what the form says; its refusal lands beside the field."""
        if self.switched:
            return self.page(form, budget, status=409)
        if not form.is_valid():
            return self.page(form, budget, status=422)
        try:
            self.act(form.figures(), budget)
        except budgets.BudgetRefused as refusal:
            form.add_error(refusal.field if refusal.field in form.fields else None, str(refusal))
            return self.page(form, budget, status=422)
        messages.success(self.request, _("Budget saved."))
        return redirect("accounts:budgets")

    def act(self, figures: dict[str, Any], budget: Budget | None) -> None:
        if budget is not None:
            budgets.change_budget(
                budget_id=budget.pk, amount_minor=figures["amount_minor"], on_reached=figures["on_reached"]
            )
            return
        budgets.set_budget(organization=self.organization, actor=self.request.user, at=clock.now(), **figures)

    def one(self, key: UUID) -> Budget:
        return get_object_or_404(self.organization.budgets.select_related("project", "organization"), key=key)


class NewBudget(BudgetPage):
    """Set a budget for the organization or, by `?project=`, one of its projects."""

    def get(self, request: HttpRequest) -> HttpResponse:
        initial = {"project": request.GET.get("project", "")}
        return self.page(BudgetForm(organization=self.organization, initial=initial))

    def post(self, request: HttpRequest) -> HttpResponse:
        return self.saved(BudgetForm(request.POST, organization=self.organization))


class ChangeBudget(BudgetPage):
    """Change one budget; what it is for stays."""

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        budget = self.one(key)
        return self.page(BudgetForm(organization=self.organization, budget=budget), budget)

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        budget = self.one(key)
        return self.saved(BudgetForm(request.POST, organization=self.organization, budget=budget), budget)


class DeleteBudget(BudgetPage):
    """Ask, then take one budget away."""

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        return render(request, "accounts/delete_budget.html", {"budget": self.one(key)})

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        budgets.delete_budget(budget_id=self.one(key).pk)
        messages.success(request, _("Budget deleted."))
        return redirect("accounts:budgets")


# --- projects --------------------------------------------------------------------------------------------------------
class ProjectPage(OrganizationRequired, View):
    """A form with the name of one project."""

    verb = "manage"

    def page(self, form: Form, project: Project | None = None, status: int = 200) -> HttpResponse:
        context = {"form": form, "project": project, "switched": self.switched}
        return render(self.request, "accounts/project.html", context, status=status)

    def saved(self, project: Project | None = None) -> HttpResponse:
        form = ProjectForm(self.request.POST)
        if self.switched:
            return self.page(form, project, status=409)
        if not form.is_valid():
            return self.page(form, project, status=422)
        name = form.cleaned_data["name"]
        try:
            if project is None:
                actions.create_project(organization=self.organization, name=name)
            else:
                actions.rename_project(project_id=project.pk, name=name)
        except actions.ProjectRefused as refusal:
            form.add_error("name", str(refusal))
            return self.page(form, project, status=422)
        messages.success(self.request, _("Project saved."))
        return redirect("accounts:budgets" if can(self.membership, "bills") else "accounts:organization")

    def one(self, pk: int) -> Project:
        return get_object_or_404(self.organization.projects, pk=pk)


class NewProject(ProjectPage):
    """Open a project: a cost centre that orders can be placed for."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.page(ProjectForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        return self.saved()


class RenameProject(ProjectPage):
    """Give one project another name; invoices that were issued keep the old one."""

    def get(self, request: HttpRequest, pk: int) -> HttpResponse:
        project = self.one(pk)
        return self.page(ProjectForm(initial={"name": project.name}), project)

    def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        return self.saved(self.one(pk))
