"""Rules by which a rental stops by itself: set, taken away, and enforced by a sweep.

A rule that is due calls the same `request_stop` as its customer's click, in one transaction with its mark, its line in
the timeline and its notice: killed anywhere, everything or nothing of it stands.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import Notification, User
from accounts.notices import notify
from rentals import auto_stop
from rentals.actions.moving import locked, note
from rentals.actions.refusals import NotNow, RentalRefused
from rentals.actions.wishes import request_stop
from rentals.models import AutoStopRule, Rental, RentalEvent

logger = logging.getLogger(__name__)
Status, Kind, Note = Rental.Status, AutoStopRule.Kind, AutoStopRule.Note
ENDED = frozenset({*Rental.OVER, Status.DESTROYING})


class TermKeepsPrice(RentalRefused):
    code = "term_keeps_price"
    message = _(
        "This machine is paid for its term: stopped, it keeps its cards and its price, so a rule saves nothing."
    )


class BadRule(RentalRefused):
    """A figure that no rule can have; `field` names it."""

    code = "bad_rule"


# --- what people do --------------------------------------------------------------------------------------------------


@transaction.atomic
def set_auto_stop(
    *,
    rental_id: int,
    kind: str,
    actor: User | None,
    at: datetime,
    minutes: int | None = None,
    threshold_percent: int | None = None,
    stop_at: datetime | None = None,
    amount_minor: int | None = None,
) -> AutoStopRule:
    """Put a rule in force; one of the same kind is replaced. In any state before the end: a rule set before the start
    is honoured afterwards. Setting the same again changes nothing.

    idle: `minutes` with every card below `threshold_percent`. at_time: at `stop_at`. at_spend: once the rental has cost
    `amount_minor` minor units of its currency. Raises TermKeepsPrice, NotNow or BadRule.
    """
    rental = locked(rental_id)
    if rental.status in ENDED:
        raise NotNow(rental)
    if not rental.subscription.is_hourly:
        raise TermKeepsPrice
    if kind == Kind.IDLE:
        wanted = _idle(minutes, threshold_percent)
    elif kind == Kind.AT_TIME:
        wanted = _at_time(stop_at, at)
    elif kind == Kind.AT_SPEND:
        wanted = _at_spend(rental, amount_minor, at)
    else:
        raise BadRule(message=_("There is no such rule."), field="kind")
    present = _in_force(rental_id, kind)
    if present is not None and all(getattr(present, name) == value for name, value in wanted.items()):
        return present
    if present is not None:
        _switch_off(present, Note.REPLACED)
    rule = AutoStopRule.objects.create(rental=rental, kind=kind, created_by=actor, created_at=at, **wanted)
    note(
        rental=rental,
        kind=RentalEvent.Kind.WISH,
        what=f"auto_stop_set_{kind}",
        at=at,
        actor=actor,
        details=details(rule),
    )
    return rule


@transaction.atomic
def remove_auto_stop(*, rental_id: int, kind: str, actor: User | None, at: datetime) -> None:
    """Take the rule of this kind away. Where there is none, nothing changes."""
    rental = locked(rental_id)
    rule = _in_force(rental_id, kind)
    if rule is None:
        return
    _switch_off(rule, Note.REMOVED)
    what = f"auto_stop_removed_{kind}"
    note(rental=rental, kind=RentalEvent.Kind.WISH, what=what, at=at, actor=actor, details=details(rule))


def _idle(minutes: int | None, percent: int | None) -> dict[str, Any]:
    if minutes is None or not 1 <= minutes <= auto_stop.MOST_MINUTES:
        raise BadRule(message=_("From 1 minute to 1,440 (a day)."), field="minutes")
    if percent is None or not 1 <= percent <= 100:
        raise BadRule(message=_("From 1 to 100 percent."), field="threshold_percent")
    return {"minutes": minutes, "threshold_percent": percent}


def _at_time(stop_at: datetime | None, at: datetime) -> dict[str, Any]:
    if stop_at is None or stop_at <= at:
        raise BadRule(message=_("Choose a time to come."), field="stop_at")
    return {"stop_at": stop_at}


def _at_spend(rental: Rental, amount_minor: int | None, at: datetime) -> dict[str, Any]:
    cost = auto_stop.cost_so_far([rental], at=at)[rental.pk]
    if amount_minor is None or amount_minor <= cost.minor:
        words = _("It has cost %(cost)s already. Choose a higher amount.") % {"cost": cost}
        raise BadRule(message=words, field="amount")
    return {"amount_minor": amount_minor, "currency": cost.currency}


def _in_force(rental_id: int, kind: str) -> AutoStopRule | None:
    return AutoStopRule.objects.select_for_update().filter(rental=rental_id, kind=kind, enabled=True).first()


def _switch_off(rule: AutoStopRule, why: str) -> None:
    rule.enabled, rule.note = False, why
    rule.save(update_fields=["enabled", "note", "fired_at"])


def details(rule: AutoStopRule) -> dict[str, Any]:
    """The rule's figures for the timeline."""
    if rule.kind == Kind.IDLE:
        return {"minutes": rule.minutes, "percent": rule.threshold_percent}
    if rule.kind == Kind.AT_TIME and rule.stop_at is not None:
        return {"at": rule.stop_at.isoformat()}
    return {"amount_minor": rule.amount_minor, "currency": rule.currency}


