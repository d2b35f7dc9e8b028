"""Every night: our books against what Stripe lists, each difference a row until it is gone, and its repair.

Comparing changes nothing but those rows. A repair asks Stripe anew and applies what it says by the same code that
webhooks use; what that cannot settle needs a person.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from billing import stripe_gateway
from billing.actions.disputes import apply_dispute
from billing.actions.refunds import apply_refund, hurry_refund, send_refund
from billing.actions.syncing import apply_stripe_invoice, ours
from billing.actions.telling_stripe import apply_credit_note, retry_credit_note
from billing.actions.topups import settle_checkout
from billing.models import (
    CreditNote,
    Dispute,
    Invoice,
    Payment,
    Reconciliation,
    ReconciliationDifference,
    Refund,
    TopUp,
)
from marketplace.lib.refusals import Refusal

logger = logging.getLogger(__name__)

RECONCILED_DAYS = timedelta(days=35)
# What we may still be telling Stripe is no difference yet.
SETTLING = timedelta(hours=1)

Status = Invoice.Status
Kind = ReconciliationDifference.Kind
State = ReconciliationDifference.State


class NotRepaired(Refusal):
    """Stripe still says something else, or a person must decide; nothing has changed beyond what Stripe said."""

    code = "not_repaired"


@dataclass(frozen=True, slots=True)
class Difference:
    """Where Stripe's books and ours disagree about one object. `stripe_id` is empty where Stripe has none."""

    kind: str
    subject: str
    stripe_id: str
    problem: str

    def __str__(self) -> str:
        return f"{self.kind} {self.subject} ({self.stripe_id or '-'}): {self.problem}"


def reconcile(*, at: datetime, since: datetime | None = None) -> list[Difference]:
    """Compare everything that Stripe lists as made in `[since, at)` (35 days by default) with ours and keep the
    differences as rows; those of an earlier run that are gone are closed. Lets Stripe's errors through."""
    since = since or at - RECONCILED_DAYS
    run = Reconciliation.objects.create(since=since, until=at, started_at=at)
    try:
        compared, differences = _compare(since, at)
    except stripe_gateway.GatewayError as problem:
        Reconciliation.objects.filter(pk=run.pk).update(error=str(problem)[:300])
        raise
    _keep(run, differences, compared, at)
    for difference in differences:
        logger.error("reconciliation: %s", difference)
    return differences


def _compare(since: datetime, at: datetime) -> tuple[int, list[Difference]]:
    compared, differences = 0, []
    for compare in (_invoices, _checkouts, _refunds, _credit_notes, _disputes):
        for found in compare(since, at):
            compared += 1
            if found is not None:
                differences.append(found)
    return compared, differences


@transaction.atomic
def _keep(run: Reconciliation, differences: list[Difference], compared: int, at: datetime) -> None:
    seen = []
    for difference in differences:
        row, _created = ReconciliationDifference.objects.update_or_create(
            kind=difference.kind,
            stripe_id=difference.stripe_id,
            subject=difference.subject[:120],
            state=State.OPEN,
            defaults={"problem": difference.problem[:300], "seen_at": at},
            create_defaults={"problem": difference.problem[:300], "found_at": at, "seen_at": at},
        )
        seen.append(row.pk)
    still = ReconciliationDifference.objects.filter(state=State.OPEN, found_at__gte=run.since)
    still.exclude(pk__in=seen).update(state=State.GONE, closed_at=at)
    run.finished_at, run.compared, run.found = at, compared, len(differences)
    run.save(update_fields=["finished_at", "compared", "found"])


# --- invoices -------------------------------------------------------------------------------------------------------
# Stripe's states that agree with each of ours; what is still on its way is no difference.
_AGREES = {
    Status.OPEN: {"open"},
    Status.PAID: {"paid"},
    Status.VOID: {"void"},
    Status.UNCOLLECTIBLE: {"uncollectible"},
}


