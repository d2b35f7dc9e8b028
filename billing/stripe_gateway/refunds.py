"""Refunds and disputes: money that goes back, by our will or by the payer's bank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from .client import PAGE, idempotent, services, translated_errors
from .money_facts import Dispute, Refund, dispute_of, refund_of, window


def create_refund(
    *,
    payment_intent: str,
    amount: int,
    refund_key: UUID | str,
    version: int,
    metadata: Mapping[str, str] | None = None,
) -> Refund:
    """Send so much of a payment back, once a version; it is mostly pending at first and can fail later.

    Raises Refused when more is asked for than is left of the payment, or its payer disputes it. After an unclear answer
    look at `find_refund` before the next version.
    """
    params: Any = {
        "payment_intent": payment_intent,
        "amount": amount,
        "metadata": {**(metadata or {}), "refund_key": str(refund_key), "refund_version": str(version)},
    }
    with translated_errors(write=True):
        return refund_of(services().refunds.create(params, idempotent(f"refund:{refund_key}:v{version}")))


def retrieve_refund(*, refund_id: str) -> Refund:
    """As it is now. Raises Refused with reason `resource_missing` when Stripe has none."""
    with translated_errors(write=False):
        return refund_of(services().refunds.retrieve(refund_id))


def find_refund(*, payment_intent: str, refund_key: UUID | str) -> Refund | None:
    """The newest refund that carries this key, one that failed or was canceled only when there is no other."""
    params: Any = {"payment_intent": payment_intent, "limit": PAGE}
    with translated_errors(write=False):
        found = [refund_of(each) for each in services().refunds.list(params).auto_paging_iter()]
    mine = [refund for refund in found if refund.refund_key == str(refund_key)]
    alive = [refund for refund in mine if refund.status not in {"failed", "canceled"}]
    return next(iter(alive or mine), None)


def list_refunds(*, created_from: datetime, created_to: datetime) -> Iterator[Refund]:
    """Every refund made in `[created_from, created_to)`, newest first, fetched page by page."""
    params: Any = {"created": window(created_from, created_to), "limit": PAGE}
    with translated_errors(write=False):
        for refund in services().refunds.list(params).auto_paging_iter():
            yield refund_of(refund)


def retrieve_dispute(*, dispute_id: str) -> Dispute:
    """As it is now. Raises Refused with reason `resource_missing` when Stripe has none."""
    with translated_errors(write=False):
        return dispute_of(services().disputes.retrieve(dispute_id))


def list_disputes(*, created_from: datetime, created_to: datetime) -> Iterator[Dispute]:
    """Every dispute opened in `[created_from, created_to)`, newest first, fetched page by page."""
    params: Any = {"created": window(created_from, created_to), "limit": PAGE}
    with translated_errors(write=False):
        for dispute in services().disputes.list(params).auto_paging_iter():
            yield dispute_of(dispute)
