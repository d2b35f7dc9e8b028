"""Stripe's objects around payments as plain frozen values: minor units, currency in capitals, "" for no text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .facts import instant, plain_of


@dataclass(frozen=True, slots=True)
class CheckoutSession:
    """A page on which somebody pays in advance or leaves a means of payment. `url` is empty once it is over."""

    id: str
    url: str
    mode: str
    status: str
    payment_status: str
    payment_intent: str
    setup_intent: str
    amount_total: int
    currency: str
    client_reference_id: str
    customer: str
    metadata: Mapping[str, str]
    created: datetime
    expires_at: datetime

    @property
    def topup_key(self) -> str:
        """Which top-up of ours it stands for; empty when it is none of ours."""
        return self.metadata.get("topup_key", "")

    @property
    def is_paid(self) -> bool:
        return self.payment_status == "paid"


@dataclass(frozen=True, slots=True)
class PaymentIntent:
    """One attempt to move money, and why it failed if it did. `charge` is the newest."""

    id: str
    status: str
    amount: int
    amount_received: int
    currency: str
    customer: str
    payment_method: str
    charge: str
    failure_code: str
    failure_message: str
    metadata: Mapping[str, str]
    created: datetime

    @property
    def topup_key(self) -> str:
        return self.metadata.get("topup_key", "")


@dataclass(frozen=True, slots=True)
class SavedMethod:
    """A means of payment that a customer left with Stripe. `brand`, `last4` and the expiry are a card's."""

    id: str
    kind: str
    brand: str
    last4: str
    exp_month: int
    exp_year: int
    customer: str


@dataclass(frozen=True, slots=True)
class Refund:
    """Money on its way back: pending or requires_action, then succeeded, failed or canceled."""

    id: str
    status: str
    amount: int
    currency: str
    payment_intent: str
    charge: str
    failure_reason: str
    metadata: Mapping[str, str]
    created: datetime

    @property
    def refund_key(self) -> str:
        return self.metadata.get("refund_key", "")


@dataclass(frozen=True, slots=True)
class CreditNote:
    """A credit note at Stripe: before payment it lowers what is due, after it money goes back or outside."""

    id: str
    number: str
    status: str
    invoice: str
    amount: int
    currency: str
    pre_payment_amount: int
    post_payment_amount: int
    out_of_band_amount: int
    metadata: Mapping[str, str]
    created: datetime

    @property
    def note_key(self) -> str:
        return self.metadata.get("note_key", "")


@dataclass(frozen=True, slots=True)
class CreditLine:
    """So much of one line of a Stripe invoice, gross minor units."""

    line_id: str
    amount: int


@dataclass(frozen=True, slots=True)
class Dispute:
    """A payer's bank took a payment back, for good once it is lost."""

    id: str
    status: str
    amount: int
    currency: str
    charge: str
    payment_intent: str
    reason: str
    created: datetime

    @property
    def is_won(self) -> bool:
        """Whether the money stays with us; an inquiry that was closed is one too."""
        return self.status in {"won", "warning_closed", "prevented"}

    @property
    def is_lost(self) -> bool:
        return self.status == "lost"

    @property
    def is_open(self) -> bool:
        return not (self.is_won or self.is_lost)


@dataclass(frozen=True, slots=True)
class PaymentRecord:
    """Money that came by other means, as we reported it."""

    id: str
    amount: int
    currency: str
    reference: str
    metadata: Mapping[str, str]

    @property
    def payment_key(self) -> str:
        return self.metadata.get("payment_key", "")


def checkout_of(body: Any) -> CheckoutSession:
    plain = plain_of(body)
    return CheckoutSession(
        id=plain["id"],
        url=plain.get("url") or "",
        mode=plain["mode"],
        status=plain.get("status") or "",
        payment_status=plain["payment_status"],
        payment_intent=_id(plain.get("payment_intent")),
        setup_intent=_id(plain.get("setup_intent")),
        amount_total=plain.get("amount_total") or 0,
        currency=(plain.get("currency") or "").upper(),
        client_reference_id=plain.get("client_reference_id") or "",
        customer=_id(plain.get("customer")),
        metadata=plain.get("metadata") or {},
        created=instant(plain["created"]),
        expires_at=instant(plain["expires_at"]),
    )


def intent_of(body: Any) -> PaymentIntent:
    plain = plain_of(body)
    failure = plain.get("last_payment_error") or {}
    return PaymentIntent(
        id=plain["id"],
        status=plain["status"],
        amount=plain["amount"],
        amount_received=plain.get("amount_received") or 0,
        currency=plain["currency"].upper(),
        customer=_id(plain.get("customer")),
        payment_method=_id(plain.get("payment_method")),
        charge=_id(plain.get("latest_charge")),
        failure_code=failure.get("decline_code") or failure.get("code") or "",
        failure_message=failure.get("message") or "",
        metadata=plain.get("metadata") or {},
        created=instant(plain["created"]),
    )


def method_of(body: Any) -> SavedMethod:
    plain = plain_of(body)
    card = plain.get("card") or {}
    return SavedMethod(
        id=plain["id"],
        kind=plain["type"],
        brand=card.get("brand") or "",
        last4=card.get("last4") or "",
        exp_month=card.get("exp_month") or 0,
        exp_year=card.get("exp_year") or 0,
        customer=_id(plain.get("customer")),
    )


def refund_of(body: Any) -> Refund:
    plain = plain_of(body)
    return Refund(
        id=plain["id"],
        status=plain.get("status") or "pending",
        amount=plain["amount"],
        currency=plain["currency"].upper(),
        payment_intent=_id(plain.get("payment_intent")),
        charge=_id(plain.get("charge")),
        failure_reason=plain.get("failure_reason") or "",
        metadata=plain.get("metadata") or {},
        created=instant(plain["created"]),
    )


def credit_note_of(body: Any) -> CreditNote:
    plain = plain_of(body)
    return CreditNote(
        id=plain["id"],
        number=plain["number"],
        status=plain["status"],
        invoice=_id(plain["invoice"]),
        amount=plain["total"],
        currency=plain["currency"].upper(),
        pre_payment_amount=plain["pre_payment_amount"],
        post_payment_amount=plain["post_payment_amount"],
        out_of_band_amount=plain.get("out_of_band_amount") or 0,
        metadata=plain.get("metadata") or {},
        created=instant(plain["created"]),
    )


def dispute_of(body: Any) -> Dispute:
    plain = plain_of(body)
    return Dispute(
        id=plain["id"],
        status=plain["status"],
        amount=plain["amount"],
        currency=plain["currency"].upper(),
        charge=_id(plain["charge"]),
        payment_intent=_id(plain.get("payment_intent")),
        reason=plain["reason"],
        created=instant(plain["created"]),
    )


def record_of(body: Any) -> PaymentRecord:
    plain = plain_of(body)
    return PaymentRecord(
        id=plain["id"],
        amount=plain["amount"]["value"],
        currency=plain["amount"]["currency"].upper(),
        reference=(plain["processor_details"].get("custom") or {}).get("payment_reference") or "",
        metadata=plain.get("metadata") or {},
    )


def window(start: datetime, end: datetime) -> dict[str, int]:
    """Stripe's filter for what was made in `[start, end)`."""
    return {"gte": int(start.astimezone(UTC).timestamp()), "lt": int(end.astimezone(UTC).timestamp())}


def _id(value: Any) -> str:
    """The id of a reference, which Stripe may give as the whole object."""
    return value["id"] if isinstance(value, dict) else value or ""
