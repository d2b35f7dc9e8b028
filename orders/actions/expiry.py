"""Holds that nobody paid: marked first, released only after billing made sure that no money came."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from accounts.models import Notification, User
from accounts.notices import notify
from catalog import inventory
from orders.actions.moving import IllegalMove, locked, move_order
from orders.actions.subscriptions import close_all
from orders.models import Order, OrderLine

Status = Order.Status
BATCH = 500


def begin_expiring(*, at: datetime) -> list[int]:
    """Mark unpaid orders whose hold has run out; their cards stay held until billing has settled them.

    Returns the ids that this call moved. Safe to run in parallel.
    """
    due = Order.objects.filter(status=Status.AWAITING_PAYMENT, hold_expires_at__lte=at).order_by("pk")
    moved = []
    for order_id in list(due.values_list("pk", flat=True)[:BATCH]):
        try:
            move_order(order_id=order_id, to=Status.EXPIRING, actor=None, at=at)
        except IllegalMove:
            continue  # paid, cancelled or marked by somebody else since the list was read
        moved.append(order_id)
    return moved


def cancel_order(*, order_id: int, actor: User, at: datetime) -> Order:
    """The customer gives up an unpaid order. Billing settles it like an expired one and then frees the cards.

    Raises IllegalMove once it is paid or over; repeating it while it expires changes nothing.
    """
    with transaction.atomic():
        order = locked(order_id)
        if order.status == Status.EXPIRING:
            return order
        return move_order(order_id=order_id, to=Status.EXPIRING, actor=actor, at=at)


@transaction.atomic
def cancel_unpaid(*, order_id: int, at: datetime, actor: User | None = None) -> Order:
    """Billing is sure that nothing was paid: free the cards, end what would have been billed, cancel the order, and
    tell the customer unless it was they who cancelled.

    Repeating it changes nothing. Raises IllegalMove when the order was paid after all; then the cards stay.
    """
    # Credit line and hosts come before the order in the order of locks; a paid order undoes all of it by raising.
    close_all(order_id, at)
    inventory.release(holders=units_of(order_id), at=at)
    order = locked(order_id)
    if order.status == Status.CANCELLED:
        return order
    if order.status != Status.EXPIRING:
        raise IllegalMove(order, Status.CANCELLED)
    cancelled = move_order(order_id=order_id, to=Status.CANCELLED, actor=actor, at=at)
    # Whoever cancelled it knows; nobody did when the hold ran out. What goes on as it was needs no word either.
    if order.kind == Order.Kind.NEW and not order.events.filter(status=Status.EXPIRING, actor__isnull=False).exists():
        notify(
            organization=order.organization,
            kind=Notification.Kind.HOLD_EXPIRED,
            fact=str(order.key),
            params={"number": order.number},
            page="orders:detail",
            page_args=[str(order.key)],
            at=at,
        )
    return cancelled


def units_of(order_id: int) -> list:
    """The unit ids of every line of an order for new machines: the holders of its cards. Going on with a machine
    holds none of its own."""
    lines = OrderLine.objects.filter(order=order_id, continues__isnull=True).order_by("pk")
    return [unit for units in lines.values_list("units", flat=True) for unit in units]
