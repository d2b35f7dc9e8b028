"""Opening the rentals of an order that was confirmed."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import transaction

from catalog import inventory
from catalog.models import Host
from orders import actions as orders
from orders.models import Order, Subscription
from rentals.models import Member, Rental, RentalEvent

logger = logging.getLogger(__name__)
Status = Rental.Status


def open_rentals(*, at: datetime) -> list[int]:
    """Make the rentals of every confirmed order and move the order to provisioning; the new rentals' ids.

    Repeated or parallel runs make nothing twice: the order's row is locked, the unit is the rental's unique key.
    """
    new = Order.objects.filter(status=Order.Status.CONFIRMED, kind=Order.Kind.NEW)
    waiting = new.order_by("pk").values_list("pk", flat=True)
    opened: list[int] = []
    for order_id in waiting:
        try:
            opened += _open_rentals_of(order_id, at)
        except Exception:
            # One broken order must not stop the others; it stays confirmed, the desk shows it, and it is found again.
            logger.exception("the rentals of order %s could not be opened", order_id)
    return opened


class UnitWithoutCards(Exception):
    """A confirmed unit that holds no cards: a bug in claiming or releasing."""


@transaction.atomic
def _open_rentals_of(order_id: int, at: datetime) -> list[int]:
    order = Order.objects.select_for_update(no_key=True, skip_locked=True).filter(pk=order_id).first()
    if order is None or order.status != Order.Status.CONFIRMED:
        return []
    subscriptions = list(
        Subscription.objects.filter(order_line__order=order).select_related("order_line__offer").order_by("pk")
    )
    placements = inventory.placements([one.unit for one in subscriptions])
    lacking = [one.unit for one in subscriptions if one.unit not in placements]
    if lacking or not subscriptions:
        raise UnitWithoutCards(f"{order_id}: {lacking}")
    pools = dict(Host.objects.filter(pk__in={p.host_id for p in placements.values()}).values_list("pk", "pool_id"))
    rentals = Rental.objects.bulk_create(
        _new_rental(one, pools[placements[one.unit].host_id], at) for one in subscriptions
    )
    Member.objects.bulk_create(
        Member(rental=rental, ordinal=0, host_id=placed.host_id, cards=list(placed.serials))
        for rental in rentals
        for placed in [placements[rental.key]]
    )
    RentalEvent.objects.bulk_create(
        RentalEvent(rental=rental, kind=RentalEvent.Kind.STATUS, what=Status.RESERVED, at=at) for rental in rentals
    )
    orders.mark_provisioning(order_id=order_id, at=at)
    return [rental.pk for rental in rentals]


def _new_rental(subscription: Subscription, pool_id: int, at: datetime) -> Rental:
    line = subscription.order_line
    return Rental(
        key=subscription.unit,
        organization_id=subscription.organization_id,
        project_id=subscription.project_id,
        order_line=line,
        subscription=subscription,
        name=f"gpu-{subscription.unit.hex[:6]}",
        pool_id=pool_id,
        public_keys=line.public_keys,
        next_step_at=at,
        created_at=at,
    )
