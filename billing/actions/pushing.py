"""Pushing: an issued invoice is brought to Stripe and opened for payment.

The database says who may talk to Stripe about an invoice (a lease that expires) and what came of it; the network is
used between transactions. Killed at any point, repeated or run twice at once, Stripe ends up with one invoice, ours.
"""

import logging
import math
from collections.abc import Iterable
from contextlib import nullcontext
from datetime import datetime, timedelta
from decimal import Decimal

from django.db import transaction
from django.db.models import Q
from django.utils import translation

from billing import stripe_gateway
from billing.actions.moving import locked, move_invoice, record_event
from billing.grouping import Charge, grouped
from billing.models import BillingAccount, Invoice
from billing.stripe_gateway import InvoiceDraft, LineDraft, StripeInvoice
from orders.models import Order

logger = logging.getLogger(__name__)

Status = Invoice.Status

# How long one attempt may work before another may take over. Taking over early is harmless: both send the same keys.
LEASE = timedelta(minutes=2)
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(hours=1)
FIRST_CHECK = timedelta(minutes=10)
DAY = timedelta(days=1)
# Where an attempt may be under way: `next_push_at` is its lease or its pause.
ON_THE_WAY = frozenset({Status.PUSHING, Status.PAID})
LOCATED = ("stripe_invoice_id", "hosted_url")
# What one call to Stripe may take while somebody waits for the page.
PAGE_SECONDS = 6
# Stripe takes 500 characters.
DESCRIPTION = 500
TAX_NAME = "增值税 VAT"
TAX_COUNTRY = "CN"


def due_for_push(*, at: datetime) -> list[int]:
    """Ids of issued invoices that wait for Stripe, oldest first: new ones, those whose pause is over, those whose
    attempt died, and those that the balance paid before Stripe knew them. A parked one (no next push) waits for
    finance."""
    return list(
        Invoice.objects.filter(collection=Invoice.Collection.STRIPE)
        .filter(Q(status=Status.ISSUED) | Q(status__in=[Status.PUSHING, Status.PAID], next_push_at__lte=at))
        .order_by("issued_at", "pk")
        .values_list("pk", flat=True)
    )


def push(*, invoice_id: int, at: datetime, impatient: bool = False) -> Invoice:
    """Bring the invoice one attempt further: issued → pushing → open. Returns it as it then is; Stripe raises nothing.
    One that is paid from the balance stays paid: Stripe is shown it, and told of the money by a sweep.

    Does nothing when another attempt is running, the invoice is parked, or its pause is not over (`impatient` skips
    the pause: somebody is waiting in front of the page).
    """
    invoice = _lease(invoice_id, at, impatient=impatient)
    if invoice is None:
        return Invoice.objects.get(pk=invoice_id)
    try:
        with stripe_gateway.hurried(PAGE_SECONDS) if impatient else nullcontext():
            theirs = _bring(invoice)
    except stripe_gateway.GatewayError as problem:
        return _give_up(invoice, problem, at)
    return _finish(invoice, theirs, at)


def retry_push(*, invoice_id: int, at: datetime) -> Invoice:
    """Take a parked invoice up again: finance has looked at why it stood still."""
    with transaction.atomic():
        invoice = locked(invoice_id)
        if _is_parked(invoice):
            invoice.next_push_at = at
            invoice.save(update_fields=["next_push_at"])
    return push(invoice_id=invoice_id, at=at)


def _is_parked(invoice: Invoice) -> bool:
    on_its_way = invoice.status == Status.PUSHING or (invoice.status == Status.PAID and not invoice.stripe_invoice_id)
    return on_its_way and invoice.next_push_at is None


# --- the lease ----------------------------------------------------------------------------------------------
@transaction.atomic
def _lease(invoice_id: int, at: datetime, *, impatient: bool) -> Invoice | None:
    """The invoice with this attempt's lease on it, or None when it is not ours to push now."""
    invoice = locked(invoice_id)
    if invoice.collection != Invoice.Collection.STRIPE or not _may_start(invoice, at, impatient=impatient):
        return None
    order = None if invoice.status == Status.PAID else invoice.order
    if order is not None and order.status != Order.Status.AWAITING_PAYMENT:
        return None  # its hold ran out or it was cancelled: settling voids the invoice
    take_lease(invoice, at)
    if invoice.status == Status.ISSUED:
        move_invoice(invoice, Status.PUSHING, at=at)
    return Invoice.objects.select_related("account", "organization").get(pk=invoice_id)