# --- what the sweep does ---------------------------------------------------------------------------------------------


def enforce_auto_stop(*, at: datetime) -> list[int]:
    """Stop every rental whose rule is due; ids of the rentals that were stopped.

    Safe to repeat, in parallel and after being killed: each rule fires once, a transaction of its own. One that cannot
    be enforced holds up no other and is tried again; its organization is told.
    """
    stopped = []
    for rule_id in auto_stop.due(at=at):
        try:
            stopped += fire(rule_id=rule_id, at=at)
        except Exception:
            logger.exception("auto-stop rule %s cannot be enforced", rule_id)
            _tell_of_failure(rule_id, at)
    return stopped


@transaction.atomic
def fire(*, rule_id: int, at: datetime) -> list[int]:
    """The rental's id if this very call stopped it by this rule, else nothing.

    A rental that is still coming up (or was lost) is waited for. One that was stopped already when its time came is
    left alone, and the rule is done. Everything is looked at again under the rental's lock.
    """
    rental = locked(AutoStopRule.objects.values_list("rental_id", flat=True).get(pk=rule_id))
    rule = AutoStopRule.objects.select_for_update().get(pk=rule_id)
    if not rule.enabled:
        return []
    if rental.status in ENDED:
        _switch_off(rule, Note.OVER)
        return []
    if not auto_stop.is_due(rule, at=at):
        return []
    if rental.status != Status.RUNNING:
        # A suspended machine may run again; the rule is due then.
        stays_off = rental.status in {Status.STOPPING, Status.STOPPED} and not rental.suspension
        if rule.kind == Kind.AT_TIME and stays_off:
            _switch_off(rule, Note.NOT_RUNNING)
        return []
    request_stop(rental_id=rental.pk, actor=None, at=at, why=f"auto_stop_{rule.kind}", details=details(rule))
    rule.fired_at = at
    if rule.kind == Kind.IDLE:
        rule.save(update_fields=["fired_at"])
    else:
        _switch_off(rule, Note.FIRED)
    _tell(rental, rule, Notification.Kind.AUTO_STOPPED, fact=f"rule:{rule.pk}:{at.isoformat()}", at=at)
    return [rental.pk]


def _tell(rental: Rental, rule: AutoStopRule, kind: Notification.Kind, *, fact: str, at: datetime) -> None:
    notify(
        organization=rental.subscription.organization,
        kind=kind,
        fact=fact,
        params={"name": rental.name, "rule": rule.kind},
        page="rentals:detail",
        page_args=[str(rental.key)],
        at=at,
    )


def _tell_of_failure(rule_id: int, at: datetime) -> None:
    """Once a rule: the machine goes on and costs money."""
    try:
        with transaction.atomic():
            rule = AutoStopRule.objects.select_related("rental__subscription__organization").get(pk=rule_id)
            if rule.rental.status == Status.RUNNING:
                _tell(rule.rental, rule, Notification.Kind.AUTO_STOP_FAILED, fact=f"rule:{rule.pk}", at=at)
    except Exception:
        logger.exception("nobody could be told that auto-stop rule %s failed", rule_id)