def _invoices(since: datetime, at: datetime) -> Iterator[Difference | None]:
    seen = set()
    for theirs in stripe_gateway.list_invoices(created_from=since, created_to=at):
        seen.add(theirs.id)
        problems = "; ".join(_invoice_problems(ours(theirs), theirs))
        name = theirs.number or theirs.invoice_uuid or theirs.id
        yield Difference(Kind.INVOICE, name, theirs.id, problems) if problems else None
    for invoice in Invoice.objects.filter(issued_at__gte=since, issued_at__lt=at).exclude(stripe_invoice_id=""):
        if invoice.stripe_invoice_id not in seen and not _invoice_exists(invoice.stripe_invoice_id):
            yield Difference(Kind.INVOICE, str(invoice), invoice.stripe_invoice_id, "Stripe does not know it")


def _invoice_exists(stripe_id: str) -> bool:
    try:
        stripe_gateway.retrieve_invoice(invoice_id=stripe_id)
    except stripe_gateway.Refused:
        return False
    return True


def _invoice_problems(invoice: Invoice | None, theirs: stripe_gateway.StripeInvoice) -> Iterable[str]:
    if invoice is None:
        yield "not one of ours"
        return
    if theirs.status == "void" and invoice.stripe_invoice_id != theirs.id:
        return  # an attempt that was taken back
    if theirs.status == "draft" and invoice.status == Status.PUSHING:
        return
    if (theirs.total, theirs.currency) != (invoice.total_minor, invoice.currency):
        yield f"total {theirs.total} {theirs.currency} there, {invoice.total_minor} {invoice.currency} here"
    if invoice.status in _AGREES and theirs.status not in _AGREES[Status(invoice.status)] and not _reopened(invoice):
        yield f"{theirs.status} there, {invoice.status} here"
    elif theirs.status == "open" and theirs.amount_remaining != invoice.outstanding_minor:
        yield f"{theirs.amount_remaining} to be paid there, {invoice.outstanding_minor} here"
    if invoice.stripe_invoice_id and invoice.stripe_invoice_id != theirs.id:
        yield f"our invoice names {invoice.stripe_invoice_id}"


def _reopened(invoice: Invoice) -> bool:
    """Paid at Stripe and owed here again, because its payment was lost to a dispute."""
    return Dispute.objects.filter(payment__invoice=invoice, status=Dispute.Status.LOST).exists()


# --- top-ups --------------------------------------------------------------------------------------------------------
def _checkouts(since: datetime, at: datetime) -> Iterator[Difference | None]:
    for theirs in stripe_gateway.list_checkouts(created_from=since, created_to=at):
        if theirs.mode != "payment":
            continue
        problem = _checkout_problem(theirs)
        subject = theirs.topup_key or theirs.client_reference_id or theirs.id
        yield Difference(Kind.CHECKOUT, subject, theirs.id, problem) if problem else None


def _checkout_problem(theirs: stripe_gateway.CheckoutSession) -> str:
    if not theirs.is_paid:
        return ""
    credited = TopUp.objects.filter(payment_intent=theirs.payment_intent).first()
    if credited is None:
        return f"{theirs.amount_total} {theirs.currency} paid there, not credited here"
    if (credited.amount_minor, credited.currency) != (theirs.amount_total, theirs.currency):
        here = f"{credited.amount_minor} {credited.currency}"
        return f"{theirs.amount_total} {theirs.currency} paid there, {here} credited here"
    return ""


# --- refunds --------------------------------------------------------------------------------------------------------
_REFUND_AGREES = {
    "pending": {Refund.Status.PENDING, Refund.Status.SUBMITTED},
    "requires_action": {Refund.Status.PENDING, Refund.Status.SUBMITTED},
    "succeeded": {Refund.Status.SUCCEEDED},
    "failed": {Refund.Status.FAILED},
    "canceled": {Refund.Status.FAILED},
}


