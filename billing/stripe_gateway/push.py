"""The whole push: our invoice brought to Stripe and opened, whatever an earlier attempt left behind."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from .errors import Refused, TotalMismatch
from .facts import InvoiceDraft, StripeInvoice, StripeLine
from .invoices import (
    add_line,
    adopt,
    create_draft_invoice,
    delete_draft,
    finalize,
    list_lines,
    retrieve_invoice,
    void_invoice,
)

# What one Stripe invoice can hold (https://docs.stripe.com/invoicing/overview); a longer one is grouped first.
MAX_LINES = 250


def push_invoice(
    draft: InvoiceDraft, *, stripe_id: str = "", look_up: bool = True, since: datetime | None = None
) -> StripeInvoice:
    """Bring our invoice to Stripe and open it: same lines, same total, payable in full. Safe to kill and repeat.

    Pass `stripe_id` once it is known, and `look_up=True` on every attempt but the first, or when unsure: what exists is
    adopted and only what is missing is added. `since` is when the first attempt began.

    Raises TotalMismatch once it took back an invoice that does not add up, and UnknownOutcome when the caller should
    come again (under the next version where `stored` is set).
    """
    if len(draft.lines) > MAX_LINES:
        raise Refused(f"{len(draft.lines)} lines, Stripe takes {MAX_LINES}", reason="too_many_lines")
    invoice, present = _start(draft, stripe_id=stripe_id, look_up=look_up, since=since)
    if invoice.status == "draft":
        _add_missing(draft, invoice, present)
        invoice = retrieve_invoice(invoice_id=invoice.id)
        if (invoice.total, invoice.currency) != (draft.total, draft.currency):
            delete_draft(invoice_id=invoice.id)
            raise _mismatch(draft, invoice, "total", invoice.total)
        invoice = finalize(invoice_id=invoice.id, invoice_uuid=draft.uuid, version=draft.version)
    return _asserted(draft, invoice)


def _start(
    draft: InvoiceDraft, *, stripe_id: str, look_up: bool, since: datetime | None
) -> tuple[StripeInvoice, Mapping[str, StripeLine]]:
    if stripe_id:
        invoice = retrieve_invoice(invoice_id=stripe_id)
        return invoice, {line.line_uuid: line for line in list_lines(invoice_id=invoice.id)}
    found = adopt(customer=draft.customer, invoice_uuid=draft.uuid, since=since) if look_up else None
    if found:
        return found.invoice, found.lines
    made = create_draft_invoice(
        invoice_uuid=draft.uuid,
        version=draft.version,
        customer=draft.customer,
        currency=draft.currency,
        number=draft.number,
        days_until_due=draft.days_until_due,
        metadata=draft.metadata,
    )
    return made, {}


def _add_missing(draft: InvoiceDraft, invoice: StripeInvoice, present: Mapping[str, StripeLine]) -> None:
    for line in draft.lines:
        if str(line.uuid) not in present:
            add_line(
                invoice_id=invoice.id,
                invoice_uuid=draft.uuid,
                version=draft.version,
                line_uuid=line.uuid,
                customer=draft.customer,
                currency=draft.currency,
                amount=line.amount,
                description=line.description,
                start=line.start,
                end=line.end,
                tax_rate=line.tax_rate,
                metadata=line.metadata,
            )


def _asserted(draft: InvoiceDraft, invoice: StripeInvoice) -> StripeInvoice:
    """An open invoice must be payable in full: Stripe may have moved the amount to the customer's balance instead."""
    if invoice.status in {"void", "uncollectible"}:
        return invoice
    wrong = (invoice.total, invoice.currency) != (draft.total, draft.currency) or (
        invoice.amount_due != draft.total if invoice.status == "paid" else invoice.amount_remaining != draft.total
    )
    if not wrong:
        return invoice
    if invoice.status == "open":
        void_invoice(invoice_id=invoice.id, invoice_uuid=draft.uuid, version=draft.version)
    raise _mismatch(draft, invoice, "amount due", invoice.amount_due)


def _mismatch(draft: InvoiceDraft, invoice: StripeInvoice, what: str, theirs: int) -> TotalMismatch:
    return TotalMismatch(
        f"{invoice.id}: {what} {theirs} {invoice.currency}, ours {draft.total} {draft.currency}", invoice_id=invoice.id
    )
