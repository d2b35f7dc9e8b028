"""What an invoice is paid with: its intent, its invoice payments, and events as objects."""

from typing import Any

from . import intents
from .calls import Call, in_range
from .errors import Refusal, wrong_state

DECLINED = "pm_card_chargeDeclined"
ACCEPTED = "pm_card_visa"
CONFIRM = "pm_card_authenticationRequired"
_DECLINE = "Your card was declined."


def open_intent(call: Call, invoice: dict[str, Any]) -> None:
    """What a finalized invoice with something due carries: one intent and one open invoice payment."""
    intent = intents.blank(
        call, amount=invoice["amount_due"], currency=invoice["currency"], customer=invoice["customer"],
        description=f"Payment for Invoice {invoice['number']}", parent=invoice["id"],
    )  # fmt: skip
    part = {"payment_intent": intent["id"], "type": "payment_intent"}
    _invoice_payment(call, invoice, part, amount=invoice["amount_due"], default=True)


def _invoice_payment(
    call: Call, invoice: dict[str, Any], payment: dict[str, Any], *, amount: int, default: bool
) -> dict[str, Any]:
    made = {
        "id": call.store.new_id("inpay"),
        "object": "invoice_payment",
        "amount_paid": None,
        "amount_requested": amount,
        "created": call.now,
        "currency": invoice["currency"],
        "invoice": invoice["id"],
        "is_default": default,
        "livemode": False,
        "payment": payment,
        "status": "open",
        "status_transitions": {"canceled_at": None, "paid_at": None},
    }
    return call.store.add(made, parent=invoice["id"])


def outside(call: Call, invoice: dict[str, Any], record: str, amount: int) -> dict[str, Any]:
    """An invoice payment that a payment record stands behind; paid at once."""
    part = {"payment_record": record, "type": "payment_record"}
    made = _invoice_payment(call, invoice, part, amount=amount, default=False)
    return _paid(call, made, amount)


def _paid(call: Call, payment: dict[str, Any], amount: int) -> dict[str, Any]:
    payment.update(status="paid", amount_paid=amount)
    payment["status_transitions"]["paid_at"] = call.now
    call.store.save(payment)
    return payment


def _default(call: Call, invoice: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The invoice's own intent and invoice payment."""
    found = call.store.all("payment_intent", parent=invoice["id"])
    payments = [each for each in call.store.all("invoice_payment", parent=invoice["id"]) if each["is_default"]]
    return (found[-1], payments[-1]) if found and payments else None


def adjust_intent(call: Call, invoice: dict[str, Any]) -> None:
    """The intent asks for what remains."""
    if pair := _default(call, invoice):
        intent, payment = pair
        call.store.save(intent | {"amount": invoice["amount_remaining"]})
        call.store.save(payment | {"amount_requested": invoice["amount_remaining"]})


def cancel_intent(call: Call, invoice: dict[str, Any], *, reason: str) -> None:
    """The invoice will not be paid through Stripe: its intent and open payment end."""
    pair = _default(call, invoice)
    if not pair or pair[0]["status"] in {"succeeded", "canceled"}:
        return
    intent, payment = pair
    intents.cancel(call, intent, reason=reason)
    payment["status"] = "canceled"
    payment["status_transitions"]["canceled_at"] = call.now
    call.store.save(payment)


def charge(call: Call, invoice: dict[str, Any], method: str) -> None:
    """Take the whole amount with a test method of Stripe's or one that the customer left; a declining one is a card
    error and changes nothing."""
    saved = call.store.get("payment_method", method)
    belongs = saved is not None and saved["customer"] == invoice["customer"]
    if method == DECLINED or (saved is not None and belongs and saved["sandbox_refuses"]):
        raise Refusal(_DECLINE, status=402, type="card_error", code="card_declined", decline_code="generic_decline")
    if method != ACCEPTED and not belongs:
        raise wrong_state(f"No such PaymentMethod: '{method}'", code="resource_missing")
    pair = _default(call, invoice)
    if not pair:
        raise wrong_state("This invoice has no payment intent.")
    intent, payment = pair
    intents.succeed(call, intent)
    call.emit("invoice_payment.paid", _paid(call, payment, intent["amount"]))
    invoice.update(attempt_count=invoice["attempt_count"] + 1)


def decline(call: Call, invoice: dict[str, Any]) -> None:
    """A failed attempt, recorded on the intent."""
    pair = _default(call, invoice)
    if not pair:
        raise wrong_state("This invoice has no payment intent.")
    intents.fail(call, pair[0])


def ask_to_confirm(call: Call, invoice: dict[str, Any]) -> dict[str, Any]:
    """The payer's bank wants its customer to confirm. Returns the intent that waits for it."""
    pair = _default(call, invoice)
    if not pair:
        raise wrong_state("This invoice has no payment intent.")
    intent = pair[0]
    intent["status"] = "requires_action"
    call.store.save(intent)
    call.emit("payment_intent.requires_action", intent)
    return intent


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
