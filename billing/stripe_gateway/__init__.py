"""The only door to Stripe: plain values in, frozen dataclasses out, typed errors.

Nothing here touches the database and nothing here may be called inside a transaction. Every write carries an
idempotency key that is a pure function of facts, so repeating a call within 24 hours is the same call. After that the
key means nothing any more: `push_invoice` looks up and adopts what exists (`look_up=True`), and so must any caller of
the single steps whose first attempt is older than that.
"""

from .client import hurried
from .customers import ensure_customer, ensure_tax_rate
from .errors import (
    Ambiguous,
    AuthFailed,
    BadSignature,
    GatewayError,
    KeyReused,
    Refused,
    TotalMismatch,
    Unavailable,
    UnknownOutcome,
)
from .facts import Adopted, InvoiceDraft, LineDraft, StripeEventFact, StripeInvoice, StripeLine, StripePayment
from .invoices import (
    add_line,
    adopt,
    create_draft_invoice,
    delete_draft,
    finalize,
    find_invoice,
    list_invoices,
    list_lines,
    list_payments,
    pay_out_of_band,
    retrieve_invoice,
    send,
    void_invoice,
)
from .push import MAX_LINES, push_invoice
from .webhooks import construct_event

__all__ = [
    "MAX_LINES",
    "Adopted",
    "Ambiguous",
    "AuthFailed",
    "BadSignature",
    "GatewayError",
    "InvoiceDraft",
    "KeyReused",
    "LineDraft",
    "Refused",
    "StripeEventFact",
    "StripeInvoice",
    "StripeLine",
    "StripePayment",
    "TotalMismatch",
    "Unavailable",
    "UnknownOutcome",
    "add_line",
    "adopt",
    "construct_event",
    "create_draft_invoice",
    "delete_draft",
    "ensure_customer",
    "ensure_tax_rate",
    "finalize",
    "find_invoice",
    "hurried",
    "list_invoices",
    "list_lines",
    "list_payments",
    "pay_out_of_band",
    "push_invoice",
    "retrieve_invoice",
    "send",
    "void_invoice",
]
