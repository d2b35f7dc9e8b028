"""The only code that writes Invoice.status."""

from collections.abc import Sequence
from datetime import datetime

from django.db import connection
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from billing.models import Invoice, InvoiceEvent
from marketplace.lib.refusals import Refusal


class IllegalMove(Refusal):
    """The invoice's state does not allow this."""

    code = "illegal_move"

    def __init__(self, invoice: Invoice, to: str) -> None:
        facts = {"number": invoice, "status": invoice.get_status_display(), "to": Invoice.Status(to).label}
        super().__init__(message=_("Invoice %(number)s is %(status)s and cannot become %(to)s.") % facts)


def locked(invoice_id: int) -> Invoice:
    """The invoice as it is now, its row locked until the transaction ends."""
    return Invoice.objects.select_for_update(no_key=True).get(pk=invoice_id)


def move_invoice(invoice: Invoice, to: str, *, at: datetime, actor: User | None = None, note: str = "") -> None:
    """Move a locked invoice along an arrow of its table and record the event. Raises IllegalMove.

    Fields changed on the instance beforehand are saved with it, so that a status never stands without its facts.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("an invoice moves under its row lock")
    if to not in Invoice.NEXT.get(invoice.status, set()):
        raise IllegalMove(invoice, to)
    invoice.status = to
    invoice.save()
    record_event(invoice, at=at, actor=actor, note=note)


def move_invoices(
    invoices: Sequence[Invoice], to: str, *, at: datetime, actor: User | None = None, note: str = ""
) -> None:
    """`move_invoice` for many locked invoices in two statements; their other fields are not saved. Raises IllegalMove
    before any of them moved."""
    if not invoices:
        return
    if not connection.in_atomic_block:
        raise RuntimeError("an invoice moves under its row lock")
    for invoice in invoices:
        if to not in Invoice.NEXT.get(invoice.status, set()):
            raise IllegalMove(invoice, to)
    Invoice.objects.filter(pk__in=[invoice.pk for invoice in invoices]).update(status=to)
    for invoice in invoices:
        invoice.status = to
    InvoiceEvent.objects.bulk_create(
        InvoiceEvent(invoice=invoice, status=to, actor=actor, at=at, note=note[:300]) for invoice in invoices
    )


def record_event(invoice: Invoice, *, at: datetime, actor: User | None = None, note: str = "") -> None:
    """A line of the invoice's history at its present status."""
    InvoiceEvent.objects.create(invoice=invoice, status=invoice.status, actor=actor, at=at, note=note[:300])
