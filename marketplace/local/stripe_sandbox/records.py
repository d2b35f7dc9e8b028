"""Money that came by other means: payment records, and invoices that take them (partial payments)."""

from typing import Any

from . import invoices, payments
from .calls import Call, merged_metadata
from .errors import invalid, wrong_state

_AMOUNTS = ("authorized", "canceled", "failed", "refunded")


def report_payment(call: Call) -> dict[str, Any]:
    params = call.params
    if params.get("outcome") != "guaranteed" or "guaranteed" not in params:
        raise invalid("The sandbox records guaranteed payments only.", param="outcome")
    asked = params["amount_requested"]
    currency, value = asked["currency"].lower(), asked["value"]
    if value <= 0:
        raise invalid("The amount must be positive.", param="amount_requested[value]")
    how = params["payment_method_details"]
    details = params.get("customer_details", {})
    record = {
        "id": call.store.new_id("pr"),
        "object": "payment_record",
        "amount": {"currency": currency, "value": value},
        **{f"amount_{name}": {"currency": currency, "value": 0} for name in _AMOUNTS},
        "amount_guaranteed": {"currency": currency, "value": value},
        "amount_requested": {"currency": currency, "value": value},
        "application": None,
        "created": call.now,
        "customer_details": {
            "customer": details.get("customer"), "email": details.get("email"), "name": details.get("name"),
            "phone": None,
        },
        "customer_presence": None,
        "description": params.get("description"),
        "latest_payment_attempt_record": None,
        "livemode": False,
        "metadata": merged_metadata({}, params.get("metadata")),
        "payment_method_details": {
            "billing_details": None,
            "custom": {"display_name": how.get("custom", {}).get("display_name", ""), "type": None},
            "payment_method": None,
            "type": "custom",
        },
        "processor_details": params.get("processor_details", {"type": "custom"}),
        "reported_by": "self",
        "shipping_details": None,
        "sandbox_invoice": "",
    }  # fmt: skip
    return call.store.add(record)


def retrieve(call: Call) -> dict[str, Any]:
    return call.require("payment_record")


def attach(call: Call) -> dict[str, Any]:
    """Credit a record to an invoice at once: less remains, or all is paid, or too much came."""
    invoice = call.require("invoice")
    record = call.require("payment_record", call.params.get("payment_record"), param="payment_record")
    invoices.expect_payable(invoice)
    if record["sandbox_invoice"]:
        raise wrong_state("This payment record is already attached to an invoice.")
    amount = record["amount"]["value"]
    if record["amount"]["currency"] != invoice["currency"]:
        raise wrong_state("The payment record's currency differs from the invoice's.")
    call.store.save(record | {"sandbox_invoice": invoice["id"]})
    used = min(amount, invoice["amount_remaining"])
    payment = payments.outside(call, invoice, record["id"], amount)
    invoice["amount_paid"] += used
    invoice["amount_remaining"] -= used
    invoice["amount_paid_off_stripe"] += amount
    invoice["amount_overpaid"] += amount - used
    call.store.save(invoice)
    call.emit("invoice_payment.paid", payment)
    if invoice["amount_remaining"]:
        payments.adjust_intent(call, invoice)
        return invoices.saved(call, invoice, "invoice.updated")
    payments.cancel_intent(call, invoice, reason="abandoned")
    shown = invoices.settle(call, invoice)
    if amount > used:
        call.emit("invoice.overpaid", shown)
    return shown
