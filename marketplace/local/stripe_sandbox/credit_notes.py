"""Credit notes (https://docs.stripe.com/invoicing/integration/programmatic-credit-notes)."""

from typing import Any

from . import amounts, intents, invoices, payments, refunds
from .calls import Call, in_range, merged_metadata
from .errors import invalid, wrong_state

EMBEDDED_LINES = 10


def create(call: Call) -> dict[str, Any]:
    """Lower what is still due first; the rest must be accounted for to the cent."""
    params = call.params
    invoice = call.require("invoice", params["invoice"], param="invoice")
    if invoice["status"] not in {"open", "paid", "uncollectible"}:
        raise wrong_state(f"You can only create credit notes on finalized invoices; this one is {invoice['status']}.")
    lines = [_line(call, invoice, wanted) for wanted in params.get("lines") or []]
    if not lines:
        raise invalid("The sandbox credits by lines only.", param="lines", code="parameter_missing")
    summed = amounts.totals(lines)
    _expect_room(call, invoice, lines, summed["total"])
    before = min(summed["total"], invoice["amount_remaining"]) if invoice["status"] != "paid" else 0
    after = summed["total"] - before
    named = [_named(call, each) for each in params.get("refunds") or []]
    _expect_accounted(params, named, after)
    note = _blank(call, invoice, summed) | {
        "memo": params.get("memo"),
        "metadata": merged_metadata({}, params.get("metadata")),
        "out_of_band_amount": params.get("out_of_band_amount") or None,
        "post_payment_amount": after,
        "pre_payment_amount": before,
        "reason": params.get("reason"),
        "refunds": named,
        "type": "mixed" if before and after else "post_payment" if after else "pre_payment",
        "sandbox_lines": lines,
    }
    if params.get("refund_amount"):
        note["refunds"].append(_refunded(call, invoice, params["refund_amount"]))
    call.store.add(note, parent=invoice["id"])
    _lower(call, invoice, before, after)
    shown = rendered(note)
    call.emit("credit_note.created", shown)
    return shown


