"""Credit notes against finalized invoices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from .client import PAGE, idempotent, services, translated_errors
from .money_facts import CreditLine, CreditNote, credit_note_of, window


def create_credit_note(
    *,
    invoice_id: str,
    note_key: UUID | str,
    version: int,
    lines: Sequence[CreditLine],
    memo: str,
    out_of_band: int = 0,
    refunds: Sequence[tuple[str, int]] = (),
    metadata: Mapping[str, str] | None = None,
) -> CreditNote:
    """Credit parts of an invoice's lines, once a version.

    What is still unpaid is lowered first; the rest must be exactly what `out_of_band` (given by other means, as to our
    wallet) and `refunds` (ids of refunds with amounts) say. After an unclear answer look at `find_credit_note`.
    """
    params: Any = {
        "invoice": invoice_id,
        "lines": [
            {"type": "invoice_line_item", "invoice_line_item": line.line_id, "amount": line.amount} for line in lines
        ],
        "memo": memo,
        "email_type": "none",
        "metadata": {**(metadata or {}), "note_key": str(note_key), "note_version": str(version)},
    }
    if out_of_band:
        params["out_of_band_amount"] = out_of_band
    if refunds:
        params["refunds"] = [{"refund": refund, "amount_refunded": amount} for refund, amount in refunds]
    with translated_errors(write=True):
        return credit_note_of(services().credit_notes.create(params, idempotent(f"note:{note_key}:v{version}")))


def retrieve_credit_note(*, credit_note_id: str) -> CreditNote:
    """As it is now. Raises Refused with reason `resource_missing` when Stripe has none."""
    with translated_errors(write=False):
        return credit_note_of(services().credit_notes.retrieve(credit_note_id))


def find_credit_note(*, invoice_id: str, note_key: UUID | str) -> CreditNote | None:
    """The issued credit note of this invoice that carries our key."""
    params: Any = {"invoice": invoice_id, "limit": PAGE}
    with translated_errors(write=False):
        found = [credit_note_of(each) for each in services().credit_notes.list(params).auto_paging_iter()]
    return next((note for note in found if note.note_key == str(note_key) and note.status == "issued"), None)


def list_credit_notes(*, created_from: datetime, created_to: datetime) -> Iterator[CreditNote]:
    """Every credit note made in `[created_from, created_to)`, newest first, fetched page by page."""
    params: Any = {"created": window(created_from, created_to), "limit": PAGE}
    with translated_errors(write=False):
        for note in services().credit_notes.list(params).auto_paging_iter():
            yield credit_note_of(note)
