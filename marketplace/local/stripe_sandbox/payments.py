"""Payment intents, charges and invoice payments, as far as paying an invoice needs them."""

from typing import Any

from .calls import Call, in_range
from .errors import Refusal, wrong_state

DECLINED = "pm_card_chargeDeclined"
ACCEPTED = "pm_card_visa"
_DECLINE = "Your card was declined."


def open_intent(call: Call, invoice: dict[str, Any]) -> None:
    """What a finalized invoice with something due carries: one intent and one open invoice payment."""
    intent = {
        "id": call.store.new_id("pi"),
        "object": "payment_intent",
        "amount": invoice["amount_due"],
        "amount_capturable": 0,
        "amount_received": 0,
        "application": None,
        "application_fee_amount": None,
        "automatic_payment_methods": None,
        "canceled_at": None,
        "cancellation_reason": None,
        "capture_method": "automatic",
        "confirmation_method": "automatic",
        "created": call.now,
        "currency": invoice["currency"],
        "customer": invoice["customer"],
        "description": None,
        "last_payment_error": None,
        "latest_charge": None,
        "livemode": False,
        "metadata": {},
        "next_action": None,
        "on_behalf_of": None,
        "payment_method": None,
        "payment_method_types": ["card"],
        "processing": None,
        "receipt_email": None,
        "review": None,
        "setup_future_usage": None,
        "shipping": None,
        "statement_descriptor": None,
        "statement_descriptor_suffix": None,
        "status": "requires_payment_method",
        "transfer_data": None,
        "transfer_group": None,
    }
    call.store.add(intent, parent=invoice["id"])
    call.emit("payment_intent.created", intent)
    payment = {
        "id": call.store.new_id("inpay"),
        "object": "invoice_payment",
        "amount_paid": None,
        "amount_requested": invoice["amount_due"],
        "created": call.now,
        "currency": invoice["currency"],
        "invoice": invoice["id"],
        "is_default": True,
        "livemode": False,
        "payment": {"payment_intent": intent["id"], "type": "payment_intent"},
        "status": "open",
        "status_transitions": {"canceled_at": None, "paid_at": None},
    }
    call.store.add(payment, parent=invoice["id"])


def _current(call: Call, kind: str, invoice: dict[str, Any]) -> dict[str, Any] | None:
    found = call.store.all(kind, parent=invoice["id"])
    return found[-1] if found else None


def cancel_intent(call: Call, invoice: dict[str, Any], *, reason: str) -> None:
    """The invoice will not be paid through Stripe: its intent and open payment end."""
    intent, payment = _current(call, "payment_intent", invoice), _current(call, "invoice_payment", invoice)
    if not intent or not payment or intent["status"] in {"succeeded", "canceled"}:
        return
    intent.update(status="canceled", canceled_at=call.now, cancellation_reason=reason)
    call.store.save(intent)
    call.emit("payment_intent.canceled", intent)
    payment["status"] = "canceled"
    payment["status_transitions"]["canceled_at"] = call.now
    call.store.save(payment)


def charge(call: Call, invoice: dict[str, Any], method: str) -> None:
    """Take the whole amount with one of Stripe's test methods; a declining one is a card error and changes nothing."""
    if method == DECLINED:
        raise Refusal(_DECLINE, status=402, type="card_error", code="card_declined", decline_code="generic_decline")
    if method != ACCEPTED:
        raise wrong_state(f"No such PaymentMethod: '{method}'", code="resource_missing")
    intent, payment = _current(call, "payment_intent", invoice), _current(call, "invoice_payment", invoice)
    if not intent or not payment:
        raise wrong_state("This invoice has no payment intent.")
    made = _charge(call, intent, invoice, failed=False)
    intent.update(
        status="succeeded", amount_received=intent["amount"], latest_charge=made["id"], last_payment_error=None
    )
    call.store.save(intent)
    call.emit("charge.succeeded", made)
    call.emit("payment_intent.succeeded", intent)
    payment.update(status="paid", amount_paid=intent["amount"])
    payment["status_transitions"]["paid_at"] = call.now
    call.store.save(payment)
    call.emit("invoice_payment.paid", payment)
    invoice.update(attempt_count=invoice["attempt_count"] + 1)


