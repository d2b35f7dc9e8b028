"""Payment intents and the charges they make, for invoices, checkouts and saved methods alike."""

from typing import Any

from . import methods
from .calls import Call, in_range, merged_metadata
from .errors import Refusal, invalid, wrong_state

_DECLINE = "Your card was declined."
_CONFIRM = "Your card was declined. This transaction requires authentication."


def blank(
    call: Call, *, amount: int, currency: str, customer: str | None, description: str | None = None,
    metadata: dict[str, str] | None = None, kinds: list[str] | None = None, parent: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A stored intent that nobody has paid yet."""
    intent = {
        "id": call.store.new_id("pi"),
        "object": "payment_intent",
        "amount": amount,
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
        "currency": currency,
        "customer": customer,
        "description": description,
        "last_payment_error": None,
        "latest_charge": None,
        "livemode": False,
        "metadata": metadata or {},
        "next_action": None,
        "on_behalf_of": None,
        "payment_method": None,
        "payment_method_types": kinds or ["card"],
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
    call.store.add(intent, parent=parent)
    call.emit("payment_intent.created", intent)
    return intent


def succeed(call: Call, intent: dict[str, Any], *, method: str | None = None) -> dict[str, Any]:
    """The whole amount arrived. Returns the charge."""
    made = _charge(call, intent, failed=False)
    intent.update(
        status="succeeded", amount_received=intent["amount"], latest_charge=made["id"], last_payment_error=None,
        processing=None, next_action=None, payment_method=method or intent["payment_method"],
    )  # fmt: skip
    call.store.save(intent)
    call.emit("charge.succeeded", made)
    call.emit("payment_intent.succeeded", intent)
    return made


def fail(call: Call, intent: dict[str, Any], *, code: str = "card_declined") -> dict[str, Any]:
    """An attempt that brought nothing, recorded on the intent. Returns the error as the API words it."""
    made = _charge(call, intent, failed=True)
    error = {
        "type": "card_error",
        "code": code,
        "decline_code": "authentication_required" if code == "authentication_required" else "generic_decline",
        "message": _CONFIRM if code == "authentication_required" else _DECLINE,
        "charge": made["id"],
    }
    intent.update(latest_charge=made["id"], last_payment_error=error, status="requires_payment_method", processing=None)
    call.store.save(intent)
    call.emit("charge.failed", made)
    call.emit("payment_intent.payment_failed", intent)
    return error


def declined(error: dict[str, Any], intent: dict[str, Any]) -> Refusal:
    """The 402 of an attempt that is recorded: what happened stays, and a key remembers the answer."""
    extra = {key: value for key, value in error.items() if key not in {"type", "code", "message"}}
    return Refusal(
        error["message"], status=402, type="card_error", code=error["code"], kept=True, payment_intent=intent, **extra
    )


def cancel(call: Call, intent: dict[str, Any], *, reason: str) -> None:
    intent.update(status="canceled", canceled_at=call.now, cancellation_reason=reason)
    call.store.save(intent)
    call.emit("payment_intent.canceled", intent)


def create(call: Call) -> dict[str, Any]:
    """Only what charging a saved method needs: confirmed at once, off session."""
    params = call.params
    for name in ("confirm", "off_session", "payment_method", "customer"):
        if not params.get(name):
            raise invalid(f"The sandbox makes intents only with {name}.", param=name, code="parameter_missing")
    customer = call.require("customer", params["customer"], param="customer")
    method = call.require("payment_method", params["payment_method"], param="payment_method")
    if method["customer"] != customer["id"]:
        raise wrong_state("The PaymentMethod does not belong to the Customer you supplied.")
    intent = blank(
        call, amount=params["amount"], currency=params["currency"].lower(), customer=customer["id"],
        description=params.get("description"), metadata=merged_metadata({}, params.get("metadata")),
    )  # fmt: skip
    if code := methods.refuses(method):
        raise declined(fail(call, intent, code=code), intent)
    succeed(call, intent, method=method["id"])
    return intent


def retrieve(call: Call) -> dict[str, Any]:
    return call.require("payment_intent")


def list_intents(call: Call) -> dict[str, Any]:
    params = call.params
    found = [
        intent
        for intent in call.store.all("payment_intent")
        if params.get("customer") in {None, intent["customer"]} and in_range(params.get("created"), intent["created"])
    ]
    return call.page(found, "/v1/payment_intents")


def _charge(call: Call, intent: dict[str, Any], *, failed: bool) -> dict[str, Any]:
    customer = call.store.get("customer", intent["customer"]) or {}
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
        "billing_details": methods.billing_details(customer),
        "calculated_statement_descriptor": None,
        "captured": not failed,
        "created": call.now,
        "currency": intent["currency"],
        "customer": intent["customer"],
        "description": intent["description"],
        "disputed": False,
        "failure_balance_transaction": None,
        "failure_code": "card_declined" if failed else None,
        "failure_message": _DECLINE if failed else None,
        "fraud_details": {},
        "livemode": False,
        "metadata": intent["metadata"],
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


def paid_charge(call: Call, intent_id: str) -> dict[str, Any]:
    """The charge that brought an intent's money. A refusal when there is none."""
    for made in reversed(call.store.all("charge", parent=intent_id)):
        if made["status"] == "succeeded":
            return made
    raise wrong_state(f"This PaymentIntent ({intent_id}) does not have a successful charge to refund.")
