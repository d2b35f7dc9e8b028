"""One step of one rental: claim its row, ask the engine outside any transaction, write back if the claim still holds.

The database row is the truth. A worker may die anywhere: the claim expires, the next step looks at the engine first
and adopts what it finds. Two workers on one rental: the second finds the row claimed, and a stale claim writes nothing.
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from rentals import engines, outcomes, rules, steps
from rentals.actions import move_rental
from rentals.drivers.errors import DriverError
from rentals.engines import Call, Recorder
from rentals.faults import checkpoint
from rentals.models import Rental
from rentals.steps import Decision

logger = logging.getLogger(__name__)
Status = Rental.Status


@dataclass(frozen=True, slots=True)
class Step:
    """What a step left behind: the status it wrote, and in how many seconds the rental wants the next one."""

    rental_id: int
    status: str
    wait: int | None


def due(*, at: datetime, limit: int = 500) -> QuerySet[Rental, int]:
    """Ids of rentals whose next step is due and that no worker holds, the longest waiting first."""
    return (
        Rental.objects.filter(_unclaimed(at), next_step_at__lte=at)
        .order_by("next_step_at", "pk")
        .values_list("pk", flat=True)[:limit]
    )


def step(*, rental_id: int, at: datetime) -> Step | None:
    """Take one step of this rental; None when it is not due or another worker has it.

    Safe to call at any time, any number of times, in parallel. The instants written are `at` plus the time the engine
    took, so billing starts when the login succeeded and not when the step began. A wish that came meanwhile wins: the
    step's result is dropped and the next step wanted at once.
    """
    started = time.monotonic()
    rental = _claim(rental_id, at)
    if rental is None:
        return None
    token, asked_as = rental.lock_token, rental.status
    assert token is not None  # noqa: S101 - the claim set it
    checkpoint(f"{asked_as}.claimed")
    decision, calls = _ask(rental, at)
    checkpoint(f"{asked_as}.called")
    done_at = at + timedelta(seconds=time.monotonic() - started)
    try:
        outcomes.write(rental_id=rental_id, token=token, asked_as=asked_as, decision=decision, calls=calls, at=done_at)
    except outcomes.Overtaken:
        outcomes.drop(rental_id=rental_id, token=token, calls=calls, at=done_at)
        return Step(rental_id, asked_as, rules.AT_ONCE)
    except Exception:
        # Without a word on the row it would come round for ever and tell nobody why.
        logger.exception("what step %s of %s found could not be written", asked_as, rental.name)
        decision = Decision(wait=rules.back_off(rental.attempts), reason="internal", is_error=True)
        outcomes.write(rental_id=rental_id, token=token, asked_as=asked_as, decision=decision, calls=calls, at=done_at)
    checkpoint(f"{asked_as}.written")
    return Step(rental_id, decision.to or asked_as, decision.wait)


def _unclaimed(at: datetime) -> Q:
    return Q(lock_expires_at__isnull=True) | Q(lock_expires_at__lte=at)


@transaction.atomic
def _claim(rental_id: int, at: datetime) -> Rental | None:
    """Write our token into the row, and the intent of a first call, before the engine hears of it."""
    rental = (
        Rental.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
        .select_related("subscription", "order_line__offer__gpu_model", "order_line__image", "pool")
        .prefetch_related("members__host")
        .filter(_unclaimed(at), pk=rental_id, next_step_at__lte=at)
        .first()
    )
    if rental is None:
        return None
    if rental.status == Status.RESERVED:
        deadline = rules.deadline_after(rental.order_line.offer.kind, at)
        move_rental(rental=rental, to=Status.CREATING, at=at, deadline_at=deadline)
    if rental.status not in steps.HANDLERS:
        rental.next_step_at = None
        rental.save(update_fields=["next_step_at"])
        return None
    rental.lock_token, rental.lock_expires_at = uuid.uuid4(), at + rules.lease()
    rental.save(update_fields=["lock_token", "lock_expires_at"])
    return rental


def _ask(rental: Rental, at: datetime) -> tuple[Decision, list[Call]]:
    """The engine's word and what follows from it. Never raises: whatever went wrong is a reason to look again."""
    pool = rental.pool
    if pool.paused_reason not in {"", engines.CREDENTIALS_REFUSED}:
        return Decision(wait=rules.PAUSED, reason="pool_paused", extends_deadline=True), []
    calls: list[Call] = []
    try:
        with engines.driver_of(pool) as driver:
            recorder = Recorder(driver, calls)
            decision = steps.take(recorder, rental, at)
    except DriverError as error:
        decision = steps.on_error(rental, error)
    except Exception:
        logger.exception("step %s of %s failed", rental.status, rental.name)
        decision = Decision(wait=rules.back_off(rental.attempts), reason="internal", is_error=True)
    if decision.reason == engines.CREDENTIALS_REFUSED:
        engines.pause(pool)
    elif pool.paused_reason and not decision.is_error:
        engines.resume(pool)
    return decision, calls
