"""Invoices, one call to Stripe each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from .client import CLOCKS_DIFFER_BY, PAGE, idempotent, services, step_key, translated_errors
from .errors import Ambiguous, GatewayError, KeyReused, Refused, UnknownOutcome
from .facts import FINAL, Adopted, StripeInvoice, StripeLine, StripePayment, invoice_of, line_of, payment_of

OUTSIDE = "payment_record"


def create_draft_invoice(
    *,
    invoice_uuid: UUID | str,
    version: int,
    customer: str,
    currency: str,
    number: str,
    days_until_due: int,
    metadata: Mapping[str, str] | None = None,
) -> StripeInvoice:
    """An empty draft that Stripe will not finalize or mail by itself; the same draft however often it is asked for."""
    params: Any = {
        "customer": customer,
        "currency": currency.lower(),
        "number": number,
        "collection_method": "send_invoice",
        "days_until_due": days_until_due,
        "auto_advance": False,
        "pending_invoice_items_behavior": "exclude",
        "metadata": {**(metadata or {}), "invoice_uuid": str(invoice_uuid), "invoice_version": str(version)},
    }
    with translated_errors(write=True):
        return invoice_of(services().invoices.create(params, idempotent(step_key(invoice_uuid, version, "create"))))


def add_line(
    *,
    invoice_id: str,
    invoice_uuid: UUID | str,
    version: int,
    line_uuid: UUID | str,
    customer: str,
    currency: str,
    amount: int,
    description: str,
    start: datetime,
    end: datetime,
    tax_rate: str = "",
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Attach one line of gross minor units for `[start, end)` to the draft, once; a negative amount is a credit."""
    first = int(start.timestamp())
    params: Any = {
        "invoice": invoice_id,
        "customer": customer,
        "currency": currency.lower(),
        "amount": amount,
        "description": description,
        # Stripe's periods include their last second, ours do not.
        "period": {"start": first, "end": max(first, int(end.timestamp()) - 1)},
        "metadata": {**(metadata or {}), "line_uuid": str(line_uuid)},
    }
    if tax_rate:
        params["tax_rates"] = [tax_rate]
    with translated_errors(write=True):
        services().invoice_items.create(params, idempotent(step_key(invoice_uuid, version, f"line:{line_uuid}")))


def list_lines(*, invoice_id: str) -> tuple[StripeLine, ...]:
    """All lines, in the order in which they were added."""
    with translated_errors(write=False):
        found = services().invoices.line_items.list(invoice_id, {"limit": PAGE})
        return tuple(line_of(line) for line in found.auto_paging_iter())


def retrieve_invoice(*, invoice_id: str) -> StripeInvoice:
    """As it is now. Raises Refused with reason `resource_missing` when Stripe has none."""
    with translated_errors(write=False):
        return invoice_of(services().invoices.retrieve(invoice_id))


def find_invoice(*, customer: str, invoice_uuid: UUID | str, since: datetime | None = None) -> StripeInvoice | None:
    """The live (not void) Stripe invoice that carries this uuid, whichever version made it. Raises Ambiguous on two.

    `since`, the instant of the first attempt, spares a customer of many years from being listed whole.
    """
    params: Any = {"customer": customer, "limit": PAGE}
    if since:
        params["created"] = {"gte": int((since - CLOCKS_DIFFER_BY).timestamp())}
    with translated_errors(write=False):
        listed = services().invoices.list(params)
        found = [
            invoice
            for invoice in map(invoice_of, listed.auto_paging_iter())
            if invoice.invoice_uuid == str(invoice_uuid) and invoice.status != "void"
        ]
    if len(found) > 1:
        raise Ambiguous(f"invoice {invoice_uuid}: {', '.join(sorted(invoice.id for invoice in found))}")
    return found[0] if found else None


def adopt(*, customer: str, invoice_uuid: UUID | str, since: datetime | None = None) -> Adopted | None:
    """What an earlier attempt already made, to go on from there; None when nothing of it exists."""
    invoice = find_invoice(customer=customer, invoice_uuid=invoice_uuid, since=since)
    if invoice is None:
        return None
    return Adopted(invoice, {line.line_uuid: line for line in list_lines(invoice_id=invoice.id)})


