"""Invoices, with the states and refusals of https://docs.stripe.com/invoicing/overview."""

from typing import Any

from . import amounts, payments
from .calls import Call, in_range, merged_metadata
from .errors import Refusal, invalid, wrong_state

EMBEDDED_LINES = 10
DAY = 24 * 3600
_CUSTOM_FIELDS = 4


def create(call: Call) -> dict[str, Any]:
    params = call.params
    if "customer" not in params:
        raise invalid("Missing required param: customer.", param="customer", code="parameter_missing")
    customer = call.require("customer", params["customer"], param="customer")
    currency = str(params.get("currency") or customer["currency"] or "usd").lower()
    if currency not in amounts.MINIMUM:
        raise invalid(f"Invalid currency: {currency}.", param="currency")
    number = params.get("number") or None
    _expect_free_number(call, number)
    invoice = _blank(call, customer, currency)
    invoice.update(
        auto_advance=params.get("auto_advance", False),
        collection_method=params.get("collection_method", "charge_automatically"),
        custom_fields=_custom_fields(params.get("custom_fields")),
        description=params.get("description") or None,
        due_date=_due_date(call),
        effective_at=params.get("effective_at"),
        footer=params.get("footer") or None,
        metadata=merged_metadata({}, params.get("metadata")),
        number=number,
    )
    call.store.add(invoice, parent=customer["id"])
    if customer["currency"] is None:
        call.store.save(customer | {"currency": currency})
    if params.get("pending_invoice_items_behavior") == "include":
        _take_pending(call, invoice)
    shown = rendered(call, invoice)
    call.emit("invoice.created", shown)
    return shown


def _blank(call: Call, customer: dict[str, Any], currency: str) -> dict[str, Any]:
    return {
        "id": call.store.new_id("in"),
        "object": "invoice",
        "account_country": "HK",
        "account_name": "Sandbox",
        "account_tax_ids": None,
        "amount_due": 0,
        "amount_overpaid": 0,
        "amount_paid": 0,
        "amount_paid_off_stripe": 0,
        "amount_remaining": 0,
        "amount_shipping": 0,
        "application": None,
        "attempt_count": 0,
        "attempted": False,
        "automatic_tax": {
            "disabled_reason": None, "enabled": False, "liability": None, "provider": None, "status": None,
        },
        "automatically_finalizes_at": None,
        "billing_reason": "manual",
        "created": call.now,
        "currency": currency,
        "customer": customer["id"],
        "customer_address": customer["address"],
        "customer_email": customer["email"],
        "customer_name": customer["name"],
        "customer_phone": customer["phone"],
        "customer_shipping": None,
        "customer_tax_exempt": customer["tax_exempt"],
        "customer_tax_ids": [],
        "default_payment_method": None,
        "default_source": None,
        "default_tax_rates": [],
        "discounts": [],
        "ending_balance": None,
        "from_invoice": None,
        "issuer": {"type": "self"},
        "last_finalization_error": None,
        "latest_revision": None,
        "livemode": False,
        "next_payment_attempt": None,
        "on_behalf_of": None,
        "parent": None,
        "payment_settings": {
            "default_mandate": None, "payment_method_options": None, "payment_method_types": None,
        },
        "period_end": call.now,
        "period_start": call.now,
        "post_payment_credit_notes_amount": 0,
        "pre_payment_credit_notes_amount": 0,
        "receipt_number": None,
        "rendering": None,
        "shipping_cost": None,
        "shipping_details": None,
        "starting_balance": 0,
        "statement_descriptor": None,
        "status": "draft",
        "status_transitions": {
            "finalized_at": None, "marked_uncollectible_at": None, "paid_at": None, "voided_at": None,
        },
        "test_clock": None,
        "total_discount_amounts": [],
        "total_pretax_credit_amounts": [],
        "webhooks_delivered_at": None,
        "sandbox_token": call.store.new_id("test", 40),
    }  # fmt: skip


def _custom_fields(fields: Any) -> list[dict[str, str]] | None:
    if not fields:
        return None
    if len(fields) > _CUSTOM_FIELDS:
        raise invalid(f"You may have up to {_CUSTOM_FIELDS} custom fields.", param="custom_fields")
    return [{"name": field["name"], "value": field["value"]} for field in fields]


