"""What happened to an organization's invoices, in plain words. A draft is nobody's document yet and is not told."""

from __future__ import annotations

from typing import Final

from django.db.models import Q
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization
from billing.models import Invoice, InvoiceEvent
from marketplace.lib.feed import Cursor, Line, below
from marketplace.lib.money import format_minor

Status = Invoice.Status
# Below the order that a payment confirms at the same instant.
RANK: Final = 1

SENTENCES: dict[str, str | Promise] = {
    Status.ISSUED: _("Invoice %(object)s over %(amount)s was issued."),
    Status.PAID: _("Invoice %(object)s over %(amount)s was paid."),
    Status.VOID: _("Invoice %(object)s over %(amount)s was voided."),
    Status.UNCOLLECTIBLE: _("Invoice %(object)s over %(amount)s could not be collected."),
}
PART_PAID = _("A part payment for invoice %(object)s arrived.")
# Notes for finance at a status that was reached before.
_NOTED = Q(note__startswith="attention")
_PART_PAYMENT = Q(note__startswith="part payment")


def activity(organization: Organization, before: Cursor | None, limit: int) -> list[Line]:
    """The newest events of its invoices below the cursor, newest first, in one query."""
    told = Q(status__in=SENTENCES) & ~_NOTED | _PART_PAYMENT
    events = (
        InvoiceEvent.objects.filter(
            told, below(before, RANK), invoice__organization=organization, invoice__number__isnull=False
        )
        .select_related("invoice", "actor")
        .order_by("-at", "-pk")[:limit]
    )
    return [_line(event) for event in events]


def _line(event: InvoiceEvent) -> Line:
    invoice, actor = event.invoice, event.actor
    part = event.note.startswith("part payment")
    return Line(
        at=event.at,
        rank=RANK,
        pk=event.pk,
        sentence=PART_PAID if part else SENTENCES[event.status],
        name=str(invoice),
        page="billing:invoice",
        key=invoice.key,
        params={"amount": format_minor(invoice.total_minor, invoice.currency)},
        actor_id=event.actor_id,
        actor=actor.email if actor else "",
        by_staff=bool(actor and actor.is_staff),
    )
