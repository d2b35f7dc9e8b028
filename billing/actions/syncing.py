"""What Stripe says about an invoice, applied by rank: never by the order in which news arrived."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef

from billing import stripe_gateway
from billing.actions.moving import locked, move_invoice, record_event
from billing.actions.payments import record_payment
from billing.actions.releasing import VoidRefused, mark_void
from billing.actions.telling_stripe import OUTSIDE, report_payments
from billing.models import Invoice, Payment
from billing.stripe_gateway import StripeInvoice

logger = logging.getLogger(__name__)

Status = Invoice.Status

CHECK_AT_MOST = 200
FIRST_CHECK = timedelta(minutes=10)
LONGEST_CHECK = timedelta(hours=6)


def ours(theirs: StripeInvoice) -> Invoice | None:
    """Our invoice that a Stripe invoice stands for, or None when it is none of ours."""
    try:
        key = UUID(theirs.invoice_uuid)
    except ValueError:
        return None
    return Invoice.objects.filter(key=key).first()


def apply_stripe_invoice(*, theirs: StripeInvoice, at: datetime) -> Invoice | None:
    """Bring our invoice to what Stripe's state says: draft and open say nothing new, paid, void and uncollectible do.

    Applying the same or an older state again changes nothing. Reads Stripe's payments, so not inside a transaction.
    Returns our invoice, or None when it is none of ours.
    """
    invoice = ours(theirs)
    if invoice is None:
        return None
    if theirs.status == "paid":
        _record_payments(invoice, theirs, at)
    elif theirs.status == "void":
        _follow_void(invoice, theirs, at)
    elif theirs.status == "uncollectible":
        _mark_uncollectible(invoice.pk, at)
    elif theirs.finalization_error:
        _note_not_finalized(invoice.pk, theirs, at)
    invoice.refresh_from_db()
    return invoice


def _record_payments(invoice: Invoice, theirs: StripeInvoice, at: datetime) -> None:
    """One payment of ours for each of Stripe's. Paid elsewhere, says Stripe: money only if we do not know it yet."""
    _remember(invoice.pk, theirs)
    paid = [p for p in stripe_gateway.list_payments(invoice_id=theirs.id) if p.status == "paid" and p.amount > 0]
    for payment in paid:
        record_payment(
            invoice=invoice,
            method=Payment.Method.STRIPE,
            reference=payment.payment_intent or payment.id,
            amount_minor=payment.amount,
            currency=payment.currency,
            received_at=payment.paid_at or at,
            at=at,
        )
    if paid:
        return
    invoice.refresh_from_db()
    if invoice.status not in {Status.PAID, Status.VOID} and theirs.total == invoice.total_minor:
        record_payment(
            invoice=invoice,
            method=Payment.Method.BANK_TRANSFER,
            reference=f"{theirs.id}:out-of-band",
            amount_minor=invoice.outstanding_minor,
            currency=theirs.currency,
            received_at=at,
            at=at,
        )


@transaction.atomic
def _remember(invoice_id: int, theirs: StripeInvoice) -> None:
    """Stripe's id and page, where the push was killed before it could write them."""
    invoice = locked(invoice_id)
    if not invoice.stripe_invoice_id:
        invoice.stripe_invoice_id, invoice.hosted_url = theirs.id, theirs.hosted_invoice_url
        invoice.save(update_fields=["stripe_invoice_id", "hosted_url"])


def _follow_void(invoice: Invoice, theirs: StripeInvoice, at: datetime) -> None:
    """The Stripe invoice that ours names is void, so ours is too; an attempt that was taken back is not ours."""
    if invoice.stripe_invoice_id != theirs.id or invoice.status not in {Status.OPEN, Status.UNCOLLECTIBLE}:
        return
    try:
        mark_void(invoice_id=invoice.pk, at=at, note=f"{theirs.id} is void at Stripe")
    except VoidRefused:
        with transaction.atomic():
            record_event(locked(invoice.pk), at=at, note=f"attention: {theirs.id} is void at Stripe, but money came")
        logger.error("invoice %s: %s is void at Stripe, but money came", invoice, theirs.id)


