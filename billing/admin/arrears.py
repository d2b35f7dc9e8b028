"""Balances below zero: how far each has come, when the next step is due, and a hold for what was agreed on."""

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display

from billing import actions
from billing.arrears import deletes_at, kept_until, suspends_at
from billing.models import Arrears, ArrearsStep
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, Rows, button
from marketplace.lib import clock
from marketplace.lib.money import format_minor

Status = Arrears.Status
STATES = {
    Status.OPEN: "warning",
    Status.SUSPENDED: "danger",
    Status.RELEASING: "danger",
    Status.RELEASED: "danger",
    Status.CLEARED: "success",
}
STEPS: dict[str, str | Promise] = {str(value): label for value, label in Status.choices}


class HoldForm(inputs.DeskForm):
    days = inputs.integer(
        label=gettext_lazy("Days"), min_value=0, max_value=90, initial=7, help_text=gettext_lazy("Zero ends the hold.")
    )


class StepRows(Rows):
    model = ArrearsStep
    fields = ("when", "what", "balance")
    select = ("arrears__account__organization",)
    per_page = 20
    verbose_name_plural = gettext_lazy("Steps")

    when = show.instant("at", gettext_lazy("When"))

    @display(description=gettext_lazy("step"))
    def what(self, step: ArrearsStep) -> str:
        day = step.step.removeprefix("kept_")
        return str(STEPS.get(step.step, _("Told on day %(day)s") % {"day": day}))

    @display(description=gettext_lazy("balance"))
    def balance(self, step: ArrearsStep) -> str:
        return format_minor(step.balance_minor, step.arrears.account.organization.currency)


@admin.register(Arrears)
class ArrearsDesk(Desk):
    """Prepaid accounts below zero: machines run on for hours, are suspended, kept for days and then deleted."""

    buttons = ("hold",)
    select = ("account__organization",)
    fieldsets = (
        (None, {"fields": (("customer", "state"), ("next_step", "held"))}),
        (gettext_lazy("Dates"), {"fields": (("opened", "suspended"), ("marked", "deleted"), "cleared")}),
    )
    inlines = (StepRows,)
    list_display = ("customer", "state", "opened", "next_step", "held", "cleared")
    list_filter = ("status", "opened_at")
    search_fields = ("account__organization__name",)
    date_hierarchy = "opened_at"
    ordering = ("-opened_at", "-pk")

    customer = show.link("account__organization", gettext_lazy("organization"))
    state = show.badge("status", gettext_lazy("status"), STATES)
    opened = show.instant("opened_at", gettext_lazy("below zero since"))
    suspended = show.instant("suspended_at", gettext_lazy("suspended at"))
    marked = show.instant("releasing_at", gettext_lazy("marked for deletion at"))
    deleted = show.instant("released_at", gettext_lazy("data deleted at"))
    cleared = show.instant("cleared_at", gettext_lazy("settled at"))
    held = show.instant("held_until", gettext_lazy("held until"))

    @display(description=gettext_lazy("next step"))
    def next_step(self, arrears: Arrears) -> str:
        """What happens next and when, unless it is paid or held."""
        due: dict[str, tuple[str, datetime | None]] = {
            Status.OPEN: (_("suspend"), suspends_at(arrears)),
            Status.SUSPENDED: (_("delete"), kept_until(arrears)),
        }
        if arrears.status == Status.RELEASING:
            due[Status.RELEASING] = (_("delete"), deletes_at(arrears))
        what, at = due.get(arrears.status, ("", None))
        return f"{what}: {clock.read(at, arrears.account.organization.zone)}" if at else show.DASH

    @button(
        gettext_lazy("Hold"),
        form=HoldForm,
        explain=gettext_lazy(
            "For so many days nothing is suspended or deleted, whatever the balance. Usage goes on being billed."
        ),
        shown=lambda arrears: arrears.status in {Status.OPEN, Status.SUSPENDED, Status.RELEASING},
    )
    def hold(self, request: HttpRequest, arrears: Arrears, days: int) -> Any:
        actions.hold_arrears(arrears_id=arrears.pk, days=days, at=clock.now())
        return _("Held for %(days)d days.") % {"days": days} if days else _("The hold has ended.")
