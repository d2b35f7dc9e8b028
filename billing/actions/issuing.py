"""Issuing: drafts get their numbers, dates and buyer, enter the books, and are frozen from then on."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from accounts.models import User
from billing import ledger
from billing.actions.moving import move_invoices
from billing.models import Book, Invoice, Posting
from billing.numbering import INVOICE_SERIES, next_numbers
from marketplace.lib import clock
from marketplace.lib.limits import by_bank


def issue(*, invoice: Invoice, at: datetime, actor: User | None = None) -> Invoice:
    """Number and freeze one drafted invoice; see `issue_many`."""
    issue_many(invoice_ids=[invoice.pk], at=at, actor=actor)
    invoice.refresh_from_db()
    return invoice


def issue_many(*, invoice_ids: Sequence[int], at: datetime, actor: User | None = None) -> list[Invoice]:
    """Number, freeze and post drafted invoices inside the caller's transaction, which holds their accounts' rows.
    Numbers are given in the order of the invoices' ids.

    Usage falls due INVOICE_DAYS_UNTIL_DUE days later, a prepaid order when its hold expires. What Stripe cannot
    collect (too much, or a prepaid order that is too little) is open for a bank transfer at once. The statements are
    as many for a thousand invoices as for one.
    """
    drafts = _drafts(invoice_ids)
    if not drafts:
        return []
    numbers = next_numbers(
        series=INVOICE_SERIES, years=[clock.local_date(at, draft.organization.zone).year for draft in drafts]
    )
    for draft, number in zip(drafts, numbers, strict=True):
        draft.number, draft.issued_at, draft.due_at = number, at, _due(draft, at)
        if by_bank(draft.total_minor, draft.currency):
            draft.collection = Invoice.Collection.BANK_TRANSFER
    _freeze(drafts)
    move_invoices(drafts, Invoice.Status.ISSUED, at=at, actor=actor)
    by_transfer = [draft for draft in drafts if draft.collection == Invoice.Collection.BANK_TRANSFER]
    move_invoices(by_transfer, Invoice.Status.OPEN, at=at, actor=actor)
    ledger.post_many([_fact(draft) for draft in drafts], at=at, actor=actor)
    return drafts


def issue_entries(invoice: Invoice) -> dict[Book, int]:
    """What an issued invoice means in the books: owed with its tax, earned without."""
    return {
        Book.RECEIVABLE: invoice.total_minor,
        Book.REVENUE: invoice.tax_minor - invoice.total_minor,
        Book.TAX: -invoice.tax_minor,
    }


def _drafts(invoice_ids: Sequence[int]) -> list[Invoice]:
    return list(
        Invoice.objects.filter(pk__in=invoice_ids)
        .select_for_update(no_key=True, of=("self",))
        .select_related("organization", "order", "account")
        .order_by("pk")
    )


def _due(invoice: Invoice, at: datetime) -> datetime:
    if invoice.order is not None and invoice.order.hold_expires_at is not None:
        return max(invoice.order.hold_expires_at, at)
    return at + timedelta(days=settings.INVOICE_DAYS_UNTIL_DUE)


# The buyer is the organization's tax profile as it stands now, kept with the document.
_FREEZE = """
    UPDATE billing_invoice i
    SET number = f.number, issued_at = f.issued_at, due_at = f.due_at, collection = f.collection,
        buyer = COALESCE(
            (SELECT to_jsonb(t) - '{id,organization_id,updated_at,updated_by_id}'::text[]
             FROM billing_taxprofile t WHERE t.organization_id = i.organization_id), '{}'::jsonb)
    FROM unnest(%s::bigint[], %s::text[], %s::timestamptz[], %s::timestamptz[], %s::text[])
        AS f (id, number, issued_at, due_at, collection)
    WHERE i.id = f.id
"""


def _freeze(drafts: Sequence[Invoice]) -> None:
    rows = [(draft.pk, draft.number, draft.issued_at, draft.due_at, draft.collection) for draft in drafts]
    with connection.cursor() as cursor:
        cursor.execute(_FREEZE, [list(column) for column in zip(*rows, strict=True)])


def _fact(invoice: Invoice) -> ledger.Fact:
    return ledger.Fact(
        invoice.account_id, Posting.Kind.ISSUE, str(invoice.key), invoice.currency, issue_entries(invoice), invoice.pk
    )
