"""A machine that goes from the hour to a term without an interruption or gets a new term while its disk is kept, and a
term that its customer ends early."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import transaction

from accounts.models import Organization, User
from catalog import inventory
from orders import actions as orders
from orders.models import Order, OrderLine, Subscription
from orders.pricing import term_end
from rentals import metering
from rentals.actions.auto_stop import remove_auto_stop
from rentals.actions.moving import due_now, locked, move_rental, note
from rentals.actions.wishes import request_terminate
from rentals.models import AutoStopRule, Rental, RentalEvent
from rentals.rules import deadline_after

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
    seen = Rental.objects.select_related("subscription").get(subscription=line.continues_id)
    if seen.status in ON_ITS_WAY:
        return False
    if seen.subscription.ended_at is not None and seen.status in {Status.STOPPING, Status.STOPPED}:
        return seen.status == Status.STOPPED and _restore(order, line, seen, at)
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


def _restore(order: Order, line: OrderLine, seen: Rental, at: datetime) -> bool:
    """A machine whose term was over gets its cards back for the new one and is started, or the order is given up."""
    zone = Organization.objects.values_list("zone", flat=True).get(pk=seen.organization_id)
    _anchor, until = term_end(started_at=at, term=line.term, periods=line.periods, zone=zone)
    try:
        with transaction.atomic():
            for member in seen.members.order_by("host_id"):
                inventory.claim_same(
                    pool_id=seen.pool_id,
                    host_id=member.host_id,
                    serials=member.cards,
                    holder=seen.key,
                    at=at,
                    until=until,
                )
    except inventory.NotEnoughCards:
        orders.fail_conversion(order_id=order.pk, at=at)
        return True
    term = Subscription.objects.get(order_line=line)
    orders.mark_provisioning(order_id=order.pk, at=at)
    orders.mark_active(order_id=order.pk, at=at)
    rental = locked(seen.pk)
    if rental.status != Status.STOPPED or rental.subscription_id != line.continues_id:
        raise RuntimeError(f"{rental.name} changed at this moment; the next sweep sees it")
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="restored", at=at)
    deadline = deadline_after(rental.order_line.offer.kind, at)
    move_rental(
        rental=rental,
        to=Status.STARTING,
        at=at,
        **due_now(at),
        desired=Rental.Desired.RUNNING,
        deadline_at=deadline,
        subscription=term,
    )
    return True


def _switch(rental: Rental, term: Subscription, since: datetime, at: datetime) -> None:
    """From `since` on the machine belongs to the term: its meter ends there, and no rule saves anything any more."""
    metering.close_meter(rental=rental, at=since)
    rental.subscription = term
    rental.save(update_fields=["subscription"])
    for kind in AutoStopRule.Kind.values:
        remove_auto_stop(rental_id=rental.pk, kind=kind, actor=None, at=at)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="converted", at=at)
