"""What only staff may do with a rental."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from accounts.models import User
from rentals.actions.moving import due_now, locked, move_rental, note
from rentals.actions.refusals import NotNow
from rentals.actions.wishes import request_terminate
from rentals.models import Rental, RentalEvent
from rentals.rules import deadline_after

Status = Rental.Status


@transaction.atomic
def retry(*, rental_id: int, actor: User, at: datetime) -> Rental:
    """An operator says: try again. A machine that never ran is made anew as the next generation, its leftovers
    destroyed first; one that ran before is started again, and a changed host key is accepted by this decision.

    Raises NotNow unless the rental waits for an operator.
    """
    rental = locked(rental_id)
    if rental.status != Status.NEEDS_OPERATOR:
        raise NotNow(rental)
    changes = due_now(at) | {"deadline_at": deadline_after(rental.order_line.offer.kind, at), "failure": ""}
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="retry", at=at, actor=actor, outcome=rental.reason)
    if rental.running_at is None:
        move_rental(
            rental=rental,
            to=Status.CREATING,
            at=at,
            actor=actor,
            **changes,
            generation=rental.generation + 1,
            host_key="",
            host_key_fingerprint="",
        )
        return rental
    if rental.reason == "host_key_changed":
        changes |= {"host_key": "", "host_key_fingerprint": ""}
    move_rental(rental=rental, to=Status.STARTING, at=at, actor=actor, **changes)
    return rental


def destroy_by_operator(*, rental_id: int, actor: User, at: datetime) -> Rental:
    """An operator ends a rental that waits for one, or any other. What was paid in advance is finance's to settle."""
    return request_terminate(rental_id=rental_id, actor=actor, at=at, why="destroyed_by_operator")
