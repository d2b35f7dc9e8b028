"""What the customer is told of a rental, in the transaction that makes it so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from accounts.models import Notification
from accounts.notices import notify
from marketplace.lib import clock
from rentals.models import Rental
from rentals.queries import ending

Status, Kind = Rental.Status, Notification.Kind
# Of a machine that was being made or started; from there a stop means that it did not come up.
COMING_UP = frozenset({Status.STARTING, Status.BOOTING, Status.VERIFYING})
# Days before the end of a term, the last notice first.
TERM_NOTICES = (1, 3, 7)


def tell_of_move(*, rental: Rental, before: str, first_run: bool, at: datetime) -> None:
    """Notices about a move that was just written: ready for the first time, failed, lost, suspended by our staff;
    any other is told nobody.

    A rental fails or is lost each time anew, so those facts carry their instant. Needs the subscription's organization
    loaded; the caller holds the rental's lock.
    """
    if rental.status == Status.RUNNING and first_run:
        _tell(rental, Kind.RENTAL_READY, str(rental.key), {}, at)
    elif rental.status == Status.LOST:
        _tell(rental, Kind.RENTAL_LOST, f"{rental.key}:{at.isoformat()}", {}, at)
    elif rental.status == Status.SUSPENDED and rental.suspension == Rental.Suspension.OPERATOR:
        # Of a balance below zero the organization is told once, not for every machine.
        _tell(rental, Kind.RENTAL_SUSPENDED, f"{rental.key}:{at.isoformat()}", {}, at)
    elif outcome := _failed(rental, before):
        _tell(rental, Kind.RENTAL_FAILED, f"{rental.key}:{at.isoformat()}", {"outcome": outcome}, at)


def _failed(rental: Rental, before: str) -> str:
    """What became of a machine that could not be made or started, as a code of the notice; empty for other moves."""
    if rental.status == Status.FAILED:
        return "gone" if rental.subscription.is_hourly else "operator"
    if rental.status == Status.NEEDS_OPERATOR:
        never_ran = rental.running_at is None
        return "waiting" if never_ran and not rental.subscription.is_hourly else "operator"
    if rental.status == Status.STOPPING and before in COMING_UP:
        return "stopped"
    return ""


def tell_of_ending_terms(*, at: datetime) -> int:
    """Tell of terms that end within 7, 3 and 1 days, once each; how many were told.

    Late is better than never: after a pause the one that fits now is told and those before it are not. Safe to repeat
    and to run in parallel.
    """
    due = _ending(at)
    told = set(
        Notification.objects.filter(kind=Kind.RENTAL_EXPIRING, fact__in=[fact for _id, fact in due]).values_list(
            "fact", flat=True
        )
    )
    return sum(_tell_ending(rental_id=rental_id, at=at) for rental_id, fact in due if fact not in told)


def _ending(at: datetime) -> Sequence[tuple[int, str]]:
    """Rentals whose term ends in `(at, at + 7 days]`, each with the fact that is to be told of now."""
    rentals = ending(at=at, until=at + timedelta(days=max(TERM_NOTICES)))
    return [(rental.pk, _ending_fact(rental, at)) for rental in rentals]


def _days_left(ends_at: datetime, at: datetime) -> int:
    return next(days for days in TERM_NOTICES if ends_at - at <= timedelta(days=days))


def _ending_fact(rental: Rental, at: datetime) -> str:
    """A term that was renewed has another end, and is told of again."""
    ends_at = rental.subscription.ends_at
    if ends_at is None:
        raise ValueError(f"{rental.pk}: no end")
    return f"{rental.key}:{ends_at.date().isoformat()}:{_days_left(ends_at, at)}"


@transaction.atomic
def _tell_ending(*, rental_id: int, at: datetime) -> bool:
    """Read again under the rental's lock: it may have been terminated or renewed since the list was made."""
    rental = (
        Rental.objects.select_for_update(no_key=True, of=("self",))
        .select_related("subscription__organization")
        .get(pk=rental_id)
    )
    ends_at = rental.subscription.ends_at
    if ends_at is None or not at < ends_at <= at + timedelta(days=max(TERM_NOTICES)):
        return False
    if rental.subscription.ended_at is not None or rental.status in {*Rental.OVER, Status.DESTROYING}:
        return False
    figures: dict[str, str | int] = {
        "days": _days_left(ends_at, at),
        "date": clock.read(ends_at - timedelta(seconds=1), rental.subscription.organization.zone),
    }
    return _tell(rental, Kind.RENTAL_EXPIRING, _ending_fact(rental, at), figures, at)


def _tell(rental: Rental, kind: Notification.Kind, fact: str, figures: dict[str, str | int], at: datetime) -> bool:
    return notify(
        organization=rental.subscription.organization,
        kind=kind,
        fact=fact,
        params={"name": rental.name, **figures},
        page="rentals:detail",
        page_args=[str(rental.key)],
        at=at,
    )