def _refunds(since: datetime, at: datetime) -> Iterator[Difference | None]:
    seen = set()
    for theirs in stripe_gateway.list_refunds(created_from=since, created_to=at):
        seen.add(theirs.id)
        problem = _refund_problem(theirs)
        yield Difference(Kind.REFUND, theirs.refund_key or theirs.id, theirs.id, problem) if problem else None
    sent = Refund.objects.filter(method=Refund.Method.STRIPE, created_at__gte=since, created_at__lt=at)
    for refund in sent.exclude(reference=""):
        if refund.reference not in seen and not _refund_exists(refund.reference):
            yield Difference(Kind.REFUND, str(refund), refund.reference, "Stripe does not know it")
    for refund in sent.filter(status=Refund.Status.PENDING, created_at__lt=at - SETTLING):
        yield Difference(Kind.REFUND, str(refund), "", f"not sent yet: {refund.error or 'waiting'}")


def _refund_problem(theirs: stripe_gateway.Refund) -> str:
    mine = Refund.objects.filter(Q(reference=theirs.id) | Q(key__in=_keys(theirs.refund_key))).first()
    if mine is None:
        return f"{theirs.amount} {theirs.currency} sent back there, not by us"
    if (mine.amount_minor, mine.currency) != (theirs.amount, theirs.currency):
        return f"{theirs.amount} {theirs.currency} there, {mine.amount_minor} {mine.currency} here"
    if mine.reference and mine.reference != theirs.id and theirs.status not in {"failed", "canceled"}:
        return f"sent twice: ours is {mine.reference}"
    if mine.status not in _REFUND_AGREES.get(theirs.status, set()):
        return f"{theirs.status} there, {mine.status} here"
    return ""


def _refund_exists(reference: str) -> bool:
    try:
        stripe_gateway.retrieve_refund(refund_id=reference)
    except stripe_gateway.Refused:
        return False
    return True


def _keys(text: str) -> list[UUID]:
    try:
        return [UUID(text)]
    except ValueError:
        return []


# --- credit notes ---------------------------------------------------------------------------------------------------
def _credit_notes(since: datetime, at: datetime) -> Iterator[Difference | None]:
    for theirs in stripe_gateway.list_credit_notes(created_from=since, created_to=at):
        problem = _note_problem(theirs)
        yield Difference(Kind.CREDIT_NOTE, theirs.number, theirs.id, problem) if problem else None
    missing = CreditNote.objects.filter(
        issued_at__gte=since, issued_at__lt=at - SETTLING, stripe_credit_note_id=""
    ).exclude(invoice__stripe_invoice_id="")
    for note in missing.filter(invoice__collection=Invoice.Collection.STRIPE):
        yield Difference(Kind.CREDIT_NOTE, note.number, "", f"not at Stripe: {note.push_error or 'waiting'}")


def _note_problem(theirs: stripe_gateway.CreditNote) -> str:
    mine = CreditNote.objects.filter(key__in=_keys(theirs.note_key)).first()
    if mine is None:
        return "not one of ours"
    if (mine.total_minor, mine.currency) != (theirs.amount, theirs.currency):
        return f"{theirs.amount} {theirs.currency} there, {mine.total_minor} {mine.currency} here"
    if theirs.status != "issued":
        return f"{theirs.status} there"
    if mine.stripe_credit_note_id != theirs.id:
        return f"ours names {mine.stripe_credit_note_id or 'none'}"
    return ""


# --- disputes -------------------------------------------------------------------------------------------------------
def _disputes(since: datetime, at: datetime) -> Iterator[Difference | None]:
    for theirs in stripe_gateway.list_disputes(created_from=since, created_to=at):
        problem = _dispute_problem(theirs)
        yield Difference(Kind.DISPUTE, theirs.payment_intent, theirs.id, problem) if problem else None


