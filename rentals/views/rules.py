"""The auto-stop rules of one rental as its page shows them, with a form for each kind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.forms import Form

from rentals import auto_stop, metering
from rentals.forms import AUTO_STOP_FORMS
from rentals.models import AutoStopRule, Rental

Kind, Note = AutoStopRule.Kind, AutoStopRule.Note


@dataclass(frozen=True, slots=True)
class Choice:
    """One kind: the rule in force, the last one that is done, and the form that sets another (None: not allowed)."""

    kind: str
    label: str
    rule: AutoStopRule | None
    done: AutoStopRule | None
    form: Form | None


def rules_of(rental: Rental, *, at: datetime, may_operate: bool, refused: Form | None = None) -> dict[str, Any] | None:
    """What the page says about auto-stop; None once the rental is over. Needs `subscription__organization` loaded."""
    if rental.status in {*Rental.OVER, Rental.Status.DESTROYING}:
        return None
    if not rental.subscription.is_hourly:
        return {"is_term": True}
    told = AutoStopRule.objects.filter(rental=rental, note__in=[Note.NONE, Note.FIRED, Note.NOT_RUNNING])
    in_force: dict[str, AutoStopRule] = {}
    done: dict[str, AutoStopRule] = {}
    for rule in told.order_by("pk"):
        (in_force if rule.enabled else done)[rule.kind] = rule
    quantity, rate = metering.terms_of(rental.subscription, Rental.Meter.DISK_GB_HOUR)
    return {
        "choices": [
            Choice(
                kind=kind.value,
                label=str(kind.label),
                rule=in_force.get(kind),
                done=None if kind in in_force else done.get(kind),
                form=_form(kind, rental, in_force.get(kind), refused) if may_operate else None,
            )
            for kind in Kind
        ],
        "cost": auto_stop.cost_so_far([rental], at=at)[rental.pk],
        "disk_hour": quantity * rate,
        "zone": rental.subscription.organization.zone,
    }


def _form(kind: Kind, rental: Rental, rule: AutoStopRule | None, refused: Form | None) -> Form:
    form = AUTO_STOP_FORMS[kind]
    if isinstance(refused, form):
        return refused
    return form(organization=rental.subscription.organization, rule=rule)