def list_invoices(*, created_from: datetime, created_to: datetime) -> Iterator[StripeInvoice]:
    """Every invoice made in `[created_from, created_to)`, newest first, fetched page by page."""
    window: Any = {"gte": int(created_from.timestamp()), "lt": int(created_to.timestamp())}
    with translated_errors(write=False):
        for invoice in services().invoices.list({"created": window, "limit": PAGE}).auto_paging_iter():
            yield invoice_of(invoice)


def list_payments(*, invoice_id: str) -> tuple[StripePayment, ...]:
    """The payments towards an invoice, newest first. Money reported out of band is none of them."""
    with translated_errors(write=False):
        found = services().invoice_payments.list({"invoice": invoice_id, "limit": PAGE})
        return tuple(payment_of(payment) for payment in found.auto_paging_iter() if payment.payment.type != OUTSIDE)


def finalize(*, invoice_id: str, invoice_uuid: UUID | str, version: int) -> StripeInvoice:
    """Freeze the draft and open it for payment; an invoice that is already final is returned as it is."""
    options = idempotent(step_key(invoice_uuid, version, "finalize"))
    params: Any = {"auto_advance": False}
    return _settled(invoice_id, FINAL, lambda: services().invoices.finalize_invoice(invoice_id, params, options))


def send(*, invoice_id: str, invoice_uuid: UUID | str, version: int) -> StripeInvoice:
    """Have Stripe mail the open invoice to the customer, once a version."""
    options = idempotent(step_key(invoice_uuid, version, "send"))
    with translated_errors(write=True):
        return invoice_of(services().invoices.send_invoice(invoice_id, {}, options))


def void_invoice(*, invoice_id: str, invoice_uuid: UUID | str, version: int) -> StripeInvoice:
    """Make sure that nobody can pay it any more. Raises Refused when it is paid or a draft; look at its status."""
    options = idempotent(step_key(invoice_uuid, version, "void"))
    return _settled(invoice_id, frozenset({"void"}), lambda: services().invoices.void_invoice(invoice_id, {}, options))


def pay_out_of_band(*, invoice_id: str, invoice_uuid: UUID | str, version: int) -> StripeInvoice:
    """Tell Stripe that the whole rest came by other means (bank, wallet); a paid invoice is returned as it is."""
    options = idempotent(step_key(invoice_uuid, version, "out-of-band"))
    params: Any = {"paid_out_of_band": True}
    return _settled(invoice_id, frozenset({"paid"}), lambda: services().invoices.pay(invoice_id, params, options))


def mark_uncollectible(*, invoice_id: str, invoice_uuid: UUID | str, version: int) -> StripeInvoice:
    """Give the open invoice up; it can still be paid. One that is paid or void raises Refused: look at its status."""
    options = idempotent(step_key(invoice_uuid, version, "uncollectible"))
    wanted = frozenset({"uncollectible"})
    return _settled(invoice_id, wanted, lambda: services().invoices.mark_uncollectible(invoice_id, {}, options))


def delete_draft(*, invoice_id: str) -> None:
    """Make sure that the draft is gone. Raises Refused when it is no draft any more."""
    try:
        with translated_errors(write=True):
            services().invoices.delete(invoice_id)
    except Refused as refusal:
        if refusal.reason != "resource_missing":
            raise


def _settled(invoice_id: str, wanted: frozenset[str], call: Callable[[], Any]) -> StripeInvoice:
    """Make the call; where its answer is unclear or a refusal, the invoice's state decides whether it is done."""
    try:
        with translated_errors(write=True):
            return invoice_of(call())
    except (UnknownOutcome, Refused, KeyReused) as problem:
        seen = _observed(invoice_id)
        if seen and seen.status in wanted:
            return seen
        raise problem


def _observed(invoice_id: str) -> StripeInvoice | None:
    try:
        return retrieve_invoice(invoice_id=invoice_id)
    except GatewayError:
        return None
