"""Credit notes: taking back a part of an issued invoice, against its lines, with a number of their own.

What was not paid is no longer due. What was paid goes to the balance, or back to where it came from as far as there is
a way back; gifted credit becomes gifted credit again. Stripe is told afterwards by a sweep (`telling_stripe`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Sum
from django.utils.translation import gettext_lazy as _

from accounts.models import Notification, User
from accounts.notices import notify
from billing import ledger
from billing.actions.accounts import lock_account
from billing.actions.fapiao import follow_credit
from billing.actions.moving import locked, move_invoice, record_event
from billing.actions.refunds import open_refunds
from billing.models import Book, CreditNote, CreditNoteLine, Gift, Invoice, InvoiceLine, Posting
from billing.numbering import next_number
from marketplace.lib import clock
from marketplace.lib.money import format_minor
from marketplace.lib.refusals import Refusal

NOTE_SERIES = "CN"
# How long gifted credit lasts that comes back with a note.
GIFT_LASTS = timedelta(days=365)

Status = Invoice.Status
Destination = CreditNote.Destination


class CreditRefused(Refusal):
    """Nothing was credited; `message` says why and what is possible."""


@dataclass(frozen=True, slots=True)
class Credit:
    """So much of one line, gross, with the tax within it."""

    line: InvoiceLine
    amount_minor: int
    tax_minor: int


@dataclass(frozen=True, slots=True)
class Split:
    """What becomes of a note's total, in minor units; the parts add up to it."""

    unpaid: int
    gift: int
    source: int
    balance: int


# --- what is left ---------------------------------------------------------------------------------------------------
def creditable_minor(invoice: Invoice) -> int:
    """How much of the invoice no note has taken back yet."""
    return invoice.total_minor - invoice.credited_minor


def remaining_by_line(invoice: Invoice) -> dict[int, int]:
    """What each line that charges something has left to be credited, by its id, in the order of the invoice."""
    credited = dict(
        CreditNoteLine.objects.filter(line__invoice=invoice)
        .order_by()
        .values_list("line_id")
        .annotate(total=Sum("amount_minor"))
    )
    charged = invoice.lines.filter(amount_minor__gt=0).order_by("position").values_list("pk", "amount_minor")
    return {pk: amount - credited.get(pk, 0) for pk, amount in charged}


def spread(invoice: Invoice, amount_minor: int) -> dict[int, int]:
    """An amount laid over the lines that have something left, the first ones first. Raises CreditRefused for more than
    is left of the invoice."""
    _expect_room(invoice, amount_minor)
    amounts, left = {}, amount_minor
    for line_id, remaining in remaining_by_line(invoice).items():
        if part := min(remaining, left):
            amounts[line_id] = part
            left -= part
    return amounts


# --- issuing --------------------------------------------------------------------------------------------------------
@transaction.atomic
def issue_credit_note(
    *,
    invoice: Invoice,
    amounts: Mapping[int, int],
    destination: str,
    reason: str,
    request_key: str,
    at: datetime,
    actor: User | None = None,
) -> CreditNote:
    """Take back so many gross minor units of each line (by id), once per request, under the next number of its series.

    Never more than a line or the invoice has left; the tax is the line's in proportion, and the note that takes the
    last of a line takes the last of its tax. Refunds to the source are opened in the same transaction. Raises
    CreditRefused, and nothing has changed then.
    """
    account = lock_account(organization_id=invoice.organization_id)
    fresh = locked(invoice.pk)
    known = CreditNote.objects.filter(request_key=request_key).first()
    if known is not None:
        return _same(known, fresh)
    _expect_creditable(fresh, amounts, reason)
    credits = _credits(fresh, amounts)
    total, tax = sum(each.amount_minor for each in credits), sum(each.tax_minor for each in credits)
    unpaid = min(total, fresh.outstanding_minor)
    returned = total - unpaid
    # Money first: gifted credit is what comes back last.
    gift = max(returned - (fresh.paid_minor - fresh.gift_minor), 0)
    note = CreditNote.objects.create(
        account=account,
        invoice=fresh,
        number=next_number(series=NOTE_SERIES, year=clock.local_date(at, account.organization.zone).year),
        request_key=request_key,
        currency=fresh.currency,
        total_minor=total,
        tax_minor=tax,
        unpaid_minor=unpaid,
        returned_minor=returned,
        gift_minor=gift,
        destination=destination,
        reason=reason.strip()[:300],
        issued_at=at,
        issued_by=actor,
        next_push_at=at if fresh.collection == Invoice.Collection.STRIPE else None,
    )
    CreditNoteLine.objects.bulk_create(
        CreditNoteLine(note=note, line=each.line, amount_minor=each.amount_minor, tax_minor=each.tax_minor)
        for each in credits
    )
    source = 0
    if destination == Destination.SOURCE:
        source = open_refunds(note=note, most_minor=returned - gift, at=at, actor=actor)
    split = Split(unpaid=unpaid, gift=gift, source=source, balance=returned - gift - source)
    _book(note, split, at, actor)
    _lower(fresh, note, at, actor)
    follow_credit(invoice=fresh, at=at, actor=actor, note=note.number)
    _tell(note, fresh, at)
    invoice.refresh_from_db()
    return note


