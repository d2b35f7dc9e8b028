"""Terms that are over, and disks that were kept long enough."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from catalog import inventory
from orders import actions as orders
from rentals import keeping
from rentals.actions.moving import due_now, locked, move_rental, note
from rentals.actions.refusals import NotNow
from rentals.actions.wishes import request_terminate
from rentals.models import Rental, RentalEvent

logger = logging.getLogger(__name__)
Status, Desired = Rental.Status, Rental.Desired
# Off, with the disk there; a term keeps its cards meanwhile.
KEPT = frozenset({Status.STOPPED, Status.SUSPENDED})


def enforce_terms(*, at: datetime) -> int:
    """Stop terms that are over, and release what was kept its days after a stop or an expiry; how many changed.

    Safe to repeat. Each rental is a transaction of its own, so that one that cannot be moved holds up no other.
    """
    changed = 0
    for rental_id in _expired(at):
        changed += _attempt(expire_term, rental_id, at)
    for rental_id in keeping.kept_long_enough(at):
        changed += _attempt(_release, rental_id, at)
    return changed


def _attempt(act: Callable[..., Any], rental_id: int, at: datetime) -> int:
    try:
        act(rental_id=rental_id, at=at)
    except Exception:
        logger.exception("rental %s cannot be moved at the end of its term or keeping", rental_id)
        return 0
    return 1


def _expired(at: datetime) -> Sequence[int]:
    # A machine that was just being started when its term ended is stopped once it runs.
    due = Q(subscription__ended_at__isnull=True) | Q(status=Status.RUNNING)
    return list(
        Rental.objects.filter(due, subscription__ends_at__lte=at)
        .exclude(status__in=[*Rental.OVER, Status.DESTROYING])
        .order_by("pk")
        .values_list("pk", flat=True)
    )


@transaction.atomic
def expire_term(*, rental_id: int, at: datetime) -> None:
    """The prepaid term is over: the subscription ends, the machine stops, its cards go back, its disk is kept."""
    seen = Rental.objects.select_related("subscription").get(pk=rental_id)
    # Read again under its lock: it may have been extended a moment ago.
    if orders.expire_subscription(subscription_id=seen.subscription_id, at=at) is None:
        raise NotNow(seen)
    if seen.status in KEPT:
        inventory.release([seen.key], at=at)
    rental = locked(rental_id)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="term_over", at=at)
    if rental.status == Status.RUNNING:
        move_rental(rental=rental, to=Status.STOPPING, at=at, **due_now(at), desired=Desired.STOPPED)
    elif rental.status in KEPT and seen.status not in KEPT:
        raise NotNow(rental)


def _release(*, rental_id: int, at: datetime) -> None:
    request_terminate(rental_id=rental_id, actor=None, at=at, why="kept_long_enough")
