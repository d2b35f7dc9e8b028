"""Our side of a void: the invoice is over and the usage it charged is unbilled again."""

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from billing.actions.moving import locked, move_invoice
from billing.models import BilledWindow, Invoice
from marketplace.lib.refusals import Refusal

Status = Invoice.Status


class VoidRefused(Refusal):
    """The invoice stays as it is; `message` says why and what to do."""


def expect_voidable(invoice: Invoice) -> None:
    """Raises VoidRefused once any money came: that takes a credit note."""
    if invoice.paid_minor or invoice.status == Status.PAID:
        raise VoidRefused("paid", _("Money was received for this invoice. It needs a credit note, not a void."))


@transaction.atomic
def mark_void(*, invoice_id: int, at: datetime, actor: User | None = None, note: str = "") -> Invoice:
    """Void it here, after it is certain that nobody can pay it at Stripe; the next run bills its usage anew.

    Repeating it changes nothing. Raises VoidRefused when money came meanwhile.
    """
    invoice = locked(invoice_id)
    if invoice.status == Status.VOID:
        return invoice
    expect_voidable(invoice)
    BilledWindow.objects.filter(line__invoice=invoice).delete()
    invoice.next_push_at = invoice.next_check_at = None
    invoice.push_error = ""
    move_invoice(invoice, Status.VOID, at=at, actor=actor, note=note)
    return invoice
