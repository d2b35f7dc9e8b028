"""The one writer of an order's status, and the moves that have a name."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from marketplace.lib.refusals import Refusal
from orders.models import Order, OrderEvent

Status = Order.Status


class IllegalMove(Refusal):
    """This order's status does not allow that."""

    code = "illegal_move"

    def __init__(self, order: Order, to: str) -> None:
        state = order.get_status_display()
        super().__init__(message=_("An order in the state “%(state)s” does not allow this.") % {"state": state})
        self.order = order
        self.to = to


def locked(order_id: int) -> Order:
    """The order under its row lock, for the running transaction."""
    return Order.objects.select_for_update(no_key=True).get(pk=order_id)


@transaction.atomic
def move_order(
    *, order_id: int, to: str, actor: User | None, at: datetime, note: str = "", paid_at: datetime | None = None
) -> Order:
    """Change an order's status, the only code that does, and leave an event. `paid_at` goes with a confirmation.

    Raises IllegalMove where the transition table has no such arrow; then nothing changed.
    """
    order = locked(order_id)
    if to not in Order.NEXT.get(order.status, set()):
        raise IllegalMove(order, to)
    order.status = to
    if paid_at is not None:
        order.paid_at = paid_at
    order.save(update_fields=["status", "paid_at"])
    OrderEvent.objects.create(order=order, status=to, actor=actor, at=at, note=note)
    return order


def mark_provisioning(*, order_id: int, at: datetime) -> Order:
    """Its rentals exist. Repeating it changes nothing; raises IllegalMove on an order that was never confirmed."""
    return _move_once(order_id, Status.PROVISIONING, at, passed={Status.PROVISIONING, Status.ACTIVE, Status.ENDED})


def mark_active(*, order_id: int, at: datetime) -> Order:
    """The first of its machines was handed over. Repeating it changes nothing."""
    return _move_once(order_id, Status.ACTIVE, at, passed={Status.ACTIVE, Status.ENDED})


@transaction.atomic
def _move_once(order_id: int, to: str, at: datetime, *, passed: set[str]) -> Order:
    order = locked(order_id)
    if order.status in passed:
        return order
    return move_order(order_id=order_id, to=to, actor=None, at=at)