def _dispute_problem(theirs: stripe_gateway.Dispute) -> str:
    mine = Dispute.objects.filter(stripe_id=theirs.id).first()
    if mine is None:
        known = Payment.objects.filter(reference=theirs.payment_intent).exists()
        known = known or TopUp.objects.filter(payment_intent=theirs.payment_intent).exists()
        return "unknown here" if known else "its payment is not one of ours"
    wanted = Dispute.Status.LOST if theirs.is_lost else Dispute.Status.WON if theirs.is_won else Dispute.Status.OPEN
    return "" if mine.status == wanted else f"{theirs.status} there, {mine.status} here"


# --- repair ---------------------------------------------------------------------------------------------------------
def repair(*, difference_id: int, at: datetime, actor: User | None = None) -> ReconciliationDifference:
    """Ask Stripe what the object is now, apply that here, and close the difference if it is gone.

    Raises NotRepaired where the books still differ: then a person must decide. Lets Stripe's errors through.
    """
    row = ReconciliationDifference.objects.get(pk=difference_id)
    if row.state != State.OPEN:
        return row
    problem = _REPAIRS[Kind(row.kind)](row, at)
    if problem:
        ReconciliationDifference.objects.filter(pk=row.pk, state=State.OPEN).update(problem=problem[:300], seen_at=at)
        raise NotRepaired(
            message=_("Stripe was asked again and still differs: %(problem)s. A person must decide.")
            % {"problem": problem}
        )
    ReconciliationDifference.objects.filter(pk=row.pk, state=State.OPEN).update(
        state=State.REPAIRED, closed_at=at, closed_by=actor
    )
    row.refresh_from_db()
    return row


def _repair_invoice(row: ReconciliationDifference, at: datetime) -> str:
    try:
        theirs = stripe_gateway.retrieve_invoice(invoice_id=row.stripe_id)
    except stripe_gateway.Refused:
        return "Stripe does not know it"
    return "; ".join(_invoice_problems(apply_stripe_invoice(theirs=theirs, at=at), theirs))


def _repair_checkout(row: ReconciliationDifference, at: datetime) -> str:
    theirs = stripe_gateway.retrieve_checkout(session_id=row.stripe_id)
    settle_checkout(session=theirs, at=at)
    return _checkout_problem(theirs)


def _repair_refund(row: ReconciliationDifference, at: datetime) -> str:
    if not row.stripe_id:
        refund = Refund.objects.get(key=row.subject)
        if refund.status == Refund.Status.PENDING:
            hurry_refund(refund=refund, at=at)
            refund = send_refund(refund_id=refund.pk, at=at)
        return "" if refund.status != Refund.Status.PENDING else f"not sent yet: {refund.error or 'waiting'}"
    try:
        theirs = stripe_gateway.retrieve_refund(refund_id=row.stripe_id)
    except stripe_gateway.Refused:
        return "Stripe does not know it"
    apply_refund(theirs=theirs, at=at)
    return _refund_problem(theirs)


def _repair_note(row: ReconciliationDifference, at: datetime) -> str:
    if row.stripe_id:
        theirs = stripe_gateway.retrieve_credit_note(credit_note_id=row.stripe_id)
        apply_credit_note(theirs=theirs)
        return _note_problem(theirs)
    note = retry_credit_note(note=CreditNote.objects.get(number=row.subject), at=at)
    return "" if note.stripe_credit_note_id else f"not at Stripe: {note.push_error or 'waiting'}"


def _repair_dispute(row: ReconciliationDifference, at: datetime) -> str:
    theirs = stripe_gateway.retrieve_dispute(dispute_id=row.stripe_id)
    apply_dispute(theirs=theirs, at=at)
    return _dispute_problem(theirs)


_REPAIRS = {
    Kind.INVOICE: _repair_invoice,
    Kind.CHECKOUT: _repair_checkout,
    Kind.REFUND: _repair_refund,
    Kind.CREDIT_NOTE: _repair_note,
    Kind.DISPUTE: _repair_dispute,
}
