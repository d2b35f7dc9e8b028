"""What happened to an organization's orders, in plain words."""

from __future__ import annotations

from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization
from marketplace.lib.feed import Cursor, Line, below
from marketplace.lib.money import format_minor
from orders.models import Order, OrderEvent

Status = Order.Status
# Below what happened at the same instant to machines, above what happened to invoices: a payment confirms an order.
RANK: Final = 2

PLACED = _("Order %(object)s was placed.")
PLACED_UNPAID = _("Order %(object)s was placed; %(amount)s is to be paid in advance.")
GIVEN_UP = _("Order %(object)s was given up.")
SENTENCES: dict[str, str | Promise] = {
    Status.CONFIRMED: _("Order %(object)s was paid and confirmed."),
    Status.EXPIRING: _("The time to pay order %(object)s ran out."),
    Status.CANCELLED: _("Order %(object)s was cancelled; its cards were released."),
    Status.ENDED: _("Order %(object)s has ended."),
    Status.FAILED: _("Order %(object)s failed: none of its machines could be made."),
}
# The other moves are told by the machines themselves.
TOLD = (Status.AWAITING_PAYMENT, *SENTENCES)


def activity(organization: Organization, before: Cursor | None, limit: int) -> list[Line]:
    """The newest events of its orders below the cursor, newest first, in one query."""
    events = (
        OrderEvent.objects.filter(below(before, RANK), order__organization=organization, status__in=TOLD)
        .select_related("order", "actor")
        .order_by("-at", "-pk")[:limit]
    )
    return [_line(event) for event in events]


def _line(event: OrderEvent) -> Line:
    order, actor = event.order, event.actor
    return Line(
        at=event.at,
        rank=RANK,
        pk=event.pk,
        sentence=_sentence(event),
        name=order.number,
        page="orders:detail",
        key=order.key,
        params={"amount": format_minor(order.total_minor, order.currency)},
        actor_id=event.actor_id,
        actor=actor.email if actor else "",
        by_staff=bool(actor and actor.is_staff),
    )


def _sentence(event: OrderEvent) -> str | Promise:
    order = event.order
    if event.at == order.placed_at and event.status in {Status.AWAITING_PAYMENT, Status.CONFIRMED}:
        return PLACED_UNPAID if order.total_minor else PLACED
    if event.status == Status.EXPIRING and event.actor_id:
        return GIVEN_UP
    return SENTENCES[event.status]
