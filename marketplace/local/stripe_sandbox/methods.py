"""Means of payment that customers leave, and the setup intents that collect them."""

from typing import Any

from .calls import Call, in_range
from .errors import wrong_state

# Stripe's test methods (https://docs.stripe.com/testing) that the sandbox knows, by how a charge of them ends.
TOKENS = {
    "pm_card_visa": "",
    "pm_card_chargeCustomerFail": "card_declined",
    "pm_card_authenticationRequired": "authentication_required",
}
LAST4 = {"pm_card_visa": "4242", "pm_card_chargeCustomerFail": "0341", "pm_card_authenticationRequired": "3184"}


def billing_details(customer: dict[str, Any]) -> dict[str, Any]:
    return {
        "address": None,
        "email": customer.get("email"),
        "name": customer.get("name"),
        "phone": customer.get("phone"),
        "tax_id": None,
    }


def save(call: Call, customer: dict[str, Any], *, token: str = "pm_card_visa") -> dict[str, Any]:
    """A card attached to the customer that behaves as Stripe's test token of that name."""
    method = {
        "id": call.store.new_id("pm"),
        "object": "payment_method",
        "allow_redisplay": "limited",
        "billing_details": billing_details(customer),
        "card": {
            "brand": "visa",
            "checks": None,
            "country": "CN",
            "display_brand": "visa",
            "exp_month": 12,
            "exp_year": 2034,
            "funding": "credit",
            "generated_from": None,
            "last4": LAST4[token],
            "networks": None,
            "three_d_secure_usage": None,
            "wallet": None,
        },
        "created": call.now,
        "customer": customer["id"],
        "livemode": False,
        "metadata": {},
        "type": "card",
        "sandbox_refuses": TOKENS[token],
    }
    call.store.add(method, parent=customer["id"])
    call.emit("payment_method.attached", method)
    return method


def refuses(method: dict[str, Any]) -> str:
    """The error a charge of this method ends with, or nothing."""
    return method["sandbox_refuses"]


def attach(call: Call) -> dict[str, Any]:
    if call.id not in TOKENS:
        raise wrong_state(f"No such PaymentMethod: '{call.id}'", code="resource_missing")
    return save(call, call.require("customer", call.params.get("customer"), param="customer"), token=call.id)


def retrieve(call: Call) -> dict[str, Any]:
    return call.require("payment_method")


def list_methods(call: Call) -> dict[str, Any]:
    params = call.params
    found = [
        method
        for method in call.store.all("payment_method", parent=params.get("customer"))
        if method["customer"] and params.get("type") in {None, method["type"]}
    ]
    return call.page(found, "/v1/payment_methods")


def detach(call: Call) -> dict[str, Any]:
    method = call.require("payment_method")
    if not method["customer"]:
        raise wrong_state("The payment method you provided is not attached to a customer so detachment is impossible.")
    method["customer"] = None
    call.store.save(method)
    call.emit("payment_method.detached", method)
    return method


def open_setup(call: Call, customer: str | None, metadata: dict[str, str], kinds: list[str]) -> dict[str, Any]:
    setup = {
        "id": call.store.new_id("seti"),
        "object": "setup_intent",
        "application": None,
        "automatic_payment_methods": None,
        "cancellation_reason": None,
        "client_secret": None,
        "created": call.now,
        "customer": customer,
        "description": None,
        "flow_directions": None,
        "last_setup_error": None,
        "latest_attempt": None,
        "livemode": False,
        "mandate": None,
        "metadata": metadata,
        "next_action": None,
        "on_behalf_of": None,
        "payment_method": None,
        "payment_method_options": None,
        "payment_method_types": kinds,
        "single_use_mandate": None,
        "status": "requires_payment_method",
        "usage": "off_session",
    }
    call.store.add(setup)
    call.emit("setup_intent.created", setup)
    return setup


def finish_setup(call: Call, setup: dict[str, Any], method: dict[str, Any]) -> None:
    setup.update(status="succeeded", payment_method=method["id"])
    call.store.save(setup)
    call.emit("setup_intent.succeeded", setup)


def retrieve_setup(call: Call) -> dict[str, Any]:
    return call.require("setup_intent")


def list_setups(call: Call) -> dict[str, Any]:
    params = call.params
    found = [
        setup
        for setup in call.store.all("setup_intent")
        if params.get("customer") in {None, setup["customer"]} and in_range(params.get("created"), setup["created"])
    ]
    return call.page(found, "/v1/setup_intents")