@transaction.atomic
def _mark_uncollectible(invoice_id: int, at: datetime) -> None:
    invoice = locked(invoice_id)
    if invoice.status == Status.OPEN:
        move_invoice(invoice, Status.UNCOLLECTIBLE, at=at, note="marked at Stripe")


@transaction.atomic
def _note_not_finalized(invoice_id: int, theirs: StripeInvoice, at: datetime) -> None:
    """Stripe could not open its draft. Ours stays where it is; the reason stands on it, once, for finance."""
    invoice = locked(invoice_id)
    problem = f"not finalized at Stripe: {theirs.finalization_error}"[:300]
    if invoice.status != Status.PUSHING or invoice.push_error == problem:
        return
    invoice.push_error = problem
    invoice.save(update_fields=["push_error"])
    record_event(invoice, at=at, note=f"attention: {problem}")
    logger.error("invoice %s: %s", invoice, problem)


# --- asking, should a webhook never arrive ------------------------------------------------------------------
def sweep_open_invoices(*, at: datetime) -> int:
    """Ask Stripe about open invoices whose check is due, a growing while apart; returns how many were asked about.

    Also tells Stripe about money that came by other means for an invoice that is still payable there.
    """
    report_payments(at=at)
    due = Invoice.objects.filter(status=Status.OPEN, next_check_at__lte=at).exclude(stripe_invoice_id="")
    checked = 0
    for invoice in due.order_by("next_check_at")[:CHECK_AT_MOST]:
        Invoice.objects.filter(pk=invoice.pk, status=Status.OPEN).update(next_check_at=at + _until_check(invoice, at))
        checked += _checked(invoice, at)
    for invoice in paid_elsewhere(at):
        report_out_of_band(invoice=invoice, at=at)
    return checked


def _checked(invoice: Invoice, at: datetime) -> bool:
    try:
        apply_stripe_invoice(theirs=stripe_gateway.retrieve_invoice(invoice_id=invoice.stripe_invoice_id), at=at)
    except stripe_gateway.GatewayError as problem:
        logger.warning("invoice %s could not be checked: %s", invoice, problem)
        return False
    return True


def _until_check(invoice: Invoice, at: datetime) -> timedelta:
    """A quarter of the invoice's age, so that a fresh one is looked at often and an old one a few times a day."""
    age = at - (invoice.issued_at or at)
    return min(max(age / 4, FIRST_CHECK), LONGEST_CHECK)


def paid_elsewhere(at: datetime) -> Iterable[Invoice]:
    """Invoices paid by other means whose Stripe invoice nobody was told about yet."""
    bank = Payment.objects.filter(invoice=OuterRef("pk"), method__in=OUTSIDE)
    return (
        Invoice.objects.filter(Exists(bank), status=Status.PAID, next_check_at__lte=at)
        .exclude(stripe_invoice_id="")
        .order_by("pk")[:CHECK_AT_MOST]
    )


def report_out_of_band(*, invoice: Invoice, at: datetime) -> None:
    """Tell Stripe that the money came by bank, so that nobody pays there too. The sweep repeats it until it holds."""
    try:
        stripe_gateway.pay_out_of_band(
            invoice_id=invoice.stripe_invoice_id, invoice_uuid=invoice.key, version=invoice.push_version
        )
    except stripe_gateway.Refused as problem:
        logger.error("invoice %s: Stripe does not take the bank payment: %s", invoice, problem)
    except stripe_gateway.UnknownOutcome as problem:
        if problem.stored:
            Invoice.objects.filter(pk=invoice.pk, push_version=invoice.push_version).update(
                push_version=F("push_version") + 1
            )
        return
    except stripe_gateway.GatewayError as problem:
        logger.warning("invoice %s: Stripe was not told of the bank payment: %s", invoice, problem)
        return
    Invoice.objects.filter(pk=invoice.pk, status=Status.PAID).update(next_check_at=None)
