"""Stripe's objects as plain frozen values, and what we hand over to be pushed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

FINAL = frozenset({"open", "paid", "void", "uncollectible"})


@dataclass(frozen=True, slots=True)
class StripeInvoice:
    """A Stripe invoice at one moment. Amounts in minor units, currency in capitals, no page while it is a draft."""

    id: str
    number: str
    status: str
    total: int
    amount_due: int
    amount_paid: int
    amount_remaining: int
    currency: str
    hosted_invoice_url: str
    metadata: Mapping[str, str]
    created: datetime
    customer: str = ""
    finalization_error: str = ""
    """Why Stripe could not open its draft."""

    @property
    def invoice_uuid(self) -> str:
        """Which invoice of ours it stands for; empty when it is none of ours."""
        return self.metadata.get("invoice_uuid", "")


@dataclass(frozen=True, slots=True)
class StripeLine:
    """A line of a Stripe invoice; `line_uuid` is empty when we did not write it."""

    id: str
    line_uuid: str
    amount: int
    currency: str
    description: str


@dataclass(frozen=True, slots=True)
class StripePayment:
    """One payment towards an invoice: open, paid or canceled. The intent is what a receipt and a refund refer to."""

    id: str
    payment_intent: str
    amount: int
    currency: str
    status: str
    paid_at: datetime | None


@dataclass(frozen=True, slots=True)
class StripeEventFact:
    """A verified webhook. `payload` is the whole event as plain JSON values; fetch the object anew before acting."""

    id: str
    type: str
    created: datetime
    object_id: str
    object_type: str
    livemode: bool
    payload: dict[str, Any]

    @property
    def subject_id(self) -> str:
        """The object to fetch anew: the invoice where it is about a payment of one, else what the event carries."""
        if self.object_type == "invoice_payment":
            return str(self.payload["data"]["object"].get("invoice") or "")
        return self.object_id


@dataclass(frozen=True, slots=True)
class LineDraft:
    """A line to be pushed: gross minor units, period half-open, `tax_rate` an id from `ensure_tax_rate`."""

    uuid: UUID | str
    amount: int
    description: str
    start: datetime
    end: datetime
    tax_rate: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InvoiceDraft:
    """An invoice of ours, ready to be pushed. `version` grows only when a push under the old one was given up."""

    uuid: UUID | str
    version: int
    customer: str
    currency: str
    number: str
    days_until_due: int
    lines: tuple[LineDraft, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(line.amount for line in self.lines)


@dataclass(frozen=True, slots=True)
class Adopted:
    """What an earlier attempt left at Stripe: the invoice and its lines by our uuid."""

    invoice: StripeInvoice
    lines: Mapping[str, StripeLine]


def plain_of(body: Any) -> dict[str, Any]:
    """The SDK's objects are no dictionaries; this is the one place where they become some."""
    return body.to_dict(for_json=True)


def instant(stamp: int) -> datetime:
    return datetime.fromtimestamp(stamp, UTC)


def invoice_of(body: Any) -> StripeInvoice:
    plain = plain_of(body)
    return StripeInvoice(
        id=plain["id"],
        number=plain.get("number") or "",
        status=plain["status"],
        total=plain["total"],
        amount_due=plain["amount_due"],
        amount_paid=plain["amount_paid"],
        amount_remaining=plain["amount_remaining"],
        currency=plain["currency"].upper(),
        hosted_invoice_url=plain.get("hosted_invoice_url") or "",
        metadata=plain.get("metadata") or {},
        created=instant(plain["created"]),
        customer=plain["customer"],
        finalization_error=(plain.get("last_finalization_error") or {}).get("message") or "",
    )


def line_of(body: Any) -> StripeLine:
    plain = plain_of(body)
    return StripeLine(
        id=plain["id"],
        line_uuid=plain["metadata"].get("line_uuid", ""),
        amount=plain["amount"],
        currency=plain["currency"].upper(),
        description=plain.get("description") or "",
    )


def payment_of(body: Any) -> StripePayment:
    plain = plain_of(body)
    paid_at = plain["status_transitions"]["paid_at"]
    return StripePayment(
        id=plain["id"],
        payment_intent=plain["payment"].get("payment_intent") or "",
        amount=plain["amount_paid"] or plain["amount_requested"],
        currency=plain["currency"].upper(),
        status=plain["status"],
        paid_at=instant(paid_at) if paid_at else None,
    )