def decline(call: Call, invoice: dict[str, Any], method: str) -> None:
    """A failed attempt, recorded on the intent."""
    intent = _current(call, "payment_intent", invoice)
    if not intent:
        raise wrong_state("This invoice has no payment intent.")
    made = _charge(call, intent, invoice, failed=True)
    intent.update(
        latest_charge=made["id"],
        last_payment_error={
            "type": "card_error",
            "code": "card_declined",
            "decline_code": "generic_decline",
            "message": _DECLINE,
            "charge": made["id"],
        },
    )
    call.store.save(intent)
    call.emit("charge.failed", made)
    call.emit("payment_intent.payment_failed", intent)


def _charge(call: Call, intent: dict[str, Any], invoice: dict[str, Any], *, failed: bool) -> dict[str, Any]:
    made = {
        "id": call.store.new_id("ch"),
        "object": "charge",
        "amount": intent["amount"],
        "amount_captured": 0 if failed else intent["amount"],
        "amount_refunded": 0,
        "application": None,
        "application_fee": None,
        "application_fee_amount": None,
        "balance_transaction": None,
        "billing_details": {
            "address": None,
            "email": invoice["customer_email"],
            "name": invoice["customer_name"],
            "phone": None,
            "tax_id": None,
        },
        "calculated_statement_descriptor": None,
        "captured": not failed,
        "created": call.now,
        "currency": intent["currency"],
        "customer": intent["customer"],
        "description": f"Payment for Invoice {invoice['number']}",
        "disputed": False,
        "failure_balance_transaction": None,
        "failure_code": "card_declined" if failed else None,
        "failure_message": _DECLINE if failed else None,
        "fraud_details": {},
        "livemode": False,
        "metadata": {},
        "on_behalf_of": None,
        "outcome": None,
        "paid": not failed,
        "payment_intent": intent["id"],
        "payment_method": None,
        "payment_method_details": None,
        "receipt_email": None,
        "receipt_number": None,
        "receipt_url": None,
        "refunded": False,
        "review": None,
        "shipping": None,
        "source_transfer": None,
        "statement_descriptor": None,
        "statement_descriptor_suffix": None,
        "status": "failed" if failed else "succeeded",
        "transfer_data": None,
        "transfer_group": None,
    }
    return call.store.add(made, parent=intent["id"])


def retrieve_intent(call: Call) -> dict[str, Any]:
    return call.require("payment_intent")


def retrieve_charge(call: Call) -> dict[str, Any]:
    return call.require("charge")


def list_charges(call: Call) -> dict[str, Any]:
    params = call.params
    found = [
        made
        for made in call.store.all("charge")
        if all(params.get(name) in {None, made[name]} for name in ("customer", "payment_intent"))
        and in_range(params.get("created"), made["created"])
    ]
    return call.page(found, "/v1/charges")


def retrieve_invoice_payment(call: Call) -> dict[str, Any]:
    return call.require("invoice_payment")


def list_invoice_payments(call: Call) -> dict[str, Any]:
    params = call.params
    found = [
        payment
        for payment in call.store.all("invoice_payment", parent=params.get("invoice"))
        if params.get("status") in {None, payment["status"]} and in_range(params.get("created"), payment["created"])
    ]
    return call.page(found, "/v1/invoice_payments")


def retrieve_event(call: Call) -> dict[str, Any]:
    return call.require("event")


def list_events(call: Call) -> dict[str, Any]:
    wanted = call.params.get("types") or ([call.params["type"]] if "type" in call.params else None)
    found = [
        event
        for event in call.store.all("event")
        if (wanted is None or any(_named(event["type"], name) for name in wanted))
        and in_range(call.params.get("created"), event["created"])
    ]
    return call.page(found, "/v1/events")


def _named(type: str, wanted: str) -> bool:
    """`invoice.*` names a family."""
    return type.startswith(wanted[:-1]) if wanted.endswith("*") else type == wanted
