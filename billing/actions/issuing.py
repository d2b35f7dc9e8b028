"""Issuing: a draft gets its number and dates and is frozen from then on."""

from datetime import datetime, timedelta

from django.conf import settings

from accounts.models import User
from billing.actions.moving import move_invoice
from billing.actions.telling import tell_of_issue
from billing.models import Invoice
from billing.numbering import INVOICE_SERIES, next_number
from marketplace.lib import clock
from marketplace.lib.limits import by_bank


def issue(*, invoice: Invoice, at: datetime, actor: User | None = None) -> Invoice:
    """Number and freeze a drafted invoice and tell of it, inside the caller's transaction, which holds its row.

    Usage falls due INVOICE_DAYS_UNTIL_DUE days later, a prepaid order when its hold expires. What Stripe cannot
    collect (too much, or a prepaid order that is too little) is open for a bank transfer at once.
    """
    zone = invoice.organization.zone
    invoice.number = next_number(series=INVOICE_SERIES, year=clock.local_date(at, zone).year)
    invoice.issued_at = at
    invoice.due_at = _due(invoice, at)
    if by_bank(invoice.total_minor, invoice.currency):
        invoice.collection = Invoice.Collection.BANK_TRANSFER
    move_invoice(invoice, Invoice.Status.ISSUED, at=at, actor=actor)
    if invoice.collection == Invoice.Collection.BANK_TRANSFER:
        move_invoice(invoice, Invoice.Status.OPEN, at=at, actor=actor)
    tell_of_issue(invoice=invoice, at=at)
    return invoice


def _due(invoice: Invoice, at: datetime) -> datetime:
    if invoice.order is not None and invoice.order.hold_expires_at is not None:
        return max(invoice.order.hold_expires_at, at)
    return at + timedelta(days=settings.INVOICE_DAYS_UNTIL_DUE)
