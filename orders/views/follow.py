"""What comes after an order: tell the floor that continues it to look now. The sweeps would find it anyway."""

from __future__ import annotations

from billing.tasks import draft_order_invoices
from marketplace.lib.nudge import nudge
from orders.models import Order
from rentals.tasks import open_rentals


def follow_up(order: Order) -> None:
    """Machines for what is confirmed, an invoice for what is to be paid."""
    if order.status == Order.Status.CONFIRMED:
        nudge(open_rentals)
    elif order.status == Order.Status.AWAITING_PAYMENT:
        nudge(draft_order_invoices)
