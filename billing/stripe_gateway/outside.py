"""Money that came by other means (bank, wallet, gift), told to Stripe as part of an invoice's payment."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from .client import PAGE, idempotent, services, translated_errors
from .errors import KeyReused, Refused, UnknownOutcome
from .facts import StripeInvoice, invoice_of, plain_of
from .invoices import retrieve_invoice
from .money_facts import PaymentRecord, record_of


def report_partial_payment(
    *,
    invoice_id: str,
    payment_key: UUID | str,
    version: int,
    amount: int,
    currency: str,
    customer: str,
    reference: str,
    method: str,
    received_at: datetime,
) -> StripeInvoice:
    """Make sure that the invoice carries this money, and return it as it then is.

    Looked up by `payment_key` among what the invoice carries, so it may be repeated for ever. Raises Refused when the
    invoice takes no payment any more (void, or paid without it), and UnknownOutcome when it must be asked again.
    """
    if _is_attached(invoice_id, str(payment_key)):
        return retrieve_invoice(invoice_id=invoice_id)
    record = _reported(
        payment_key=str(payment_key), version=version, amount=amount, currency=currency, customer=customer,
        reference=reference, method=method, received_at=received_at,
    )  # fmt: skip
    try:
        with translated_errors(write=True):
            options = idempotent(f"payment:{payment_key}:v{version}:attach")
            return invoice_of(services().invoices.attach_payment(invoice_id, {"payment_record": record.id}, options))
    except (UnknownOutcome, Refused, KeyReused):
        if not _is_attached(invoice_id, str(payment_key)):
            raise
        return retrieve_invoice(invoice_id=invoice_id)


def attached_records(*, invoice_id: str) -> tuple[PaymentRecord, ...]:
    """The money from outside that an invoice carries, newest first."""
    params: Any = {"invoice": invoice_id, "limit": PAGE}
    with translated_errors(write=False):
        payments = [plain_of(each)["payment"] for each in services().invoice_payments.list(params).auto_paging_iter()]
        ids = [payment["payment_record"] for payment in payments if payment.get("payment_record")]
        return tuple(record_of(services().payment_records.retrieve(each)) for each in ids)


def _is_attached(invoice_id: str, payment_key: str) -> bool:
    return any(record.payment_key == payment_key for record in attached_records(invoice_id=invoice_id))


def _reported(
    *,
    payment_key: str,
    version: int,
    amount: int,
    currency: str,
    customer: str,
    reference: str,
    method: str,
    received_at: datetime,
) -> PaymentRecord:
    """The record of this money. One that was never attached moves nothing, so a second one does no harm."""
    moment = int(received_at.timestamp())
    params: Any = {
        "amount_requested": {"value": amount, "currency": currency.lower()},
        "initiated_at": moment,
        "outcome": "guaranteed",
        "guaranteed": {"guaranteed_at": moment},
        "customer_details": {"customer": customer},
        "payment_method_details": {"type": "custom", "custom": {"display_name": method}},
        "processor_details": {"type": "custom", "custom": {"payment_reference": reference}},
        "metadata": {"payment_key": payment_key},
    }
    with translated_errors(write=True):
        options = idempotent(f"payment:{payment_key}:v{version}:report")
        return record_of(services().payment_records.report_payment(params, options))