def _may_start(invoice: Invoice, at: datetime, *, impatient: bool) -> bool:
    if invoice.status == Status.ISSUED:
        return True
    if invoice.status not in ON_THE_WAY or invoice.next_push_at is None:
        return False
    return invoice.next_push_at <= at or (impatient and not leased(invoice, at))


def leased(invoice: Invoice, at: datetime) -> bool:
    """Whether an attempt may be talking to Stripe now. A pause after a failure carries its error, a lease none."""
    return (
        invoice.status in ON_THE_WAY
        and invoice.next_push_at is not None
        and invoice.next_push_at > at
        and not invoice.push_error
    )


def take_lease(invoice: Invoice, at: datetime) -> None:
    """Mark a locked invoice as being worked on until the lease expires."""
    invoice.next_push_at = at + LEASE
    invoice.push_started_at = invoice.push_started_at or at
    invoice.push_attempts += 1
    invoice.push_error = ""
    invoice.save(update_fields=["next_push_at", "push_started_at", "push_attempts", "push_error"])


# --- the network --------------------------------------------------------------------------------------------
def _bring(invoice: Invoice) -> StripeInvoice:
    """Everything said to Stripe. Any attempt but the first looks up what exists first, so a key's age never matters."""
    draft = _draft(invoice, customer=ensure_customer(invoice.account, version=invoice.push_version))
    theirs = stripe_gateway.push_invoice(draft, stripe_id=invoice.stripe_invoice_id, look_up=invoice.push_attempts > 1)
    if theirs.status in {"void", "uncollectible"}:
        raise stripe_gateway.Refused(f"{theirs.id} is {theirs.status} at Stripe", reason="taken_back")
    if invoice.kind == Invoice.Kind.USAGE and theirs.status == "open":
        _mail(invoice, theirs)
    return theirs


def _mail(invoice: Invoice, theirs: StripeInvoice) -> None:
    """Stripe mails a month's bill once; a refusal to mail does not hold the invoice back."""
    try:
        stripe_gateway.send(invoice_id=theirs.id, invoice_uuid=invoice.key, version=invoice.push_version)
    except (stripe_gateway.Refused, stripe_gateway.UnknownOutcome) as problem:
        logger.warning("invoice %s was not mailed: %s", invoice, problem)


def ensure_customer(account: BillingAccount, *, version: int) -> str:
    """The account's Stripe customer, made on first use and remembered."""
    if account.stripe_customer_id:
        return account.stripe_customer_id
    organization = account.organization
    found = stripe_gateway.ensure_customer(
        key=str(organization.key), name=organization.name, email=account.email, version=version
    )
    BillingAccount.objects.filter(pk=account.pk, stripe_customer_id="").update(stripe_customer_id=found)
    account.refresh_from_db(fields=["stripe_customer_id"])
    return account.stripe_customer_id


def _draft(invoice: Invoice, *, customer: str) -> InvoiceDraft:
    lines = list(invoice.lines.select_related("order_line").order_by("position"))
    rates = _tax_rates((line.tax_percent for line in lines), version=invoice.push_version)
    language = "zh-hans" if invoice.currency == "CNY" else "en"
    with translation.override(language):
        pushed = tuple(_line(invoice, charge, rates) for charge in grouped(lines, most=stripe_gateway.MAX_LINES))
    return InvoiceDraft(
        uuid=invoice.key,
        version=invoice.push_version,
        customer=customer,
        currency=invoice.currency,
        number=invoice.number or "",
        days_until_due=_days_until_due(invoice),
        lines=pushed,
        metadata={"kind": invoice.kind, "organization": str(invoice.organization.key)},
    )


