"""Money for an invoice, from outside or from the balance. `record_payment` is the only code that writes it down."""

import logging
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from billing import ledger
from billing.actions.accounts import lock_account
from billing.actions.moving import locked, move_invoice, record_event
from billing.models import BillingAccount, Book, Invoice, Payment, Posting
from marketplace.lib.money import format_minor
from marketplace.lib.refusals import Refusal
from orders import actions as orders_actions
from orders.models import Order

logger = logging.getLogger(__name__)

Method, Kind = Payment.Method, Posting.Kind
# Where the money of each method comes from, and what the books call it.
BOOKED = {
    Method.STRIPE: (Kind.PAYMENT, Book.CASH),
    Method.BANK_TRANSFER: (Kind.PAYMENT, Book.CASH),
    Method.WALLET: (Kind.WALLET_PAID, Book.WALLET),
    Method.GIFT: (Kind.GIFT_PAID, Book.GIFT),
}
OWN_MONEY = frozenset({Method.WALLET, Method.GIFT})


class PaymentRefused(Refusal):
    """This money cannot be written down; nothing was recorded."""


@transaction.atomic
def record_payment(
    *,
    invoice: Invoice,
    method: str,
    reference: str,
    amount_minor: int,
    currency: str,
    received_at: datetime,
    actor: User | None = None,
    at: datetime | None = None,
) -> Payment:
    """Write money down once per (method, reference) and, when it covers the invoice, mark that paid.

    A prepaid order is confirmed in the same transaction. Money is never turned away: what is more than the invoice has
    outstanding, all of it where that is paid or void, enters the balance and is noted on the invoice. Raises
    PaymentRefused for an amount or currency that cannot be, and for a reference that stands for other money.
    """
    at = at or received_at
    reference = reference.strip()
    _expect_sane(invoice, reference, amount_minor, currency)
    if invoice.order_id is not None:
        # Orders are locked before invoices everywhere; confirming below needs this one.
        Order.objects.select_for_update(no_key=True).get(pk=invoice.order_id)
    account = lock_account(organization_id=invoice.organization_id)
    fresh = locked(invoice.pk)
    payment, created = Payment.objects.get_or_create(
        method=method,
        reference=reference,
        defaults={
            "invoice": fresh,
            "amount_minor": amount_minor,
            "currency": currency,
            "received_at": received_at,
            "recorded_by": actor,
        },
    )
    if not created:
        _expect_same(payment, fresh, amount_minor, currency)
        return payment
    applied = min(amount_minor, fresh.outstanding_minor) if fresh.is_unpaid else 0
    _expect_covered(payment, surplus=amount_minor - applied)
    fresh.paid_minor += applied
    fresh.gift_minor += applied if method == Payment.Method.GIFT else 0
    fresh.save(update_fields=["paid_minor", "gift_minor"])
    _post(account, fresh, payment, applied=applied, at=at, actor=actor)
    _settle(fresh, payment, surplus=amount_minor - applied, at=at, actor=actor)
    invoice.refresh_from_db()
    return payment


def _expect_sane(invoice: Invoice, reference: str, amount_minor: int, currency: str) -> None:
    if invoice.status == Invoice.Status.DRAFT:
        raise PaymentRefused("not_issued", _("A draft cannot be paid."))
    if not reference:
        raise PaymentRefused("reference_missing", _("Give the reference of the payment."))
    if amount_minor <= 0:
        raise PaymentRefused("amount_not_positive", _("The amount must be more than zero."))
    if currency != invoice.currency:
        raise PaymentRefused("currency_differs", _("The invoice is in %(currency)s.") % {"currency": invoice.currency})


def _expect_same(payment: Payment, invoice: Invoice, amount_minor: int, currency: str) -> None:
    """A repeated reference is the same money or a mistake."""
    if (payment.invoice_id, payment.amount_minor, payment.currency) != (invoice.pk, amount_minor, currency):
        raise PaymentRefused(
            "reference_taken",
            _("This reference is already recorded for invoice %(number)s over %(amount)s.")
            % {"number": payment.invoice, "amount": format_minor(payment.amount_minor, payment.currency)},
        )


def _expect_covered(payment: Payment, *, surplus: int) -> None:
    """The customer's own credit pays what is due and no more; only money from outside can be too much."""
    if surplus and payment.method in OWN_MONEY:
        raise PaymentRefused("not_due", _("This is more than the invoice still has to be paid."))


def _post(
    account: BillingAccount, invoice: Invoice, payment: Payment, *, applied: int, at: datetime, actor: User | None
) -> None:
    kind, book = BOOKED[Payment.Method(payment.method)]
    ledger.post(
        account=account,
        kind=kind,
        fact=f"{payment.method}:{payment.reference}",
        entries=_sides(book, payment.amount_minor, applied),
        currency=payment.currency,
        invoice=invoice,
        at=at,
        actor=actor,
    )


def _sides(book: Book, amount: int, applied: int) -> dict[Book, int]:
    sides = {book: amount, Book.RECEIVABLE: -applied}
    return sides | {Book.WALLET: applied - amount} if amount > applied else sides


def _settle(invoice: Invoice, payment: Payment, *, surplus: int, at: datetime, actor: User | None) -> None:
    amount = format_minor(payment.amount_minor, payment.currency)
    if not invoice.is_unpaid:
        _flag(invoice, f"{amount} ({payment.reference}) came for an invoice that is {invoice.status}", at, actor)
        return
    if invoice.outstanding_minor:
        record_event(invoice, at=at, actor=actor, note=f"part payment of {amount} ({payment.reference})")
        return
    invoice.paid_at = payment.received_at
    # Money that came by bank is still to be reported to Stripe, which the sweep of open invoices does.
    elsewhere = payment.method != Payment.Method.STRIPE and invoice.collection == Invoice.Collection.STRIPE
    invoice.next_check_at = at if elsewhere else None
    # One that Stripe may not know yet is still brought there.
    invoice.next_push_at = at if elsewhere and not invoice.stripe_invoice_id else None
    move_invoice(invoice, Invoice.Status.PAID, at=at, actor=actor, note=f"{amount} ({payment.reference})")
    if surplus:
        _flag(invoice, f"overpaid by {format_minor(surplus, invoice.currency)}", at, actor)
    _confirm_order(invoice, at)


def _confirm_order(invoice: Invoice, at: datetime) -> None:
    if invoice.order_id is None:
        return
    try:
        with transaction.atomic():
            orders_actions.confirm(order_id=invoice.order_id, at=at)
    except orders_actions.HoldGone:
        _flag(invoice, "paid after the order was cancelled: the cards are gone, credit it or order again", at, None)


def _flag(invoice: Invoice, problem: str, at: datetime, actor: User | None) -> None:
    """A line in the history and a warning in the log; the money itself is in the customer's balance."""
    record_event(invoice, at=at, actor=actor, note=f"attention: {problem}")
    logger.warning("invoice %s: %s", invoice, problem)


def settle_without_money(*, invoice: Invoice, at: datetime) -> None:
    """Mark an invoice over nothing as paid inside the caller's transaction, which holds its row and its order's."""
    if invoice.total_minor != 0:
        raise PaymentRefused("not_free", _("This invoice has an amount to be paid."))
    invoice.paid_at = at
    move_invoice(invoice, Invoice.Status.PAID, at=at, note="nothing to pay")
    _confirm_order(invoice, at)
