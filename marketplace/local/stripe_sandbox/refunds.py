"""Refunds, which take their time, and disputes, which test code opens and closes."""

from typing import Any

from . import intents
from .calls import Call, in_range, merged_metadata
from .errors import Refusal, wrong_state


def create(call: Call) -> dict[str, Any]:
    params = call.params
    charge = _charge_of(call)
    amount = params.get("amount", charge["amount"] - charge["amount_refunded"])
    return make(call, charge, amount, merged_metadata({}, params.get("metadata")), params.get("reason"))


def _charge_of(call: Call) -> dict[str, Any]:
    if charge := call.params.get("charge"):
        return call.require("charge", charge, param="charge")
    intent = call.require("payment_intent", call.params.get("payment_intent"), param="payment_intent")
    return intents.paid_charge(call, intent["id"])


def make(
    call: Call, charge: dict[str, Any], amount: int, metadata: dict[str, str], reason: str | None = None
) -> dict[str, Any]:
    """A pending refund of a charge, which counts as refunded at once."""
    if charge["disputed"]:
        raise wrong_state(
            f"Charge {charge['id']} has been charged back; cannot issue a refund.", code="charge_disputed"
        )
    left = charge["amount"] - charge["amount_refunded"]
    if left == 0:
        raise wrong_state(f"Charge {charge['id']} has already been refunded.", code="charge_already_refunded")
    if not 0 < amount <= left:
        raise Refusal(f"Refund amount ({amount}) is greater than unrefunded amount on charge ({left})", param="amount")
    refund = {
        "id": call.store.new_id("re"),
        "object": "refund",
        "amount": amount,
        "balance_transaction": None,
        "charge": charge["id"],
        "created": call.now,
        "currency": charge["currency"],
        "metadata": metadata,
        "payment_intent": charge["payment_intent"],
        "pending_reason": "processing",
        "reason": reason,
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": "pending",
        "transfer_reversal": None,
    }
    call.store.add(refund, parent=charge["id"])
    _change(call, charge, amount)
    call.emit("refund.created", refund)
    call.emit("charge.refunded", charge)
    return refund


def _change(call: Call, charge: dict[str, Any], amount: int) -> None:
    charge["amount_refunded"] += amount
    charge["refunded"] = charge["amount_refunded"] == charge["amount"]
    call.store.save(charge)


def settle(call: Call, refund: dict[str, Any], *, succeeded: bool) -> None:
    """The bank took it, or sent it back. Stripe lets even a succeeded refund fail later."""
    if refund["status"] in {"failed", "canceled"} or (succeeded and refund["status"] == "succeeded"):
        return
    refund.pop("pending_reason", None)
    refund["status"] = "succeeded" if succeeded else "failed"
    if not succeeded:
        refund["failure_reason"] = "lost_or_stolen_card"
        _change(call, call.require("charge", refund["charge"]), -refund["amount"])
    call.store.save(refund)
    call.emit("refund.updated", refund)
    if not succeeded:
        call.emit("refund.failed", refund)


def settle_due(call: Call, *, after: float) -> None:
    """Pending refunds that are old enough succeed."""
    for refund in call.store.having("refund", "status", "pending"):
        if refund["created"] + after <= call.now:
            settle(call, refund, succeeded=True)


def retrieve(call: Call) -> dict[str, Any]:
    return call.require("refund")


def list_refunds(call: Call) -> dict[str, Any]:
    params = call.params
    found = [
        refund
        for refund in call.store.all("refund")
        if all(params.get(name) in {None, refund[name]} for name in ("charge", "payment_intent"))
        and in_range(params.get("created"), refund["created"])
    ]
    return call.page(found, "/v1/refunds")


# --- disputes ------------------------------------------------------------------------------------------------
def open_dispute(call: Call, charge: dict[str, Any], *, amount: int | None, reason: str) -> dict[str, Any]:
    """The payer's bank takes the money back until the dispute is decided."""
    dispute = {
        "id": call.store.new_id("dp"),
        "object": "dispute",
        "amount": amount or charge["amount"],
        "balance_transactions": [],
        "charge": charge["id"],
        "created": call.now,
        "currency": charge["currency"],
        "enhanced_eligibility_types": [],
        "evidence": {"enhanced_evidence": {}},
        "evidence_details": {
            "due_by": call.now + 7 * 24 * 3600,
            "enhanced_eligibility": {},
            "has_evidence": False,
            "past_due": False,
            "submission_count": 0,
        },
        "is_charge_refundable": False,
        "livemode": False,
        "metadata": {},
        "payment_intent": charge["payment_intent"],
        "reason": reason,
        "status": "needs_response",
    }
    call.store.add(dispute, parent=charge["id"])
    call.store.save(charge | {"disputed": True})
    call.emit("charge.dispute.created", dispute)
    call.emit("charge.dispute.funds_withdrawn", dispute)
    return dispute


def close_dispute(call: Call, dispute: dict[str, Any], *, won: bool) -> None:
    if dispute["status"] in {"won", "lost"}:
        return
    dispute["status"] = "won" if won else "lost"
    call.store.save(dispute)
    if won:
        call.store.save(call.require("charge", dispute["charge"]) | {"disputed": False})
        call.emit("charge.dispute.funds_reinstated", dispute)
    call.emit("charge.dispute.closed", dispute)


def retrieve_dispute(call: Call) -> dict[str, Any]:
    return call.require("dispute")


def list_disputes(call: Call) -> dict[str, Any]:
    params = call.params
    found = [
        dispute
        for dispute in call.store.all("dispute")
        if all(params.get(name) in {None, dispute[name]} for name in ("charge", "payment_intent"))
        and in_range(params.get("created"), dispute["created"])
    ]
    return call.page(found, "/v1/disputes")