def _due_date(call: Call) -> int | None:
    params = call.params
    if params.get("collection_method") != "send_invoice":
        if "days_until_due" in params or "due_date" in params:
            raise invalid(
                "You can only pass in `days_until_due` or `due_date` when `collection_method` is `send_invoice`.",
                param="days_until_due",
            )
        return None
    if "due_date" in params and "days_until_due" in params:
        raise invalid("You may only specify one of these parameters: days_until_due, due_date.", param="due_date")
    if "due_date" in params:
        return int(params["due_date"])
    if "days_until_due" not in params:
        raise invalid(
            "`days_until_due` or `due_date` is required when `collection_method` is `send_invoice`.",
            param="days_until_due",
            code="parameter_missing",
        )
    return call.now + int(params["days_until_due"]) * DAY


def _expect_free_number(call: Call, number: str | None, *, own: str = "") -> None:
    for other in call.store.having("invoice", "number", number) if number else []:
        if other["id"] != own and other["status"] != "void":
            raise invalid(f"The invoice number {number} is already in use.", param="number")


def _take_pending(call: Call, invoice: dict[str, Any]) -> None:
    for item in call.store.all("invoiceitem", parent=invoice["customer"]):
        if item["currency"] == invoice["currency"]:
            call.store.save(item | {"invoice": invoice["id"]}, parent=invoice["id"])


def lines_of(call: Call, invoice: dict[str, Any]) -> list[dict[str, Any]]:
    """The invoice's lines in the order in which they were added."""
    return [_line(item) for item in call.store.all("invoiceitem", parent=invoice["id"])]


def _line(item: dict[str, Any]) -> dict[str, Any]:
    taxes = amounts.line_taxes(item["amount"], item["tax_rates"] or [])
    return {
        "id": f"il_{item['id'].removeprefix('ii_')}",
        "object": "line_item",
        "amount": item["amount"],
        "currency": item["currency"],
        "description": item["description"],
        "discount_amounts": [],
        "discountable": item["discountable"],
        "discounts": [],
        "invoice": item["invoice"],
        "livemode": False,
        "metadata": item["metadata"],
        "parent": {
            "invoice_item_details": {
                "invoice_item": item["id"],
                "proration": False,
                "proration_details": {"credited_items": None},
                "subscription": None,
            },
            "subscription_item_details": None,
            "type": "invoice_item_details",
        },
        "period": item["period"],
        "pretax_credit_amounts": [],
        "pricing": item["pricing"],
        "quantity": item["quantity"],
        "quantity_decimal": item["quantity_decimal"],
        "subtotal": item["amount"],
        "taxes": taxes,
    }


def rendered(call: Call, invoice: dict[str, Any]) -> dict[str, Any]:
    """The invoice as Stripe answers it: totals of its lines, the first ten of them, its page once it is finalized."""
    lines = lines_of(call, invoice)
    shown = {key: value for key, value in invoice.items() if not key.startswith("sandbox_")}
    shown.update(amounts.totals(lines))
    if invoice["status"] == "draft":
        shown["amount_due"] = shown["amount_remaining"] = max(0, shown["total"])
    shown["lines"] = {
        "object": "list",
        "data": lines[:EMBEDDED_LINES],
        "has_more": len(lines) > EMBEDDED_LINES,
        "url": f"/v1/invoices/{invoice['id']}/lines",
    }
    final = invoice["status_transitions"]["finalized_at"]
    shown["hosted_invoice_url"] = f"{call.base_url}/i/{invoice['sandbox_token']}" if final else None
    shown["invoice_pdf"] = None
    return shown


def retrieve(call: Call) -> dict[str, Any]:
    return rendered(call, call.require("invoice"))


def list_invoices(call: Call) -> dict[str, Any]:
    params = call.params
    found = [
        invoice
        for invoice in call.store.all("invoice", parent=params.get("customer"))
        if all(params.get(name) in {None, invoice[name]} for name in ("status", "collection_method"))
        and in_range(params.get("created"), invoice["created"])
    ]
    page = call.page(found, "/v1/invoices")
    return page | {"data": [rendered(call, invoice) for invoice in page["data"]]}


