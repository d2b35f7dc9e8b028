"""The one writer of a rental's status, and the lock it is written under."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from accounts.models import User
from rentals.actions.telling import tell_of_move
from rentals.models import Rental, RentalEvent


class IllegalMove(Exception):
    """A move that the transition table does not have: a bug or a race, never a customer's mistake."""


def locked(rental_id: int) -> Rental:
    """The rental under its row lock, for the running transaction, with what its meter needs."""
    return (
        Rental.objects.select_for_update(no_key=True, of=("self",))
        .select_related("subscription__organization", "order_line__offer")
        .get(pk=rental_id)
    )


def move_rental(
    *, rental: Rental, to: str, at: datetime, actor: User | None = None, outcome: str = "", **changes: Any
) -> None:
    """Change a rental's status, the only code that does, with the fields, the event and the notice that go with it.

    The caller holds the row's lock (`locked`). Raises IllegalMove where the transition table has no such arrow.
    """
    if to not in Rental.NEXT.get(rental.status, set()):
        raise IllegalMove(f"{rental.name}: {rental.status} → {to}")
    before, first_run = rental.status, rental.running_at is None
    rental.status = to
    for name, value in changes.items():
        setattr(rental, name, value)
    rental.save(update_fields=["status", *changes])
    note(rental=rental, kind=RentalEvent.Kind.STATUS, what=to, at=at, actor=actor, outcome=outcome)
    tell_of_move(rental=rental, before=before, first_run=first_run, at=at)


def note(
    *,
    rental: Rental,
    kind: str,
    what: str,
    at: datetime,
    actor: User | None = None,
    outcome: str = "",
    details: Mapping[str, Any] | None = None,
) -> None:
    """A line in the rental's timeline; `details` are the figures that its words need."""
    RentalEvent.objects.create(
        rental=rental, kind=kind, what=what, outcome=outcome, actor=actor, at=at, details=dict(details or {})
    )


def due_now(at: datetime) -> dict[str, Any]:
    """What every wish resets. A step under way keeps its lock; its result no longer fits and is dropped."""
    return {"next_step_at": at, "attempts": 0, "absences": 0, "reason": ""}
