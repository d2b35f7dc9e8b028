"""A machine that goes from the hour to a term without an interruption, and a term that its customer ends early."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import transaction

from accounts.models import User
from orders import actions as orders
from orders.models import Order, OrderLine, Subscription
from rentals import metering
from rentals.actions.auto_stop import remove_auto_stop
from rentals.actions.moving import locked, note
from rentals.actions.wishes import request_terminate
from rentals.models import AutoStopRule, Rental, RentalEvent

logger = logging.getLogger(__name__)
Status = Rental.Status

# Its cards are its own, or come with it: the term can begin where it is once the machine runs.
ON_ITS_WAY = frozenset(
    {
        Status.RESERVED, Status.CREATING, Status.BOOTING, Status.VERIFYING, Status.STARTING, Status.LOST,
        Status.SUSPENDED,
    }
)  # fmt: skip


@transaction.atomic
def end_early(*, rental_id: int, actor: User | None, at: datetime) -> Rental:
    """Delete the machine and its disk. Of a term that runs, what the rule of the settings pays back is written down.

    Promises and refuses as `request_terminate`; a refusal leaves nothing to be paid back.
    """
    subscription_id = Rental.objects.values_list("subscription_id", flat=True).get(pk=rental_id)
    orders.refund_term(subscription_id=subscription_id, actor=actor, at=at)
    return request_terminate(rental_id=rental_id, actor=actor, at=at)


def convert_rentals(*, at: datetime) -> int:
    """Carry out every paid order that puts a term in place of the hour; how many were carried out or given up.

    Safe to repeat and in parallel: the order's row is locked. One that fails stops no other.
    """
    waiting = Order.objects.filter(status=Order.Status.CONFIRMED, kind=Order.Kind.CONVERSION)
    done = 0
    for order_id in waiting.order_by("pk").values_list("pk", flat=True):
        try:
            done += _convert(order_id, at)
        except Exception:
            logger.exception("order %s could not be carried out", order_id)
    return done


@transaction.atomic
def _convert(order_id: int, at: datetime) -> bool:
    order = Order.objects.select_for_update(no_key=True, skip_locked=True).filter(pk=order_id).first()
    if order is None or order.status != Order.Status.CONFIRMED or order.paid_at is None:
        return False
    line = OrderLine.objects.get(order=order)
    seen = Rental.objects.get(subscription=line.continues_id)
    if seen.status in ON_ITS_WAY:
        return False
    if seen.status != Status.RUNNING:
        orders.fail_conversion(order_id=order_id, at=at)
        return True
    term = Subscription.objects.get(order_line=line)
    orders.end_subscription(subscription_id=seen.subscription_id, at=order.paid_at)
    orders.start_term(subscription_id=term.pk, started_at=order.paid_at)
    orders.mark_provisioning(order_id=order_id, at=at)
    orders.mark_active(order_id=order_id, at=at)
    rental = locked(seen.pk)
    if rental.status != Status.RUNNING:
        raise RuntimeError(f"{rental.name} was stopped at this moment; the next sweep sees it")
    _switch(rental, term, order.paid_at, at)
    return True


def _switch(rental: Rental, term: Subscription, since: datetime, at: datetime) -> None:
    """From `since` on the machine belongs to the term: its meter ends there, and no rule saves anything any more."""
    metering.close_meter(rental=rental, at=since)
    rental.subscription = term
    rental.save(update_fields=["subscription"])
    for kind in AutoStopRule.Kind.values:
        remove_auto_stop(rental_id=rental.pk, kind=kind, actor=None, at=at)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="converted", at=at)