def _same(note: CreditNote, invoice: Invoice) -> CreditNote:
    if note.invoice_id != invoice.pk:
        raise CreditRefused("request_taken", _("This request was used for another invoice."))
    return note


def _expect_creditable(invoice: Invoice, amounts: Mapping[int, int], reason: str) -> None:
    if invoice.status in {Status.DRAFT, Status.VOID}:
        raise CreditRefused("not_issued", _("Only an issued invoice can be credited."))
    if invoice.status == Status.PUSHING:
        raise CreditRefused("busy", _("The invoice is being sent to Stripe at this moment. Try again in two minutes."))
    if invoice.order_id is not None and invoice.status != Status.PAID:
        raise CreditRefused("order_unpaid", _("Nobody has paid this order yet. Void its invoice instead."))
    if not reason.strip():
        raise CreditRefused("reason_missing", _("Say why this is credited."), field="reason")
    if not amounts or min(amounts.values()) <= 0:
        raise CreditRefused("amount_not_positive", _("The amount must be more than zero."), field="amount")
    _expect_room(invoice, sum(amounts.values()))


def _expect_room(invoice: Invoice, amount_minor: int) -> None:
    left = creditable_minor(invoice)
    if amount_minor > left:
        facts = {"left": format_minor(left, invoice.currency)}
        raise CreditRefused("invoice_exceeded", _("Only %(left)s of this invoice is left.") % facts, field="amount")


def _credits(invoice: Invoice, amounts: Mapping[int, int]) -> list[Credit]:
    remaining = remaining_by_line(invoice)
    lines = {line.pk: line for line in invoice.lines.filter(pk__in=amounts)}
    taxes = dict(
        CreditNoteLine.objects.filter(line__in=lines).order_by().values_list("line_id").annotate(total=Sum("tax_minor"))
    )
    credits = []
    for line_id, amount in amounts.items():
        left = remaining.get(line_id, 0)
        if amount > left:
            facts = {"left": format_minor(left, invoice.currency)}
            raise CreditRefused("line_exceeded", _("Only %(left)s of this line is left.") % facts, field="amount")
        line = lines[line_id]
        credited = line.amount_minor - left + amount
        credits.append(Credit(line, amount, tax_through(line, credited) - taxes.get(line_id, 0)))
    return credits


def tax_through(line: InvoiceLine, credited_minor: int) -> int:
    """The tax within the first so many minor units of a line: rounded once, and the line's own at its end."""
    return (2 * line.tax_minor * credited_minor + line.amount_minor) // (2 * line.amount_minor)


def _book(note: CreditNote, split: Split, at: datetime, actor: User | None) -> None:
    if split.gift:
        Gift.objects.create(
            account=note.account,
            amount_minor=split.gift,
            currency=note.currency,
            reason=note.number,
            granted_at=at,
            granted_by=actor,
            expires_at=at + GIFT_LASTS,
            request_key=f"note:{note.key}",
        )
    ledger.post(
        account=note.account,
        kind=Posting.Kind.CREDIT_NOTE,
        fact=note.number,
        entries={
            Book.REVENUE: note.total_minor - note.tax_minor,
            Book.TAX: note.tax_minor,
            Book.RECEIVABLE: -split.unpaid,
            Book.GIFT: -split.gift,
            Book.REFUNDS: -split.source,
            Book.WALLET: -split.balance,
        },
        at=at,
        currency=note.currency,
        invoice=note.invoice,
        actor=actor,
        note=note.reason,
    )


def _lower(invoice: Invoice, note: CreditNote, at: datetime, actor: User | None) -> None:
    """The invoice keeps what is neither credited nor given back; with nothing due any more it is paid."""
    invoice.credited_minor += note.total_minor
    invoice.paid_minor -= note.returned_minor
    invoice.gift_minor -= note.gift_minor
    amount = format_minor(note.total_minor, note.currency)
    text = f"{note.number}: {amount} credited"
    if invoice.is_unpaid and invoice.outstanding_minor == 0:
        invoice.paid_at = at
        invoice.next_push_at = invoice.next_check_at = None
        move_invoice(invoice, Status.PAID, at=at, actor=actor, note=text)
        return
    invoice.save(update_fields=["credited_minor", "paid_minor", "gift_minor"])
    record_event(invoice, at=at, actor=actor, note=text)


def _tell(note: CreditNote, invoice: Invoice, at: datetime) -> None:
    notify(
        organization=note.account.organization,
        kind=Notification.Kind.CREDIT_NOTE,
        fact=str(note.key),
        params={
            "number": note.number,
            "invoice": str(invoice.number),
            "amount": format_minor(note.total_minor, note.currency),
        },
        page="billing:invoice",
        page_args=[str(invoice.key)],
        at=at,
    )