def list_lines(call: Call) -> dict[str, Any]:
    invoice = call.require("invoice")
    return call.page(lines_of(call, invoice), f"/v1/invoices/{invoice['id']}/lines", newest_first=False)


def update(call: Call) -> dict[str, Any]:
    """Metadata in any state; everything else only while a draft."""
    invoice, params = call.require("invoice"), call.params
    if set(params) - {"metadata"}:
        expect_draft(invoice)
    if "number" in params:
        _expect_free_number(call, params["number"] or None, own=invoice["id"])
        invoice["number"] = params["number"] or None
    for name in ("description", "footer"):
        if name in params:
            invoice[name] = params[name] or None
    for name in ("auto_advance", "effective_at"):
        if name in params:
            invoice[name] = params[name]
    if "custom_fields" in params:
        invoice["custom_fields"] = _custom_fields(params["custom_fields"])
    if "days_until_due" in params:
        invoice["due_date"] = invoice["created"] + params["days_until_due"] * DAY
    invoice["metadata"] = merged_metadata(invoice["metadata"], params.get("metadata"))
    return saved(call, invoice, "invoice.updated")


def delete(call: Call) -> dict[str, Any]:
    invoice = call.require("invoice")
    if invoice["status"] != "draft":
        raise wrong_state("You can only delete draft invoices.", code="invoice_not_editable")
    shown = rendered(call, invoice)
    for item in call.store.all("invoiceitem", parent=invoice["id"]):
        call.store.remove(item["id"])
    call.store.remove(invoice["id"])
    call.emit("invoice.deleted", shown)
    return {"id": invoice["id"], "object": "invoice", "deleted": True}


def finalize(call: Call) -> dict[str, Any]:
    """Freeze the draft: number, amount due after the customer's balance, payment intent, hosted page."""
    invoice = call.require("invoice")
    if invoice["status"] != "draft":
        raise wrong_state("This invoice is already finalized, you can't re-finalize it.")
    if call.suffers("finalization_failed"):
        raise _not_finalized(call, invoice)
    customer = call.require("customer", invoice["customer"], param="customer")
    if not invoice["number"]:
        invoice["number"] = f"{customer['invoice_prefix']}-{customer['next_invoice_sequence']:04d}"
        customer["next_invoice_sequence"] += 1
    total = amounts.totals(lines_of(call, invoice))["total"]
    amount_due, balance = amounts.due(total, customer["balance"], invoice["currency"])
    invoice.update(
        amount_due=amount_due,
        amount_remaining=amount_due,
        auto_advance=call.params.get("auto_advance", invoice["auto_advance"]),
        effective_at=invoice["effective_at"] or call.now,
        ending_balance=balance,
        starting_balance=customer["balance"],
        status="open",
    )
    customer["balance"] = balance
    invoice["status_transitions"]["finalized_at"] = call.now
    call.store.save(customer)
    call.store.save(invoice)
    if amount_due:
        payments.open_intent(call, invoice)
    shown = saved(call, invoice, "invoice.finalized")
    return shown if amount_due else settle(call, invoice)


def _not_finalized(call: Call, invoice: dict[str, Any]) -> Refusal:
    """The draft stays one and says why."""
    error = {
        "code": "customer_tax_location_invalid",
        "message": "The customer's location isn't recognized (sandbox fault).",
        "type": "invalid_request_error",
    }
    invoice["last_finalization_error"] = error
    saved(call, invoice, "invoice.finalization_failed")
    return Refusal(error["message"], code=error["code"], kept=True)


def send(call: Call) -> dict[str, Any]:
    """Mail leaves nobody's house; the event is what the sandbox sends."""
    invoice = call.require("invoice")
    if invoice["status"] == "draft":
        raise wrong_state("Finalize the invoice before sending it.")
    if invoice["collection_method"] != "send_invoice":
        raise wrong_state("You can only manually send an invoice if its collection method is 'send_invoice'.")
    if invoice["status"] == "void":
        raise wrong_state("You cannot send a voided invoice.")
    return saved(call, invoice, "invoice.sent")


