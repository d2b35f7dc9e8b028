"""Disputes: the payer's bank takes a payment back until it is decided; lost, the payment is reversed in the books."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import connection, transaction
from django.utils.translation import gettext_lazy as _

from accounts import actions as accounts_actions
from accounts.models import CreditLine, Notification
from accounts.notices import notify
from billing import ledger, stripe_gateway
from billing.actions.accounts import lock_account
from billing.actions.moving import locked, move_invoice, record_event
from billing.models import BillingAccount, Book, Dispute, Invoice, LedgerEntry, Payment, Posting, TopUp
from marketplace.lib.money import format_minor
from marketplace.lib.refusals import Refusal

logger = logging.getLogger(__name__)

Status = Dispute.Status


class DisputeRefused(Refusal):
    """The dispute stays as it is."""


def move_dispute(dispute: Dispute, to: str) -> None:
    """The only code that writes Dispute.status; the row is locked, its history is kept by the database."""
    if not connection.in_atomic_block:
        raise RuntimeError("a dispute moves under its row lock")
    dispute.status = to
    dispute.save()


def apply_dispute(*, theirs: stripe_gateway.Dispute, at: datetime) -> Dispute | None:
    """Bring ours to what Stripe's says: opened freezes credit, won lifts that, lost reverses the payment. By rank, so
    in any order and repeated the same. None when the payment is none of ours."""
    source = _source(theirs.payment_intent)
    if source is None:
        return None
    account = source.account if isinstance(source, TopUp) else source.invoice.account
    return _apply(theirs, source, account.organization_id, at)


def _source(payment_intent: str) -> Payment | TopUp | None:
    if not payment_intent:
        return None
    payment = Payment.objects.filter(method=Payment.Method.STRIPE, reference=payment_intent).first()
    return payment or TopUp.objects.filter(payment_intent=payment_intent).first()


@transaction.atomic
def _apply(theirs: stripe_gateway.Dispute, source: Payment | TopUp, organization_id: int, at: datetime) -> Dispute:
    list(CreditLine.objects.select_for_update(no_key=True).filter(organization_id=organization_id).values_list("pk"))
    account = lock_account(organization_id=organization_id)
    dispute, is_new = Dispute.objects.get_or_create(
        stripe_id=theirs.id,
        defaults={
            "account": account,
            "payment": source if isinstance(source, Payment) else None,
            "top_up": source if isinstance(source, TopUp) else None,
            "amount_minor": theirs.amount,
            "currency": theirs.currency,
            "reason": theirs.reason[:60],
            "opened_at": theirs.created,
        },
    )
    if is_new:
        _opened(dispute, account, at)
    if dispute.status != Status.OPEN or theirs.is_open:
        return dispute
    dispute.closed_at = at
    move_dispute(dispute, Status.LOST if theirs.is_lost else Status.WON)
    if theirs.is_lost:
        _reverse(dispute, account, at)
    else:
        _thaw(account)
    return dispute


def _opened(dispute: Dispute, account: BillingAccount, at: datetime) -> None:
    accounts_actions.set_standing(organization_id=account.organization_id, standing=CreditLine.Standing.FROZEN)
    logger.error("dispute %s: %s of %s", dispute, dispute.amount_minor, account)
    if dispute.payment is not None:
        text = f"attention: {dispute} disputes {format_minor(dispute.amount_minor, dispute.currency)}"
        record_event(locked(dispute.payment.invoice_id), at=at, note=text)
    notify(
        organization=account.organization,
        kind=Notification.Kind.DISPUTE_OPENED,
        fact=dispute.stripe_id,
        params={"amount": format_minor(dispute.amount_minor, dispute.currency)},
        page="billing:overview",
        page_args=[],
        at=at,
    )


@transaction.atomic
def give_credit_again(*, dispute: Dispute) -> None:
    """Finance lifts the freeze that a lost dispute left behind. Raises DisputeRefused while one is open."""
    list(CreditLine.objects.select_for_update(no_key=True).filter(organization=dispute.account.organization_id))
    account = lock_account(organization_id=dispute.account.organization_id)
    if account.disputes.filter(status=Status.OPEN).exists():
        raise DisputeRefused("open", _("A dispute of this customer is still open."))
    _thaw(account)


def _thaw(account: BillingAccount) -> None:
    """Credit is given again once no dispute is open. A lost one keeps it frozen until finance lifts that."""
    if not account.disputes.filter(status=Status.OPEN).exists():
        accounts_actions.set_standing(organization_id=account.organization_id, standing=CreditLine.Standing.GOOD)


def _reverse(dispute: Dispute, account: BillingAccount, at: datetime) -> None:
    """The payment never was: its invoice is owed again, and what of it lay on the balance is taken from there."""
    invoice = locked(dispute.payment.invoice_id) if dispute.payment is not None else None
    owed = _unpay(invoice, dispute, at) if invoice is not None else 0
    ledger.post(
        account=account,
        kind=Posting.Kind.PAYMENT_REVERSED,
        fact=dispute.stripe_id,
        entries={
            Book.RECEIVABLE: owed,
            Book.WALLET: dispute.amount_minor - owed,
            Book.CASH: -dispute.amount_minor,
        },
        at=at,
        currency=dispute.currency,
        invoice=invoice,
        note=dispute.reason,
    )


def _unpay(invoice: Invoice, dispute: Dispute, at: datetime) -> int:
    """Take the disputed money off the invoice; returns how much of it had paid the invoice. The rest lay or lies on the
    balance: what had been too much, and what a credit note has given back since."""
    surplus = min(_surplus(dispute), dispute.amount_minor)
    owed = min(dispute.amount_minor - surplus, invoice.paid_minor - invoice.gift_minor)
    invoice.paid_minor -= owed
    text = f"{dispute} was lost: {format_minor(dispute.amount_minor, dispute.currency)} is gone"
    if invoice.status == Invoice.Status.PAID and owed:
        # Nobody can pay it at Stripe a second time.
        invoice.collection = Invoice.Collection.BANK_TRANSFER
        invoice.paid_at = None
        move_invoice(invoice, Invoice.Status.OPEN, at=at, note=text)
    else:
        invoice.save(update_fields=["paid_minor"])
        record_event(invoice, at=at, note=text)
    return owed


def _surplus(dispute: Dispute) -> int:
    """How much of the payment was more than its invoice had outstanding, and entered the balance."""
    payment = dispute.payment
    assert payment is not None  # noqa: S101 - asked only of an invoice's payment
    entries = LedgerEntry.objects.filter(
        posting__kind=Posting.Kind.PAYMENT, posting__fact=f"{payment.method}:{payment.reference}", book=Book.WALLET
    )
    return -sum(entries.values_list("amount_minor", flat=True))
