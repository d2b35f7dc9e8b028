"""The addresses the sandbox answers, each with the parameters it understands.

A parameter that Stripe has and this table lacks is refused out loud: silently ignoring it would let a test pass that
means nothing.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from . import (
    checkout,
    credit_notes,
    customers,
    intents,
    invoices,
    items,
    methods,
    payments,
    records,
    refunds,
)
from .calls import BOOLEAN, EMPTY, INTEGER, METADATA, NUMBER, PAGE, RANGE, STRING, STRINGS, Call, one_of
from .errors import Refusal, invalid
from .forms import coerce

Handler = Callable[[Call], dict[str, Any]]
Params = dict[str, dict[str, Any]]


class Route(NamedTuple):
    method: str
    pattern: re.Pattern[str]
    handler: Handler
    params: Params


_PERIOD = {"type": "object", "properties": {"start": INTEGER, "end": INTEGER}}
_FIELD = {"type": "object", "properties": {"name": STRING, "value": STRING}}
_FIELDS = {"anyOf": [{"type": "array", "items": _FIELD}, EMPTY]}
_COLLECTION = one_of("charge_automatically", "send_invoice")
_STATUS = one_of("draft", "open", "paid", "uncollectible", "void")
_CUSTOMER: Params = {
    "balance": INTEGER, "description": STRING, "email": STRING, "metadata": METADATA, "name": STRING, "phone": STRING,
    "preferred_locales": STRINGS,
}  # fmt: skip
_TAX_RATE: Params = {
    "active": BOOLEAN, "country": STRING, "description": STRING, "display_name": STRING, "inclusive": BOOLEAN,
    "jurisdiction": STRING, "metadata": METADATA, "percentage": NUMBER, "tax_type": STRING,
}  # fmt: skip
_ITEM: Params = {
    "amount": INTEGER, "currency": STRING, "customer": STRING, "description": STRING, "discountable": BOOLEAN,
    "invoice": STRING, "metadata": METADATA, "period": _PERIOD, "quantity": INTEGER, "quantity_decimal": STRING,
    "tax_rates": STRINGS, "unit_amount_decimal": STRING,
}  # fmt: skip
_INVOICE: Params = {
    "auto_advance": BOOLEAN, "collection_method": _COLLECTION, "currency": STRING, "custom_fields": _FIELDS,
    "customer": STRING, "days_until_due": INTEGER, "description": STRING, "due_date": INTEGER, "effective_at": INTEGER,
    "footer": STRING, "metadata": METADATA, "number": STRING,
    "pending_invoice_items_behavior": one_of("exclude", "include"),
}  # fmt: skip
_INVOICE_UPDATE: Params = {
    "auto_advance": BOOLEAN, "custom_fields": _FIELDS, "days_until_due": INTEGER, "description": STRING,
    "effective_at": INTEGER, "footer": STRING, "metadata": METADATA, "number": STRING,
}  # fmt: skip
_PAY: Params = {"paid_out_of_band": BOOLEAN, "payment_method": STRING}
_INVOICE_LIST: Params = {
    **PAGE, "collection_method": _COLLECTION, "created": RANGE, "customer": STRING, "status": _STATUS,
}  # fmt: skip
_ITEM_LIST: Params = {**PAGE, "created": RANGE, "customer": STRING, "invoice": STRING, "pending": BOOLEAN}
_PAYMENT_LIST: Params = {**PAGE, "created": RANGE, "invoice": STRING, "status": one_of("canceled", "open", "paid")}
_CHARGE_LIST: Params = {**PAGE, "created": RANGE, "customer": STRING, "payment_intent": STRING}
_EVENT_LIST: Params = {**PAGE, "created": RANGE, "type": STRING, "types": STRINGS}
_PRODUCT = {"type": "object", "properties": {"name": STRING, "description": STRING}}
_PRICE = {"type": "object", "properties": {"currency": STRING, "unit_amount": INTEGER, "product_data": _PRODUCT}}
_CHECKOUT_ITEM = {"type": "object", "properties": {"price_data": _PRICE, "quantity": INTEGER}}
_INTENT_DATA = {"type": "object", "properties": {
    "description": STRING, "metadata": METADATA, "setup_future_usage": one_of("off_session", "on_session"),
}}  # fmt: skip
_METHOD_OPTIONS = {"type": "object", "properties": {
    "wechat_pay": {"type": "object", "properties": {"client": one_of("web"), "app_id": STRING}},
}}  # fmt: skip
_CHECKOUT: Params = {
    "cancel_url": STRING, "client_reference_id": STRING, "currency": STRING, "customer": STRING, "expires_at": INTEGER,
    "line_items": {"type": "array", "items": _CHECKOUT_ITEM}, "locale": STRING, "metadata": METADATA,
    "mode": one_of("payment", "setup", "subscription"), "payment_intent_data": _INTENT_DATA,
    "payment_method_options": _METHOD_OPTIONS, "payment_method_types": STRINGS,
    "setup_intent_data": {"type": "object", "properties": {"metadata": METADATA}}, "success_url": STRING,
}  # fmt: skip
_CHECKOUT_LIST: Params = {
    **PAGE, "created": RANGE, "customer": STRING, "payment_intent": STRING,
    "status": one_of("complete", "expired", "open"),
}  # fmt: skip
_INTENT: Params = {
    "amount": INTEGER, "confirm": BOOLEAN, "currency": STRING, "customer": STRING, "description": STRING,
    "metadata": METADATA, "off_session": BOOLEAN, "payment_method": STRING,
}  # fmt: skip
_REFUND_REASON = one_of("duplicate", "fraudulent", "requested_by_customer")
_REFUND: Params = {
    "amount": INTEGER, "charge": STRING, "metadata": METADATA, "payment_intent": STRING, "reason": _REFUND_REASON,
}  # fmt: skip
_REFUND_LIST: Params = {**PAGE, "charge": STRING, "created": RANGE, "payment_intent": STRING}
_NOTE_LINE = {"type": "object", "properties": {
    "amount": INTEGER, "description": STRING, "invoice_line_item": STRING, "metadata": METADATA,
    "type": one_of("custom_line_item", "invoice_line_item"),
}}  # fmt: skip
_NOTE_REFUND = {"type": "object", "properties": {"amount_refunded": INTEGER, "refund": STRING}}
_NOTE: Params = {
    "credit_amount": INTEGER, "email_type": one_of("credit_note", "none"), "invoice": STRING,
    "lines": {"type": "array", "items": _NOTE_LINE}, "memo": STRING, "metadata": METADATA,
    "out_of_band_amount": INTEGER, "reason": STRING, "refund_amount": INTEGER,
    "refunds": {"type": "array", "items": _NOTE_REFUND},
}  # fmt: skip
_AMOUNT = {"type": "object", "properties": {"currency": STRING, "value": INTEGER}}
_CUSTOM = {"type": "object", "properties": {"display_name": STRING, "payment_reference": STRING, "type": STRING}}
_HOW = {"type": "object", "properties": {"custom": _CUSTOM, "type": one_of("custom")}}
_RECORD: Params = {
    "amount_requested": _AMOUNT,
    "customer_details": {"type": "object", "properties": {"customer": STRING, "email": STRING, "name": STRING}},
    "description": STRING, "guaranteed": {"type": "object", "properties": {"guaranteed_at": INTEGER}},
    "initiated_at": INTEGER, "metadata": METADATA, "outcome": one_of("failed", "guaranteed"),
    "payment_method_details": _HOW, "processor_details": _HOW,
}  # fmt: skip


def _route(method: str, path: str, handler: Handler, params: Params | None = None) -> Route:
    return Route(method, re.compile(path.replace("{id}", "(?P<id>[A-Za-z0-9_]+)") + "$"), handler, params or {})


ROUTES = [
    _route("POST", "/v1/customers", customers.create_customer, _CUSTOMER),
    _route("GET", "/v1/customers", customers.list_customers, {**PAGE, "created": RANGE, "email": STRING}),
    _route("GET", "/v1/customers/{id}", customers.retrieve_customer),
    _route("POST", "/v1/customers/{id}", customers.update_customer, _CUSTOMER),
    _route("POST", "/v1/tax_rates", customers.create_tax_rate, _TAX_RATE),
    _route("GET", "/v1/tax_rates", customers.list_tax_rates,
           {**PAGE, "active": BOOLEAN, "created": RANGE, "inclusive": BOOLEAN}),
    _route("GET", "/v1/tax_rates/{id}", customers.retrieve_tax_rate),
    _route("POST", "/v1/invoiceitems", items.create, _ITEM),
    _route("GET", "/v1/invoiceitems", items.list_items, _ITEM_LIST),
    _route("GET", "/v1/invoiceitems/{id}", items.retrieve),
    _route("DELETE", "/v1/invoiceitems/{id}", items.delete),
    _route("POST", "/v1/invoices", invoices.create, _INVOICE),
    _route("GET", "/v1/invoices", invoices.list_invoices, _INVOICE_LIST),
    _route("GET", "/v1/invoices/{id}", invoices.retrieve),
    _route("POST", "/v1/invoices/{id}", invoices.update, _INVOICE_UPDATE),
    _route("DELETE", "/v1/invoices/{id}", invoices.delete),
    _route("GET", "/v1/invoices/{id}/lines", invoices.list_lines, PAGE),
    _route("POST", "/v1/invoices/{id}/finalize", invoices.finalize, {"auto_advance": BOOLEAN}),
    _route("POST", "/v1/invoices/{id}/send", invoices.send),
    _route("POST", "/v1/invoices/{id}/pay", invoices.pay, _PAY),
    _route("POST", "/v1/invoices/{id}/void", invoices.void),
    _route("POST", "/v1/invoices/{id}/mark_uncollectible", invoices.mark_uncollectible),
    _route("POST", "/v1/invoices/{id}/attach_payment", records.attach, {"payment_record": STRING}),
    _route("POST", "/v1/payment_records/report_payment", records.report_payment, _RECORD),
    _route("GET", "/v1/payment_records/{id}", records.retrieve),
    _route("POST", "/v1/checkout/sessions", checkout.create, _CHECKOUT),
    _route("GET", "/v1/checkout/sessions", checkout.list_sessions, _CHECKOUT_LIST),
    _route("GET", "/v1/checkout/sessions/{id}", checkout.retrieve),
    _route("POST", "/v1/checkout/sessions/{id}/expire", checkout.expire),
    _route("POST", "/v1/payment_intents", intents.create, _INTENT),
    _route("GET", "/v1/payment_intents", intents.list_intents, {**PAGE, "created": RANGE, "customer": STRING}),
    _route("GET", "/v1/payment_intents/{id}", intents.retrieve),
    _route("GET", "/v1/charges", intents.list_charges, _CHARGE_LIST),
    _route("GET", "/v1/charges/{id}", intents.retrieve_charge),
    _route("GET", "/v1/setup_intents", methods.list_setups, {**PAGE, "created": RANGE, "customer": STRING}),
    _route("GET", "/v1/setup_intents/{id}", methods.retrieve_setup),
    _route("GET", "/v1/payment_methods", methods.list_methods,
           {**PAGE, "customer": STRING, "type": one_of(*checkout.KINDS)}),
    _route("GET", "/v1/payment_methods/{id}", methods.retrieve),
    _route("POST", "/v1/payment_methods/{id}/attach", methods.attach, {"customer": STRING}),
    _route("POST", "/v1/payment_methods/{id}/detach", methods.detach),
    _route("POST", "/v1/refunds", refunds.create, _REFUND),
    _route("GET", "/v1/refunds", refunds.list_refunds, _REFUND_LIST),
    _route("GET", "/v1/refunds/{id}", refunds.retrieve),
    _route("GET", "/v1/disputes", refunds.list_disputes, _REFUND_LIST),
    _route("GET", "/v1/disputes/{id}", refunds.retrieve_dispute),
    _route("POST", "/v1/credit_notes", credit_notes.create, _NOTE),
    _route("GET", "/v1/credit_notes", credit_notes.list_notes,
           {**PAGE, "created": RANGE, "customer": STRING, "invoice": STRING}),
    _route("GET", "/v1/credit_notes/{id}", credit_notes.retrieve),
    _route("GET", "/v1/credit_notes/{id}/lines", credit_notes.list_lines, PAGE),
    _route("GET", "/v1/invoice_payments", payments.list_invoice_payments, _PAYMENT_LIST),
    _route("GET", "/v1/invoice_payments/{id}", payments.retrieve_invoice_payment),
    _route("GET", "/v1/events", payments.list_events, _EVENT_LIST),
    _route("GET", "/v1/events/{id}", payments.retrieve_event),
]  # fmt: skip


def find(method: str, path: str) -> tuple[Route, str]:
    """The route and the id in its address. Raises the 404 that Stripe gives an unknown one."""
    for route in ROUTES:
        if route.method == method and (match := route.pattern.match(path)):
            return route, match.groupdict().get("id", "")
    raise Refusal(f"Unrecognized request URL ({method}: {path}).", status=404, stored=False)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "array": list,
}  # fmt: skip


def accepted(route: Route, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with their types, or the refusal of the first one that is unknown or mistyped."""
    for name in params:
        if name not in route.params:
            raise invalid(f"Received unknown parameter: {name}", param=name, code="parameter_unknown")
    values = {name: coerce(value, route.params[name]) for name, value in params.items()}
    for name, value in values.items():
        if not _fits(value, route.params[name]):
            kind = route.params[name].get("type", "value")
            code = "parameter_invalid_integer" if kind == "integer" else None
            raise invalid(f"Invalid {kind}: {str(value)[:80]}", param=name, code=code)
    return values


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    if "anyOf" in schema:
        return any(_fits(value, option) for option in schema["anyOf"])
    if not isinstance(value, _TYPES[schema["type"]]) or value not in schema.get("enum", [value]):
        return False
    if isinstance(value, list):
        return all(_fits(item, schema["items"]) for item in value)
    if isinstance(value, dict):
        properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
        schemas = [properties.get(name, rest) for name in value]
        return all(inner and _fits(item, inner) for inner, item in zip(schemas, value.values(), strict=True))
    return True
