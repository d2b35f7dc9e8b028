"""What the platform does whatever the customer desires: keep a machine off, with its data, and let it go on again.

A suspension is written beside what is desired, so that taking it back knows whether to start the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from accounts.models import Notification, User
from accounts.notices import notify
from rentals import metering
from rentals.actions.moving import due_now, locked, move_rental, note
from rentals.actions.refusals import NoCapacity, NotNow
from rentals.actions.wishes import claim_again
from rentals.models import Rental, RentalEvent
from rentals.rules import deadline_after

Status, Desired, Meter, Suspension = Rental.Status, Rental.Desired, Rental.Meter, Rental.Suspension
# A machine in another state is suspended once it has arrived in one of these.
SUSPENDABLE = frozenset({Status.RUNNING, Status.STOPPING, Status.STOPPED})
LIFTED: Mapping[str, Any] = {"suspension": Suspension.NONE, "suspended_at": None}


@transaction.atomic
def suspend(*, rental_id: int, reason: str, actor: User | None, at: datetime) -> Rental:
    """Keep the machine off until `resume`; its disk and data stay. `reason` is one of Rental.Suspension.

    By the hour the cards go back and only the disk is billed from `at` on, as after a stop; a term keeps its cards, its
    price and its end. Repeating it changes nothing, except that our staff's decision takes the place of arrears, so
    that a payment does not undo it. Raises NotNow where there is nothing to suspend: not ready yet, lost or over.
    """
    rental = locked(rental_id)
    if rental.suspension in {Suspension.OPERATOR, reason}:
        return rental
    if rental.suspension:
        return _take_over(rental, reason, actor, at)
    if rental.status not in SUSPENDABLE or rental.subscription.ended_at is not None:
        raise NotNow(rental)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what=f"suspend_{reason}", at=at, actor=actor)
    written: dict[str, Any] = {"suspension": reason, "suspended_at": at}
    if rental.status == Status.RUNNING:
        metering.open_meter(rental=rental, meter=Meter.DISK_GB_HOUR, at=at)
        move_rental(rental=rental, to=Status.STOPPING, at=at, actor=actor, **due_now(at), **written)
    elif rental.status == Status.STOPPED:
        move_rental(rental=rental, to=Status.SUSPENDED, at=at, actor=actor, reason="", **written)
    else:
        _write(rental, written)
    return rental


def _take_over(rental: Rental, reason: str, actor: User | None, at: datetime) -> Rental:
    note(rental=rental, kind=RentalEvent.Kind.WISH, what=f"suspend_{reason}", at=at, actor=actor)
    _write(rental, {"suspension": reason})
    return rental


def _write(rental: Rental, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(rental, name, value)
    rental.save(update_fields=list(values))


@transaction.atomic
def resume(*, rental_id: int, actor: User | None, at: datetime) -> Rental:
    """Take the suspension back: a machine that ran is started again, one that was stopped is stopped as before.

    By the hour the cards are claimed anew on the server that keeps the disk; where none is free, or the term is over
    meanwhile, the machine is left stopped with its disk and the customer is told. Nobody asks for credit here: whoever
    resumes has decided. A rental that is not suspended is left as it is. Raises NotNow while it is still being switched
    off, or was lost, and Busy.
    """
    seen = Rental.objects.select_related("subscription").get(pk=rental_id)
    if not seen.suspension:
        return seen
    if seen.status != Status.SUSPENDED:
        raise NotNow(seen)
    starts, cards = _may_start(seen, at), {}
    if starts and seen.subscription.is_hourly:
        try:
            # Host and cards are locked before the rental; a parallel resume that lost is refused below and undone.
            with transaction.atomic():
                cards = claim_again(seen, at)
        except NoCapacity:
            starts = False
    rental = locked(rental_id)
    if rental.status != Status.SUSPENDED or _may_start(rental, at) < starts:
        raise NotNow(rental)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="resume", at=at, actor=actor)
    if starts:
        for ordinal, serials in cards.items():
            rental.members.filter(ordinal=ordinal).update(cards=serials)
        deadline = deadline_after(rental.order_line.offer.kind, at)
        move_rental(
            rental=rental, to=Status.STARTING, at=at, actor=actor, **due_now(at), **LIFTED, deadline_at=deadline
        )
    else:
        outcome = "no_capacity" if _may_start(rental, at) else "stopped"
        # Its days as a stopped machine are counted from now on.
        changes = {**LIFTED, "stopped_at": at, "desired": Desired.STOPPED}
        move_rental(rental=rental, to=Status.STOPPED, at=at, actor=actor, **changes)
        if outcome == "no_capacity":
            _tell_stopped(rental, at)
    return rental


def _may_start(rental: Rental, at: datetime) -> bool:
    """It ran when it was suspended, and what it was rented for is not over."""
    subscription = rental.subscription
    is_over = subscription.ended_at is not None or (subscription.ends_at is not None and subscription.ends_at <= at)
    return rental.desired == Desired.RUNNING and not is_over


def _tell_stopped(rental: Rental, at: datetime) -> None:
    notify(
        organization=rental.subscription.organization,
        kind=Notification.Kind.RENTAL_NOT_RESUMED,
        fact=f"{rental.key}:{at.isoformat()}",
        params={"name": rental.name},
        page="rentals:detail",
        page_args=[str(rental.key)],
        at=at,
    )