def _line(invoice: Invoice, charge: Charge, rates: dict[Decimal, str]) -> LineDraft:
    # An order is charged as of its invoice: its term starts when its machines run.
    start = charge.start or invoice.period_start or invoice.drafted_at
    end = charge.end or invoice.period_end or start
    return LineDraft(
        uuid=charge.key,
        amount=charge.amount_minor,
        description=charge.describe(invoice.currency)[:DESCRIPTION],
        start=start,
        end=end,
        tax_rate=rates[charge.tax_percent],
    )


def _tax_rates(percents: Iterable[Decimal], *, version: int) -> dict[Decimal, str]:
    return {
        percent: stripe_gateway.ensure_tax_rate(
            percent=percent, inclusive=True, country=TAX_COUNTRY, display_name=TAX_NAME, version=version
        )
        for percent in sorted(set(percents))
    }


def _days_until_due(invoice: Invoice) -> int:
    """Whole days, from facts that do not change; Stripe counts none below one."""
    assert invoice.due_at is not None  # noqa: S101 - issued invoices have both
    assert invoice.issued_at is not None  # noqa: S101
    return max(1, math.ceil((invoice.due_at - invoice.issued_at) / DAY))


# --- what came of it ----------------------------------------------------------------------------------------
def _give_up(invoice: Invoice, problem: stripe_gateway.GatewayError, at: datetime) -> Invoice:
    """Write down why this attempt ended: a pause where coming again helps, parked with an alarm where it does not."""
    with transaction.atomic():
        fresh = locked(invoice.pk)
        if fresh.status not in ON_THE_WAY or fresh.push_version != invoice.push_version:
            return fresh
        fresh.push_error = str(problem)[:300]
        passing = isinstance(
            problem,
            stripe_gateway.Unavailable
            | stripe_gateway.UnknownOutcome
            | stripe_gateway.KeyReused
            | stripe_gateway.AuthFailed,
        )
        if _spent(problem):
            fresh.push_version += 1
            fresh.push_started_at = None
        fresh.next_push_at = at + _pause(fresh.push_attempts) if passing else None
        fresh.save(update_fields=["push_error", "push_version", "push_started_at", "next_push_at"])
        if not passing:
            record_event(fresh, at=at, note=f"attention: not sent to Stripe: {problem}")
    log = logger.warning if passing and not isinstance(problem, stripe_gateway.AuthFailed) else logger.error
    log("invoice %s was not pushed: %s", invoice, problem)
    return fresh


def _spent(problem: stripe_gateway.GatewayError) -> bool:
    """Whether the version's keys are of no use any more: they repeat a failure, or name an invoice taken back."""
    if isinstance(problem, stripe_gateway.UnknownOutcome):
        return problem.stored
    return isinstance(problem, stripe_gateway.KeyReused | stripe_gateway.TotalMismatch)


def _pause(attempts: int) -> timedelta:
    return min(FIRST_PAUSE * 2 ** min(max(attempts - 1, 0), 10), LONGEST_PAUSE)


def _finish(invoice: Invoice, theirs: StripeInvoice, at: datetime) -> Invoice:
    """Open the invoice with Stripe's id and page. What happened meanwhile wins: a void one is voided there too."""
    with transaction.atomic():
        fresh = locked(invoice.pk)
        if not fresh.stripe_invoice_id:
            fresh.stripe_invoice_id, fresh.hosted_url = theirs.id, theirs.hosted_invoice_url
        if fresh.status == Status.PUSHING:
            fresh.next_push_at = None
            fresh.push_error = ""
            fresh.next_check_at = at + FIRST_CHECK
            move_invoice(fresh, Status.OPEN, at=at, note=theirs.id)
        elif fresh.status == Status.PAID:
            fresh.next_push_at, fresh.next_check_at, fresh.push_error = None, at, ""
            fresh.save(update_fields=[*LOCATED, "next_push_at", "next_check_at", "push_error"])
        else:
            fresh.save(update_fields=LOCATED)
    if fresh.status == Status.VOID and theirs.status == "open":
        stripe_gateway.void_invoice(invoice_id=theirs.id, invoice_uuid=fresh.key, version=fresh.push_version)
    return fresh
