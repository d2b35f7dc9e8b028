"""What moved an account's balance and gifted credit, read from the books, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet, Sum
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from billing.models import BillingAccount, Book, Invoice, LedgerEntry, Posting

OWN = (Book.WALLET, Book.GIFT)
Kind = Posting.Kind
WORDS: dict[str, str | Promise] = {
    Kind.TOP_UP: _("Paid in online"),
    Kind.TRANSFER: _("Paid in by bank transfer"),
    Kind.WALLET_PAID: _("Paid for an invoice"),
    Kind.GIFT_PAID: _("Paid for an invoice with gifted credit"),
    Kind.SETTLE: _("Usage"),
    Kind.GIFT: _("Gifted credit"),
    Kind.GIFT_EXPIRED: _("Gifted credit expired"),
    Kind.PAYMENT: _("Paid more than the invoice asked for"),
    Kind.PAYMENT_REVERSED: _("Payment taken back by the payer's bank"),
    Kind.CREDIT_NOTE: _("Credited"),
    Kind.REFUND: _("Paid back to you"),
    Kind.REFUND_FAILED: _("Paying back failed; it is yours again"),
    Kind.CORRECTION: _("Correction"),
    Kind.VOID: _("Invoice voided"),
    Kind.ISSUE: _("Invoice issued"),
}


@dataclass(frozen=True, slots=True)
class Movement:
    """One fact: how much it added to (or, negative, took from) the balance and the gifted credit, in minor units."""

    at: datetime
    words: str | Promise
    note: str
    invoice: Invoice | None
    wallet_minor: int
    gift_minor: int
    currency: str


def postings_of(account: BillingAccount) -> QuerySet[Posting]:
    """The facts that moved the customer's own money, newest first."""
    moved = LedgerEntry.objects.filter(posting=OuterRef("pk"), book__in=OWN)
    return Posting.objects.filter(Exists(moved), account=account).select_related("invoice").order_by("-pk")


def movements(postings: Sequence[Posting]) -> list[Movement]:
    """The same facts with their amounts, in one query more."""
    entries = LedgerEntry.objects.order_by().filter(posting__in=list(postings), book__in=OWN)
    sums: dict[tuple[int, str], int] = {
        (posting_id, book): -total
        for posting_id, book, total in entries.values_list("posting", "book").annotate(total=Sum("amount_minor"))
    }
    return [
        Movement(
            at=posting.at,
            words=WORDS[posting.kind],
            note=posting.note if posting.kind in {Kind.GIFT, Kind.GIFT_EXPIRED} else "",
            invoice=posting.invoice,
            wallet_minor=sums.get((posting.pk, Book.WALLET), 0),
            gift_minor=sums.get((posting.pk, Book.GIFT), 0),
            currency=posting.currency,
        )
        for posting in postings
    ]
