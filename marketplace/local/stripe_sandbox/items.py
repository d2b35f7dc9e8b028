"""Invoice items: what a draft is made of."""

import re
from decimal import Decimal
from typing import Any

from . import amounts
from .calls import Call, in_range, merged_metadata
from .errors import invalid, wrong_state
from .invoices import expect_draft

MAX_ITEMS = 250
_DECIMAL = re.compile(r"^-?\d{1,15}(\.\d+)?$")


def create(call: Call) -> dict[str, Any]:
    params = call.params
    invoice = call.require("invoice", params["invoice"], param="invoice") if params.get("invoice") else None
    customer = call.require("customer", _customer_of(params, invoice), param="customer")
    currency = _currency_of(params, invoice)
    rates = [call.require("tax_rate", rate, param="tax_rates") for rate in params.get("tax_rates", [])]
    quantity, amount = _priced(params)
    metadata = merged_metadata({}, params.get("metadata"))
    if invoice:
        expect_draft(invoice)
        if len(call.store.all("invoiceitem", parent=invoice["id"])) >= MAX_ITEMS:
            raise wrong_state(f"An invoice can have at most {MAX_ITEMS} invoice items.")
    period = params.get("period") or {"start": call.now, "end": call.now}
    if period["end"] < period["start"]:
        raise invalid("The period's end must not lie before its start.", param="period[end]")
    item = {
        "id": call.store.new_id("ii"),
        "object": "invoiceitem",
        "amount": amount,
        "currency": currency,
        "customer": customer["id"],
        "date": call.now,
        "description": params.get("description") or None,
        "discountable": params.get("discountable", True),
        "discounts": [],
        "invoice": invoice["id"] if invoice else None,
        "livemode": False,
        "metadata": metadata,
        "net_amount": amount,
        "parent": None,
        "period": {"start": period["start"], "end": period["end"]},
        "pricing": {
            "price_details": {"price": call.store.new_id("price"), "product": call.store.new_id("prod", 14)},
            "type": "price_details",
            "unit_amount_decimal": _plain(Decimal(str(params.get("unit_amount_decimal", amount)))),
        },
        "proration": False,
        "quantity": int(quantity),
        "quantity_decimal": _plain(quantity),
        "tax_rates": rates,
        "test_clock": None,
    }
    call.store.add(item, parent=invoice["id"] if invoice else customer["id"])
    call.emit("invoiceitem.created", item)
    return item


def _customer_of(params: dict[str, Any], invoice: dict[str, Any] | None) -> str:
    if invoice and params.get("customer", invoice["customer"]) != invoice["customer"]:
        raise invalid("The customer does not match the invoice's customer.", param="customer")
    customer = invoice["customer"] if invoice else params.get("customer")
    if not customer:
        raise invalid("Missing required param: customer.", param="customer", code="parameter_missing")
    return str(customer)


def _currency_of(params: dict[str, Any], invoice: dict[str, Any] | None) -> str:
    currency = str(params.get("currency") or (invoice["currency"] if invoice else "")).lower()
    if not currency:
        raise invalid("Missing required param: currency.", param="currency", code="parameter_missing")
    if currency not in amounts.MINIMUM:
        raise invalid(f"Invalid currency: {currency}.", param="currency")
    if invoice and currency != invoice["currency"]:
        raise invalid(
            f"The currency of the invoice item ({currency}) differs from the invoice's ({invoice['currency']}).",
            param="currency",
        )
    return currency


def _priced(params: dict[str, Any]) -> tuple[Decimal, int]:
    """Quantity and amount: given as one integer, or as a unit amount times a quantity, rounded once."""
    by_unit = "unit_amount_decimal" in params
    if by_unit == ("amount" in params):
        raise invalid("Give either amount or unit_amount_decimal.", param="amount", code="parameter_missing")
    if "quantity" in params and "quantity_decimal" in params:
        raise invalid("Give either quantity or quantity_decimal.", param="quantity")
    quantity = _twelve_places(str(params.get("quantity_decimal", params.get("quantity", 1))), "quantity_decimal")
    if not by_unit:
        if quantity != 1:
            raise invalid("You may only specify one of these parameters: amount, quantity.", param="quantity")
        return Decimal(1), params["amount"]
    unit = _twelve_places(params["unit_amount_decimal"], "unit_amount_decimal")
    return quantity, amounts.half_up(unit * quantity)


def _twelve_places(value: str, name: str) -> Decimal:
    if not _DECIMAL.match(value):
        raise invalid(f"Invalid decimal: {name} must be a number.", param=name)
    number = Decimal(value)
    if -int(number.as_tuple().exponent) > 12:
        raise invalid(f"Invalid decimal: {name} may have at most 12 decimal places.", param=name)
    return number


def _plain(value: Decimal) -> str:
    return f"{value:f}"


def retrieve(call: Call) -> dict[str, Any]:
    return call.require("invoiceitem")


def list_items(call: Call) -> dict[str, Any]:
    params = call.params
    found = [
        item
        for item in call.store.all("invoiceitem")
        if params.get("invoice") in {None, item["invoice"]}
        and params.get("customer") in {None, item["customer"]}
        and ("pending" not in params or params["pending"] == (item["invoice"] is None))
        and in_range(params.get("created"), item["date"])
    ]
    return call.page(found, "/v1/invoiceitems")


def delete(call: Call) -> dict[str, Any]:
    item = call.require("invoiceitem")
    if item["invoice"]:
        expect_draft(call.require("invoice", item["invoice"], param="invoice"))
    call.store.remove(item["id"])
    call.emit("invoiceitem.deleted", item)
    return {"id": item["id"], "object": "invoiceitem", "deleted": True}