def pay(call: Call) -> dict[str, Any]:
    invoice = call.require("invoice")
    expect_payable(invoice)
    if call.params.get("paid_out_of_band"):
        payments.cancel_intent(call, invoice, reason="abandoned")
        invoice["amount_paid_off_stripe"] += invoice["amount_remaining"]
        return settle(call, invoice)
    method = call.params.get("payment_method")
    if not method:
        raise wrong_state(
            "There is no `default_payment_method` set on this Customer or Invoice. "
            "Please set a `default_payment_method`."
        )
    if method == payments.CONFIRM:
        raise _to_be_confirmed(call, invoice)
    payments.charge(call, invoice, method)
    return settle(call, invoice)


def _to_be_confirmed(call: Call, invoice: dict[str, Any]) -> Refusal:
    intent = payments.ask_to_confirm(call, invoice)
    invoice.update(attempt_count=invoice["attempt_count"] + 1, attempted=True)
    saved(call, invoice, "invoice.payment_action_required")
    return Refusal(
        "This payment requires additional user action before it can be completed successfully.",
        status=402,
        type="card_error",
        code="invoice_payment_intent_requires_action",
        kept=True,
        payment_intent=intent,
    )


def expect_payable(invoice: dict[str, Any]) -> None:
    if invoice["status"] == "paid":
        raise wrong_state("Invoice is already paid")
    if invoice["status"] not in {"open", "uncollectible"}:
        raise wrong_state(f"You cannot pay an invoice that is {invoice['status']}.")


def settle(call: Call, invoice: dict[str, Any]) -> dict[str, Any]:
    """Mark as paid in full, by whatever means the caller has recorded."""
    invoice.update(
        amount_paid=invoice["amount_due"],
        amount_remaining=0,
        attempted=True,
        auto_advance=False,
        status="paid",
    )
    invoice["status_transitions"]["paid_at"] = call.now
    shown = saved(call, invoice, "invoice.updated")
    call.emit("invoice.paid", shown)
    call.emit("invoice.payment_succeeded", shown)
    return shown


def fail_payment(call: Call, invoice: dict[str, Any]) -> dict[str, Any]:
    """A declined attempt: the invoice stays open and says how often it was tried."""
    payments.decline(call, invoice)
    invoice.update(attempt_count=invoice["attempt_count"] + 1, attempted=True)
    shown = saved(call, invoice, "invoice.updated")
    call.emit("invoice.payment_failed", shown)
    return shown


def void(call: Call) -> dict[str, Any]:
    invoice = call.require("invoice")
    if invoice["status"] not in {"open", "uncollectible"}:
        raise wrong_state("You can only pass in open or uncollectible invoices.")
    if invoice["amount_paid"]:
        raise wrong_state("You cannot void an invoice that has been partially paid.")
    invoice.update(status="void", auto_advance=False, next_payment_attempt=None)
    invoice["status_transitions"]["voided_at"] = call.now
    payments.cancel_intent(call, invoice, reason="void_invoice")
    return saved(call, invoice, "invoice.voided")


def mark_uncollectible(call: Call) -> dict[str, Any]:
    invoice = call.require("invoice")
    if invoice["status"] != "open":
        raise wrong_state("You can only mark open invoices as uncollectible.")
    invoice.update(status="uncollectible", auto_advance=False)
    invoice["status_transitions"]["marked_uncollectible_at"] = call.now
    return saved(call, invoice, "invoice.marked_uncollectible")


def tell_overdue(call: Call) -> None:
    """Each open invoice past its due date is told of once."""
    for invoice in call.store.having("invoice", "status", "open"):
        if invoice["due_date"] and invoice["due_date"] < call.now and not invoice.get("sandbox_overdue"):
            saved(call, invoice | {"sandbox_overdue": True}, "invoice.overdue")


def saved(call: Call, invoice: dict[str, Any], event: str) -> dict[str, Any]:
    call.store.save(invoice)
    shown = rendered(call, invoice)
    call.emit(event, shown)
    return shown


def expect_draft(invoice: dict[str, Any]) -> None:
    if invoice["status"] != "draft":
        raise wrong_state(
            f"This invoice is no longer editable: it is {invoice['status']}.",
            code="invoice_not_editable",
        )
