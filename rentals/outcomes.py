"""Writing down what a step found: one transaction, guarded by the claim's token and the status that was asked about.

Locks in the house's order: credit line, order, host and cards, rental. What the guard needs to know is therefore read
again under the rental's lock at the end; a mismatch raises Overtaken and the whole transaction is undone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from accounts.models import CreditLine
from catalog import inventory
from orders import actions as orders
from orders.models import Order
from rentals import metering, rules
from rentals.actions import locked, move_rental
from rentals.drivers.base import MemberState, Observed
from rentals.engines import Call
from rentals.models import Rental, RentalEvent
from rentals.steps import Decision

logger = logging.getLogger(__name__)
Status, Desired, Meter = Rental.Status, Rental.Desired, Rental.Meter


class Overtaken(Exception):
    """The claim is no longer ours, or a wish has moved the rental meanwhile. Nothing was written."""


@transaction.atomic
def write(
    *, rental_id: int, token: UUID, asked_as: str, decision: Decision, calls: Sequence[Call], at: datetime
) -> None:
    """Write the decision and give the claim back. Raises Overtaken when somebody else has moved the rental on."""
    seen = Rental.objects.select_related("subscription", "order_line").get(pk=rental_id)
    prepare, changes = WRITERS.get(decision.to, (_nothing, _stay))
    prepare(seen, at)
    rental = locked(rental_id)
    if rental.lock_token != token or rental.status != asked_as:
        raise Overtaken
    if rental.subscription.ended_at != seen.subscription.ended_at and prepare is _release_if_unpaid:
        raise Overtaken
    if decision.to in {Status.STOPPED, Status.SUSPENDED} and (decision.to == Status.SUSPENDED) != bool(
        rental.suspension
    ):
        # Suspended, or released from it, while the engine was asked.
        raise Overtaken
    # First what was asked of the engine, then what came of it: the timeline is read in this order.
    _write_calls(rental_id, calls, at)
    fields = _common(rental, decision, at) | changes(rental, decision, at)
    if decision.to:
        move_rental(rental=rental, to=decision.to, at=at, outcome=decision.reason, **fields)
    else:
        for name, value in fields.items():
            setattr(rental, name, value)
        rental.save(update_fields=list(fields))
    if decision.to == Status.GONE:
        rental.members.update(state=MemberState.GONE.value)
    elif decision.observed:
        _write_members(rental, decision.observed)
    if decision.to == Status.RUNNING:
        _hand_over(rental, at)
    _alarm(rental, decision)


@transaction.atomic
def drop(*, rental_id: int, token: UUID, calls: Sequence[Call], at: datetime) -> None:
    """Give the claim back without a result; what was called still stands in the timeline."""
    Rental.objects.filter(pk=rental_id, lock_token=token).update(lock_token=None, lock_expires_at=None)
    _write_calls(rental_id, calls, at)


# --- what each arrival means, before the rental's lock --------------------------------------------------------------


def _nothing(seen: Rental, at: datetime) -> None:
    pass


def _lock_order(seen: Rental, at: datetime) -> None:
    # Two units of one order that arrive together must see each other.
    Order.objects.select_for_update(no_key=True).get(pk=seen.order_line.order_id)


def _release_if_unpaid(seen: Rental, at: datetime) -> None:
    """A stopped term keeps its cards; an hourly unit and a term that is over do not."""
    if seen.subscription.is_hourly or seen.subscription.ended_at is not None:
        inventory.release([seen.key], at=at)


def _end(seen: Rental, at: datetime) -> None:
    CreditLine.objects.select_for_update(no_key=True).get(organization_id=seen.organization_id)
    _lock_order(seen, at)
    orders.end_subscription(subscription_id=seen.subscription_id, at=at)
    _mark_active_if_all_ran(seen, _siblings(seen), at)
    inventory.release([seen.key], at=at)


def _fail(seen: Rental, at: datetime) -> None:
    """The order fails with its last unit when none of them ever ran."""
    CreditLine.objects.select_for_update(no_key=True).get(organization_id=seen.organization_id)
    _lock_order(seen, at)
    others = _siblings(seen)
    if not others.exclude(running_at__isnull=True, status__in=Rental.OVER).exists():
        orders.fail_order(order_id=seen.order_line.order_id, at=at)
    else:
        orders.end_subscription(subscription_id=seen.subscription_id, at=at)
        _mark_active_if_all_ran(seen, others, at)
    inventory.release([seen.key], at=at)


def _siblings(rental: Rental) -> QuerySet[Rental]:
    return Rental.objects.filter(order_line__order=rental.order_line.order_id).exclude(pk=rental.pk)


def _mark_active_if_all_ran(rental: Rental, others: QuerySet[Rental], at: datetime) -> None:
    open_ones = others.exclude(status__in=Rental.OVER)
    order = Order.objects.get(pk=rental.order_line.order_id)
    if order.status == Order.Status.PROVISIONING and not open_ones.filter(running_at__isnull=True).exists():
        orders.mark_active(order_id=order.pk, at=at)


# --- what each arrival writes, under the rental's lock --------------------------------------------------------------


def _common(rental: Rental, decision: Decision, at: datetime) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "lock_token": None,
        "lock_expires_at": None,
        "next_step_at": None if decision.wait is None else at + timedelta(seconds=decision.wait),
        "reason": decision.reason,
        "attempts": rental.attempts + 1 if decision.is_error else 0,
        # An engine that does not answer says nothing about the machine, neither that it is there nor that it is not.
        "absences": rental.absences + (1 if decision.absent else 0) if decision.is_error or decision.absent else 0,
    }
    if decision.extends_deadline and rental.deadline_at is not None:
        fields["deadline_at"] = rules.deadline_after(rental.order_line.offer.kind, at)
    if decision.observed:
        fields |= _seen_facts(rental, decision.observed)
    return fields


def _seen_facts(rental: Rental, observed: Observed) -> dict[str, Any]:
    """Where to log in, as the engine says now. The host key is kept from the first time; a later one must match it."""
    facts: dict[str, Any] = {}
    if observed.endpoint:
        endpoint = observed.endpoint
        facts |= {"ssh_host": endpoint.host, "ssh_port": endpoint.port, "ssh_user": endpoint.user}
    if observed.host_key and not rental.host_key:
        facts |= {"host_key": observed.host_key, "host_key_fingerprint": observed.fingerprint}
    return facts


def _stay(rental: Rental, decision: Decision, at: datetime) -> dict[str, Any]:
    return {}


def _running(rental: Rental, decision: Decision, at: datetime) -> dict[str, Any]:
    return {"running_at": rental.running_at or at, "deadline_at": None, "failure": "", "stopped_at": None}


def _stopped(rental: Rental, decision: Decision, at: datetime) -> dict[str, Any]:
    if not rental.meter and rental.subscription.ended_at is None:
        # It was lost meanwhile, and with it its disk's meter.
        metering.open_meter(rental=rental, meter=Meter.DISK_GB_HOUR, at=at)
    return {"stopped_at": at, "desired": Desired.STOPPED, "deadline_at": None, "failure": ""}


def _suspended(rental: Rental, decision: Decision, at: datetime) -> dict[str, Any]:
    # What is desired stays: it says whether the machine is started once the suspension is taken back.
    return _stopped(rental, decision, at) | {"desired": rental.desired}


def _giving_up(rental: Rental, decision: Decision, at: datetime) -> dict[str, Any]:
    return {"failure": decision.reason, "reason": "", "desired": Desired.GONE, "deadline_at": None}


def _falling_back(rental: Rental, decision: Decision, at: datetime) -> dict[str, Any]:
    return {"desired": Desired.STOPPED, "deadline_at": None}


def _lost(rental: Rental, decision: Decision, at: datetime) -> dict[str, Any]:
    metering.close_meter(rental=rental, at=at)
    return {"failure": decision.reason, "reason": "", "deadline_at": None}


def _over(rental: Rental, decision: Decision, at: datetime) -> dict[str, Any]:
    metering.close_meter(rental=rental, at=at)
    return {"ended_at": at, "deadline_at": None}


def _waiting_for_a_person(rental: Rental, decision: Decision, at: datetime) -> dict[str, Any]:
    return {"deadline_at": None}


Prepare = Callable[[Rental, datetime], None]
Changes = Callable[[Rental, Decision, datetime], dict[str, Any]]
WRITERS: dict[str, tuple[Prepare, Changes]] = {
    Status.RUNNING: (_lock_order, _running),
    Status.STOPPED: (_release_if_unpaid, _stopped),
    Status.SUSPENDED: (_release_if_unpaid, _suspended),
    Status.STOPPING: (_nothing, _falling_back),
    Status.DESTROYING: (_nothing, _giving_up),
    Status.LOST: (_nothing, _lost),
    Status.NEEDS_OPERATOR: (_nothing, _waiting_for_a_person),
    Status.GONE: (_end, _over),
    Status.FAILED: (_fail, _over),
}


def _hand_over(rental: Rental, at: datetime) -> None:
    """The machine was logged into and its cards counted: from this instant it is paid for."""
    started_at = metering.whole_second(at)
    orders.start_term(subscription_id=rental.subscription_id, started_at=started_at)
    if rental.subscription.ended_at is None:
        metering.open_meter(rental=rental, meter=Meter.CARD_HOUR, at=started_at)
    _mark_active_if_all_ran(rental, _siblings(rental), at)


def _write_members(rental: Rental, observed: Observed) -> None:
    for member in observed.members:
        rental.members.filter(ordinal=member.ordinal).exclude(state=member.state).update(state=member.state.value)


def _write_calls(rental_id: int, calls: Sequence[Call], at: datetime) -> None:
    RentalEvent.objects.bulk_create(
        RentalEvent(
            rental_id=rental_id,
            kind=RentalEvent.Kind.CALL,
            what=call.what,
            outcome=call.outcome,
            milliseconds=call.milliseconds,
            at=at,
        )
        for call in calls
        if call.is_worth_noting
    )


def _alarm(rental: Rental, decision: Decision) -> None:
    """What a person should look at, said once."""
    if decision.to in {Status.NEEDS_OPERATOR, Status.LOST}:
        logger.error("rental %s is %s: %s", rental.name, decision.to, decision.reason)
    elif decision.is_error and rental.attempts == rules.ATTEMPTS_BEFORE_ALARM:
        logger.error("rental %s stays %s: %s", rental.name, rental.status, decision.reason)
