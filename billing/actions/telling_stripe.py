"""What Stripe is told after the fact: money that came by other means, and credit notes. Sweeps with leases and pauses.

Our books are right without it; Stripe's page must not ask for what was paid or credited here.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet

from billing import stripe_gateway
from billing.grouping import grouped
from billing.models import CreditNote, Invoice, Payment, Refund

logger = logging.getLogger(__name__)

LEASE = timedelta(minutes=2)
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(hours=1)
# Until what a note builds on is at Stripe: its invoice, its refunds, earlier money.
WAIT = timedelta(minutes=1)
AT_MOST = 200

OUTSIDE = (Payment.Method.BANK_TRANSFER, Payment.Method.WALLET, Payment.Method.GIFT)
# How Stripe names the means, in the reports that finance reads there.
MEANS = {
    Payment.Method.BANK_TRANSFER: "bank transfer",
    Payment.Method.WALLET: "balance",
    Payment.Method.GIFT: "gifted credit",
}


# --- money that came by other means ---------------------------------------------------------------------------------
def unreported_payments() -> QuerySet[Payment]:
    """Money from outside that an invoice at Stripe does not carry yet, oldest first."""
    waits = Q(invoice__status__in=[Invoice.Status.OPEN, Invoice.Status.UNCOLLECTIBLE])
    waits |= Q(invoice__status=Invoice.Status.PAID, invoice__next_check_at__isnull=False)
    return (
        Payment.objects.filter(waits, method__in=OUTSIDE, reported_at__isnull=True)
        .filter(invoice__collection=Invoice.Collection.STRIPE)
        .exclude(invoice__stripe_invoice_id="")
        .select_related("invoice__account")
        .order_by("pk")
    )


def report_payments(*, at: datetime) -> int:
    """Tell Stripe of every payment from outside, once each; returns how many it knows now."""
    return sum(report_payment(payment=payment, at=at) for payment in unreported_payments()[:AT_MOST])


def report_payment(*, payment: Payment, at: datetime) -> bool:
    """Tell Stripe of one payment; whether that is settled. Never inside a transaction; repeatable for ever."""
    invoice = payment.invoice
    try:
        stripe_gateway.report_partial_payment(
            invoice_id=invoice.stripe_invoice_id,
            payment_key=f"{payment.method}:{payment.reference}",
            version=invoice.push_version,
            amount=payment.amount_minor,
            currency=payment.currency,
            customer=invoice.account.stripe_customer_id,
            reference=payment.reference,
            method=MEANS[Payment.Method(payment.method)],
            received_at=payment.received_at,
        )
    except stripe_gateway.Refused as problem:
        # It takes none any more: paid there too, or void. The nightly comparison says so where that is wrong.
        logger.error("invoice %s: Stripe does not take %s: %s", invoice, payment, problem)
    except stripe_gateway.UnknownOutcome as problem:
        if problem.stored:
            Invoice.objects.filter(pk=invoice.pk, push_version=invoice.push_version).update(
                push_version=F("push_version") + 1
            )
        return False
    except stripe_gateway.GatewayError as problem:
        logger.warning("invoice %s: Stripe was not told of %s: %s", invoice, payment, problem)
        return False
    Payment.objects.filter(pk=payment.pk, reported_at__isnull=True).update(reported_at=at)
    return True


# --- credit notes ---------------------------------------------------------------------------------------------------
def sweep_credit_notes(*, at: datetime) -> int:
    """Tell Stripe of credit notes that wait; returns how many were taken up. One that fails holds up no other."""
    due = CreditNote.objects.filter(next_push_at__lte=at).order_by("next_push_at", "pk")
    taken = list(due.values_list("pk", flat=True)[:AT_MOST])
    for note_id in taken:
        try:
            push_credit_note(note_id=note_id, at=at)
        except Exception:
            logger.exception("credit note %s could not be sent", note_id)
    return len(taken)


def push_credit_note(*, note_id: int, at: datetime) -> CreditNote:
    """One attempt to bring a note to Stripe. Returns it as it then is; Stripe raises nothing."""
    note = _lease(note_id, at)
    if note is None:
        return CreditNote.objects.get(pk=note_id)
    invoice = note.invoice
    if not invoice.stripe_invoice_id:
        on_its_way = (
            invoice.status in {Invoice.Status.ISSUED, Invoice.Status.PUSHING} or invoice.next_push_at is not None
        )
        return _settle(note, next_push_at=at + WAIT if on_its_way else None)
    if _builds_on_something(note):
        return _settle(note, next_push_at=at + WAIT)
    try:
        theirs = _at_stripe(note)
    except stripe_gateway.GatewayError as problem:
        return _give_up(note, problem, at)
    return _settle(note, next_push_at=None, stripe_credit_note_id=theirs.id, push_error="")


def retry_credit_note(*, note: CreditNote, at: datetime) -> CreditNote:
    """Take a parked note up again: finance has looked at why it stood still."""
    waiting = CreditNote.objects.filter(pk=note.pk, stripe_credit_note_id="")
    waiting.update(next_push_at=at, push_version=F("push_version") + 1)
    return push_credit_note(note_id=note.pk, at=at)


@transaction.atomic
def _lease(note_id: int, at: datetime) -> CreditNote | None:
    note = CreditNote.objects.select_for_update(no_key=True).get(pk=note_id)
    if note.next_push_at is None or note.next_push_at > at:
        return None
    note.next_push_at = at + LEASE
    note.push_attempts += 1
    note.save(update_fields=["next_push_at", "push_attempts"])
    return CreditNote.objects.select_related("invoice__account").get(pk=note_id)


def _builds_on_something(note: CreditNote) -> bool:
    """Whether Stripe is still to hear of a refund or a payment that the note's parts depend on."""
    waiting = note.refunds.filter(method=Refund.Method.STRIPE, status=Refund.Status.PENDING)
    return waiting.exists() or unreported_payments().filter(invoice=note.invoice_id).exists()


