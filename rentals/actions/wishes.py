"""What the customer may wish: stop, start, terminate.

A wish is one transaction that talks to no engine; `rentals.reconcile` closes the distance between it and the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from accounts import budgets
from accounts.models import CreditLine, User
from catalog import inventory
from orders import actions as orders
from rentals import metering
from rentals.actions.moving import due_now, locked, move_rental, note
from rentals.actions.refusals import BudgetSpent, Busy, NoCapacity, NoCredit, NotNow, Suspended, TermOver
from rentals.models import Rental, RentalEvent
from rentals.rules import deadline_after

Status, Desired, Meter = Rental.Status, Rental.Desired, Rental.Meter
BEFORE_RUNNING = frozenset({Status.RESERVED, Status.CREATING, Status.BOOTING, Status.VERIFYING})


@transaction.atomic
def request_stop(
    *,
    rental_id: int,
    actor: User | None,
    at: datetime,
    why: str = "stop",
    details: Mapping[str, Any] | None = None,
) -> Rental:
    """Stop the machine, keep its disk. By the hour the card meter ends and the disk's begins with this request.

    `why` and `details` are what the timeline says: a person's click, or a rule with its figures. Repeating it changes
    nothing. Raises Suspended or NotNow unless it runs.
    """
    rental = locked(rental_id)
    if rental.status in {Status.STOPPING, Status.STOPPED} and rental.desired == Desired.STOPPED:
        return rental
    if rental.suspension:
        raise Suspended(rental)
    if rental.status != Status.RUNNING:
        raise NotNow(rental)
    metering.open_meter(rental=rental, meter=Meter.DISK_GB_HOUR, at=at)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what=why, at=at, actor=actor, details=details)
    move_rental(rental=rental, to=Status.STOPPING, at=at, actor=actor, **due_now(at), desired=Desired.STOPPED)
    return rental


@transaction.atomic
def request_start(*, rental_id: int, actor: User | None, at: datetime) -> Rental:
    """Start a stopped machine on the server that keeps its disk. By the hour its cards are claimed anew.

    The disk's meter runs until the machine was logged into again; then the card meter begins. An hourly unit's
    headroom stayed committed while it was stopped, so none is taken; but a credit line that no longer carries what
    is committed refuses. Repeating it changes nothing. Raises Suspended, NotNow, TermOver, NoCredit, BudgetSpent
    or NoCapacity.
    """
    seen = Rental.objects.select_related("subscription", "organization").get(pk=rental_id)
    if seen.desired == Desired.RUNNING and seen.status in {Status.STARTING, *BEFORE_RUNNING, Status.RUNNING}:
        return seen
    _require_stopped(seen, at)
    cards: dict[int, list[str]] = {}
    if seen.subscription.is_hourly:
        _require_credit(seen.organization_id)
        _require_budget(seen, at)
        # Host and cards are locked before the rental; a parallel start that lost is refused below and rolled back.
        cards = claim_again(seen, at)
    rental = locked(rental_id)
    _require_stopped(rental, at)
    for ordinal, serials in cards.items():
        rental.members.filter(ordinal=ordinal).update(cards=serials)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="start", at=at, actor=actor)
    deadline = deadline_after(rental.order_line.offer.kind, at)
    move_rental(
        rental=rental,
        to=Status.STARTING,
        at=at,
        actor=actor,
        **due_now(at),
        desired=Desired.RUNNING,
        deadline_at=deadline,
    )
    return rental


def _require_stopped(rental: Rental, at: datetime) -> None:
    if rental.suspension:
        raise Suspended(rental)
    if rental.status != Status.STOPPED:
        raise NotNow(rental)
    subscription = rental.subscription
    if subscription.ended_at is not None or (subscription.ends_at is not None and subscription.ends_at <= at):
        raise TermOver


def _require_credit(organization_id: int) -> None:
    line = CreditLine.objects.get(organization_id=organization_id)
    if line.standing != CreditLine.Standing.GOOD or line.available_minor < line.committed_minor:
        raise NoCredit


def _require_budget(rental: Rental, at: datetime) -> None:
    try:
        budgets.require_running_allowed(organization=rental.organization, project_id=rental.project_id, at=at)
    except budgets.BudgetUsedUp as refusal:
        raise BudgetSpent(message=refusal.message) from None


def claim_again(rental: Rental, at: datetime) -> dict[int, list[str]]:
    """Cards on the members' own hosts, by ordinal; a disk does not travel."""
    cards = {}
    # In the order in which hosts are locked everywhere: the first stays locked while the next is waited for.
    for member in rental.members.order_by("host_id"):
        try:
            placed = inventory.claim(
                pool_id=rental.pool_id,
                cards_per_unit=len(member.cards),
                holders=[rental.key],
                at=at,
                host_id=member.host_id,
            )
        except inventory.PoolBusy:
            raise Busy from None
        except inventory.NotEnoughCards:
            raise NoCapacity from None
        cards[member.ordinal] = list(placed[0].serials)
    return cards


@transaction.atomic
def request_terminate(*, rental_id: int, actor: User | None, at: datetime, why: str = "terminate") -> Rental:
    """Delete the machine and its disk, from any state. Meters and the subscription end with this request.

    The cards stay taken until the engine said that the machine is gone. Repeating it changes nothing.
    Raises NotNow when the rental is over already.
    """
    seen = Rental.objects.get(pk=rental_id)
    if seen.status in Rental.OVER:
        raise NotNow(seen)
    if seen.status != Status.DESTROYING:
        orders.end_subscription(subscription_id=seen.subscription_id, at=at)
    rental = locked(rental_id)
    if rental.status in Rental.OVER:
        raise NotNow(rental)
    if rental.status == Status.DESTROYING:
        return rental
    metering.close_meter(rental=rental, at=at)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what=why, at=at, actor=actor)
    move_rental(
        rental=rental,
        to=Status.DESTROYING,
        at=at,
        actor=actor,
        **due_now(at),
        desired=Desired.GONE,
        deadline_at=None,
        suspension=Rental.Suspension.NONE,
        suspended_at=None,
    )
    return rental
