"""Customers and tax rates."""

from typing import Any

from .calls import Call, in_range, merged_metadata
from .errors import invalid


def create_customer(call: Call) -> dict[str, Any]:
    params = call.params
    customer = {
        "id": call.store.new_id("cus", 14),
        "object": "customer",
        "address": None,
        "balance": params.get("balance", 0),
        "created": call.now,
        "currency": None,
        "default_source": None,
        "delinquent": False,
        "description": params.get("description") or None,
        "discount": None,
        "email": params.get("email") or None,
        "invoice_prefix": call.store.new_id("x", 8)[2:].upper(),
        "invoice_settings": {
            "custom_fields": None,
            "default_payment_method": None,
            "footer": None,
            "rendering_options": None,
        },
        "livemode": False,
        "metadata": merged_metadata({}, params.get("metadata")),
        "name": params.get("name") or None,
        "next_invoice_sequence": 1,
        "phone": params.get("phone") or None,
        "preferred_locales": params.get("preferred_locales", []),
        "shipping": None,
        "tax_exempt": "none",
        "test_clock": None,
    }
    call.store.add(customer)
    call.emit("customer.created", customer)
    return customer


def retrieve_customer(call: Call) -> dict[str, Any]:
    return call.require("customer")


def update_customer(call: Call) -> dict[str, Any]:
    customer = call.require("customer")
    for name in ("description", "email", "name", "phone"):
        if name in call.params:
            customer[name] = call.params[name] or None
    for name in ("balance", "preferred_locales"):
        if name in call.params:
            customer[name] = call.params[name]
    customer["metadata"] = merged_metadata(customer["metadata"], call.params.get("metadata"))
    call.store.save(customer)
    call.emit("customer.updated", customer)
    return customer


def list_customers(call: Call) -> dict[str, Any]:
    email, created = call.params.get("email"), call.params.get("created")
    known = call.store.all("customer") if email is None else call.store.having("customer", "email", email)
    return call.page([each for each in known if in_range(created, each["created"])], "/v1/customers")


def create_tax_rate(call: Call) -> dict[str, Any]:
    params = call.params
    for name in ("display_name", "inclusive", "percentage"):
        if name not in params:
            raise invalid(f"Missing required param: {name}.", param=name, code="parameter_missing")
    if not 0 <= params["percentage"] <= 100:
        raise invalid("Invalid percentage: must be between 0 and 100", param="percentage")
    rate = {
        "id": call.store.new_id("txr"),
        "object": "tax_rate",
        "active": params.get("active", True),
        "country": params.get("country"),
        "created": call.now,
        "description": params.get("description"),
        "display_name": params["display_name"],
        "effective_percentage": None,
        "flat_amount": None,
        "inclusive": params["inclusive"],
        "jurisdiction": params.get("jurisdiction"),
        "jurisdiction_level": None,
        "livemode": False,
        "metadata": merged_metadata({}, params.get("metadata")),
        "percentage": params["percentage"],
        "rate_type": "percentage",
        "state": None,
        "tax_type": params.get("tax_type"),
    }
    call.store.add(rate)
    call.emit("tax_rate.created", rate)
    return rate


def retrieve_tax_rate(call: Call) -> dict[str, Any]:
    return call.require("tax_rate")


def list_tax_rates(call: Call) -> dict[str, Any]:
    found = [
        rate
        for rate in call.store.all("tax_rate")
        if all(rate[name] == call.params[name] for name in ("active", "inclusive") if name in call.params)
        and in_range(call.params.get("created"), rate["created"])
    ]
    return call.page(found, "/v1/tax_rates")