def _at_stripe(note: CreditNote) -> stripe_gateway.CreditNote:
    """Everything said to Stripe: what exists is adopted, else the note is made against what remains there."""
    found = stripe_gateway.find_credit_note(invoice_id=note.invoice.stripe_invoice_id, note_key=note.key)
    if found is not None:
        return found
    theirs = stripe_gateway.retrieve_invoice(invoice_id=note.invoice.stripe_invoice_id)
    before = min(note.total_minor, theirs.amount_remaining)
    refunds = _refunds(note, most=note.total_minor - before)
    return stripe_gateway.create_credit_note(
        invoice_id=theirs.id,
        note_key=note.key,
        version=note.push_version,
        lines=_lines(note),
        memo=note.number,
        out_of_band=note.total_minor - before - sum(amount for _id, amount in refunds),
        refunds=refunds,
        metadata={"number": note.number},
    )


def _refunds(note: CreditNote, *, most: int) -> list[tuple[str, int]]:
    """Stripe's refunds that carry the note, as far as Stripe counts it as paid."""
    sent = note.refunds.filter(method=Refund.Method.STRIPE).exclude(reference="").exclude(status=Refund.Status.FAILED)
    chosen, left = [], most
    for refund in sent.order_by("pk"):
        if amount := min(refund.amount_minor, left):
            chosen.append((refund.reference, amount))
            left -= amount
    return chosen


def _lines(note: CreditNote) -> list[stripe_gateway.CreditLine]:
    """The note's amounts by Stripe's lines: our own, or the groups that a long invoice was sent in."""
    ours = list(note.invoice.lines.select_related("order_line").order_by("position"))
    charge_of = {
        line.pk: charge.key for charge in grouped(ours, most=stripe_gateway.MAX_LINES) for line in charge.lines
    }
    amounts: dict[str, int] = defaultdict(int)
    for line_id, amount in note.lines.values_list("line_id", "amount_minor"):
        amounts[str(charge_of[line_id])] += amount
    return list(_named(note, amounts))


def _named(note: CreditNote, amounts: dict[str, int]) -> Iterable[stripe_gateway.CreditLine]:
    for line in stripe_gateway.list_lines(invoice_id=note.invoice.stripe_invoice_id):
        if amount := amounts.pop(line.line_uuid, 0):
            yield stripe_gateway.CreditLine(line_id=line.id, amount=amount)
    if amounts:
        raise stripe_gateway.Refused(f"Stripe's invoice lacks lines of {note.number}", reason="line_missing")


def _give_up(note: CreditNote, problem: stripe_gateway.GatewayError, at: datetime) -> CreditNote:
    """A pause where coming again helps, parked with an alarm where it does not."""
    pause = min(FIRST_PAUSE * 2 ** min(note.push_attempts - 1, 10), LONGEST_PAUSE)
    parked = isinstance(problem, stripe_gateway.Refused)
    spent = isinstance(problem, stripe_gateway.KeyReused) or (
        isinstance(problem, stripe_gateway.UnknownOutcome) and problem.stored
    )
    log = logger.error if parked else logger.warning
    log("credit note %s was not sent: %s", note, problem)
    return _settle(
        note,
        next_push_at=None if parked else at + pause,
        push_error=str(problem)[:300],
        push_version=note.push_version + spent,
    )


def _settle(note: CreditNote, **changes: object) -> CreditNote:
    """Write down what came of this attempt, unless another has brought the note there meanwhile."""
    CreditNote.objects.filter(pk=note.pk, stripe_credit_note_id="").update(**changes)
    return CreditNote.objects.get(pk=note.pk)


def apply_credit_note(*, theirs: stripe_gateway.CreditNote) -> CreditNote | None:
    """Remember Stripe's id of a note of ours, where the push was killed before it could; None when it is not ours."""
    try:
        mine = CreditNote.objects.filter(key=UUID(theirs.note_key)).first()
    except ValueError:
        return None
    if mine is not None and not mine.stripe_credit_note_id:
        return _settle(mine, stripe_credit_note_id=theirs.id, next_push_at=None, push_error="")
    return mine
