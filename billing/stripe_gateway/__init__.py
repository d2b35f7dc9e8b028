"""The only door to Stripe: plain values in, frozen dataclasses out, typed errors.

Nothing here touches the database and nothing here may be called inside a transaction. Every write carries an
idempotency key that is a pure function of facts, so repeating a call within 24 hours is the same call. After that the
key means nothing any more: `push_invoice` looks up and adopts what exists (`look_up=True`), and so must any caller of
the single steps whose first attempt is older than that.
"""

from .checkouts import (
    create_checkout,
    create_setup_checkout,
    expire_checkout,
    find_checkouts,
    list_checkouts,
    retrieve_checkout,
)
from .client import hurried
from .credit_notes import create_credit_note, find_credit_note, list_credit_notes, retrieve_credit_note
from .customers import ensure_customer, ensure_tax_rate
from .errors import (
    Ambiguous,
    AuthFailed,
    BadSignature,
    CardDeclined,
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
    mark_uncollectible,
    pay_out_of_band,
    retrieve_invoice,
    send,
    void_invoice,
)
from .money_facts import (
    CheckoutSession,
    CreditLine,
    CreditNote,
    Dispute,
    PaymentIntent,
    PaymentRecord,
    Refund,
    SavedMethod,
)
from .outside import attached_records, report_partial_payment
from .push import MAX_LINES, push_invoice
from .refunds import (
    create_refund,
    find_refund,
    list_disputes,
    list_refunds,
    retrieve_dispute,
    retrieve_refund,
)
from .saved_methods import (
    charge_saved,
    detach_method,
    find_charges,
    list_saved_methods,
    retrieve_payment_intent,
    retrieve_setup_method,
)
from .webhooks import construct_event

__all__ = [
    "MAX_LINES",
    "Adopted",
    "Ambiguous",
    "AuthFailed",
    "BadSignature",
    "CardDeclined",
    "CheckoutSession",
    "CreditLine",
    "CreditNote",
    "Dispute",
    "GatewayError",
    "InvoiceDraft",
    "KeyReused",
    "LineDraft",
    "PaymentIntent",
    "PaymentRecord",
    "Refund",
    "Refused",
    "SavedMethod",
    "StripeEventFact",
    "StripeInvoice",
    "StripeLine",
    "StripePayment",
    "TotalMismatch",
    "Unavailable",
    "UnknownOutcome",
    "add_line",
    "adopt",
    "attached_records",
    "charge_saved",
    "construct_event",
    "create_checkout",
    "create_credit_note",
    "create_draft_invoice",
    "create_refund",
    "create_setup_checkout",
    "delete_draft",
    "detach_method",
    "ensure_customer",
    "ensure_tax_rate",
    "expire_checkout",
    "finalize",
    "find_charges",
    "find_checkouts",
    "find_credit_note",
    "find_invoice",
    "find_refund",
    "hurried",
    "list_checkouts",
    "list_credit_notes",
    "list_disputes",
    "list_invoices",
    "list_lines",
    "list_payments",
    "list_refunds",
    "list_saved_methods",
    "mark_uncollectible",
    "pay_out_of_band",
    "push_invoice",
    "report_partial_payment",
    "retrieve_checkout",
    "retrieve_credit_note",
    "retrieve_dispute",
    "retrieve_invoice",
    "retrieve_payment_intent",
    "retrieve_refund",
    "retrieve_setup_method",
    "send",
    "void_invoice",
]
