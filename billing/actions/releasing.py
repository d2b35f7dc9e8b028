"""Our side of a void: the invoice is over and the usage it charged is unbilled again."""

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from billing import ledger
from billing.actions.accounts import lock_account
from billing.actions.agreeing import release_agreed
from billing.actions.fapiao import follow_void, has_fapiao
from billing.actions.issuing import issue_entries
from billing.actions.moving import locked, move_invoice
from billing.models import BilledWindow, BillingAccount, Invoice, Posting
from marketplace.lib.refusals import Refusal

Status = Invoice.Status


class VoidRefused(Refusal):
    """The invoice stays as it is; `message` says why and what to do."""


def expect_voidable(invoice: Invoice) -> None:
    """Raises VoidRefused once any money came, a part was credited or a fapiao was issued: that takes a credit note."""
    if invoice.paid_minor or invoice.credited_minor or invoice.status == Status.PAID:
        raise VoidRefused("paid", _("Money was received for this invoice. It needs a credit note, not a void."))
    if has_fapiao(invoice):
        text = _("A fapiao was issued for this invoice. It needs a credit note and a red flush, not a void.")
        raise VoidRefused("fapiao", text)


@transaction.atomic
def mark_void(*, invoice_id: int, at: datetime, actor: User | None = None, note: str = "") -> Invoice:
    """Void it here, after it is certain that nobody can pay it at Stripe; the next run bills its usage anew.

    Repeating it changes nothing. Raises VoidRefused when money came meanwhile.
    """
    organization_id = Invoice.objects.values_list("organization_id", flat=True).get(pk=invoice_id)
    account = lock_account(organization_id=organization_id)
    invoice = locked(invoice_id)
    if invoice.status == Status.VOID:
        return invoice
    expect_voidable(invoice)
    follow_void(invoice=invoice, at=at, actor=actor)
    BilledWindow.objects.filter(line__invoice=invoice).delete()
    release_agreed(invoice=invoice, at=at)
    if invoice.status != Status.DRAFT:
        _unpost(account, invoice, at=at, actor=actor)
    invoice.next_push_at = invoice.next_check_at = None
    invoice.push_error = ""
    move_invoice(invoice, Status.VOID, at=at, actor=actor, note=note)
    return invoice


def _unpost(account: BillingAccount, invoice: Invoice, *, at: datetime, actor: User | None) -> None:
    ledger.post(
        account=account,
        kind=Posting.Kind.VOID,
        fact=str(invoice.key),
        entries={book: -amount for book, amount in issue_entries(invoice).items()},
        currency=invoice.currency,
        invoice=invoice,
        at=at,
        actor=actor,
    )