def _line(call: Call, invoice: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    if wanted.get("type") != "invoice_line_item" or "invoice_line_item" not in wanted:
        raise invalid("The sandbox credits invoice_line_item lines only.", param="lines")
    item = call.require("invoiceitem", f"ii_{wanted['invoice_line_item'].removeprefix('il_')}", param="lines")
    if item["invoice"] != invoice["id"]:
        raise invalid("The line does not belong to the invoice.", param="lines")
    amount = wanted.get("amount", item["amount"])
    if amount <= 0:
        raise invalid("The amount of a credit note line must be positive.", param="lines")
    rates = item["tax_rates"] or []
    return {
        "id": call.store.new_id("cnli"),
        "object": "credit_note_line_item",
        "amount": amount,
        "description": item["description"],
        "discount_amount": 0,
        "discount_amounts": [],
        "invoice_line_item": wanted["invoice_line_item"],
        "livemode": False,
        "metadata": {},
        "pretax_credit_amounts": [],
        "quantity": None,
        "tax_rates": rates,
        "taxes": amounts.line_taxes(amount, rates),
        "type": "invoice_line_item",
        "unit_amount": None,
        "unit_amount_decimal": None,
    }


def _expect_room(call: Call, invoice: dict[str, Any], lines: list[dict[str, Any]], total: int) -> None:
    """Never above what was invoiced, by line and in all."""
    earlier = call.store.all("credit_note", parent=invoice["id"])
    credited: dict[str, int] = {}
    for line in [line for note in earlier for line in note["sandbox_lines"]] + lines:
        credited[line["invoice_line_item"]] = credited.get(line["invoice_line_item"], 0) + line["amount"]
    for line in invoices.lines_of(call, invoice):
        if credited.get(line["id"], 0) > max(line["amount"], 0):
            raise wrong_state(f"The credit note line amount exceeds the remaining amount of line {line['id']}.")
    invoiced = amounts.totals(invoices.lines_of(call, invoice))["total"]
    if sum(note["total"] for note in earlier) + total > invoiced:
        raise wrong_state("The total of all credit notes would exceed the invoice's total.")


def _named(call: Call, wanted: dict[str, Any]) -> dict[str, Any]:
    refund = call.require("refund", wanted.get("refund"), param="refunds")
    amount = wanted.get("amount_refunded", refund["amount"])
    if amount > refund["amount"]:
        raise wrong_state("The credit note takes more of the refund than it has.")
    return {"amount_refunded": amount, "payment_record_refund": None, "refund": refund["id"], "type": "refund"}


def _expect_accounted(params: dict[str, Any], named: list[dict[str, Any]], after: int) -> None:
    if params.get("credit_amount"):
        raise invalid("The sandbox keeps no customer balance from credit notes.", param="credit_amount")
    given = params.get("out_of_band_amount", 0) + params.get("refund_amount", 0)
    given += sum(each["amount_refunded"] for each in named)
    if given != after:
        raise wrong_state(
            f"The sum of credit amount, refund amount and out of band amount ({given}) must equal the post payment "
            f"amount ({after})."
        )


def _refunded(call: Call, invoice: dict[str, Any], amount: int) -> dict[str, Any]:
    paid = [p for p in call.store.all("invoice_payment", parent=invoice["id"]) if p["status"] == "paid"]
    intent = next((p["payment"]["payment_intent"] for p in paid if "payment_intent" in p["payment"]), None)
    if not intent:
        raise wrong_state("The invoice has no payment that could be refunded.")
    refund = refunds.make(call, intents.paid_charge(call, intent), amount, {})
    return {"amount_refunded": amount, "payment_record_refund": None, "refund": refund["id"], "type": "refund"}


def _blank(call: Call, invoice: dict[str, Any], summed: dict[str, Any]) -> dict[str, Any]:
    number = f"{invoice['number']}-CN-{len(call.store.all('credit_note', parent=invoice['id'])) + 1:02d}"
    return {
        "id": call.store.new_id("cn"),
        "object": "credit_note",
        "amount": summed["total"],
        "amount_shipping": 0,
        "created": call.now,
        "currency": invoice["currency"],
        "customer": invoice["customer"],
        "customer_balance_transaction": None,
        "discount_amount": 0,
        "discount_amounts": [],
        "effective_at": call.now,
        "invoice": invoice["id"],
        "livemode": False,
        "number": number,
        "pdf": f"{call.base_url}/credit_notes/pdf",
        "pretax_credit_amounts": [],
        "shipping_cost": None,
        "status": "issued",
        "voided_at": None,
        **summed,
    }


def _lower(call: Call, invoice: dict[str, Any], before: int, after: int) -> None:
    invoice["amount_due"] -= before
    invoice["amount_remaining"] -= before
    invoice["pre_payment_credit_notes_amount"] += before
    invoice["post_payment_credit_notes_amount"] += after
    call.store.save(invoice)
    if not before:
        return
    if invoice["amount_remaining"]:
        payments.adjust_intent(call, invoice)
        invoices.saved(call, invoice, "invoice.updated")
    else:
        payments.cancel_intent(call, invoice, reason="abandoned")
        invoices.settle(call, invoice)


def rendered(note: dict[str, Any]) -> dict[str, Any]:
    lines = note["sandbox_lines"]
    return {key: value for key, value in note.items() if not key.startswith("sandbox_")} | {
        "lines": {
            "object": "list",
            "data": lines[:EMBEDDED_LINES],
            "has_more": len(lines) > EMBEDDED_LINES,
            "url": f"/v1/credit_notes/{note['id']}/lines",
        }
    }


def retrieve(call: Call) -> dict[str, Any]:
    return rendered(call.require("credit_note"))


def list_notes(call: Call) -> dict[str, Any]:
    params = call.params
    found = [
        note
        for note in call.store.all("credit_note", parent=params.get("invoice"))
        if params.get("customer") in {None, note["customer"]} and in_range(params.get("created"), note["created"])
    ]
    page = call.page(found, "/v1/credit_notes")
    return page | {"data": [rendered(note) for note in page["data"]]}


def list_lines(call: Call) -> dict[str, Any]:
    note = call.require("credit_note")
    return call.page(note["sandbox_lines"], f"/v1/credit_notes/{note['id']}/lines", newest_first=False)
