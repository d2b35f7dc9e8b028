"""Checkout Sessions of mode payment and setup (https://docs.stripe.com/payments/checkout/how-checkout-works)."""

from typing import Any

from . import amounts, intents, methods
from .calls import Call, in_range, merged_metadata
from .errors import invalid, wrong_state

SHORTEST, LONGEST = 30 * 60, 24 * 3600
KINDS = ("card", "alipay", "wechat_pay")


def create(call: Call) -> dict[str, Any]:
    params = call.params
    mode = params.get("mode")
    if mode not in {"payment", "setup"}:
        raise invalid("The sandbox knows the modes payment and setup.", param="mode")
    customer = call.require("customer", params["customer"], param="customer") if params.get("customer") else None
    if mode == "payment":
        currency, total = _priced(params)
    else:
        currency, total = str(params.get("currency") or "").lower() or None, None
    kinds = _kinds(params, mode)
    metadata = merged_metadata({}, params.get("metadata"))
    session = _blank(call, mode, customer, kinds) | {
        "amount_subtotal": total,
        "amount_total": total,
        "cancel_url": params.get("cancel_url"),
        "client_reference_id": params.get("client_reference_id"),
        "currency": currency,
        "expires_at": _expiry(call),
        "locale": params.get("locale"),
        "metadata": metadata,
        "payment_status": "unpaid" if mode == "payment" else "no_payment_required",
        "success_url": params.get("success_url"),
        "sandbox_description": _description(params),
        "sandbox_intent": params.get("payment_intent_data", {}),
    }
    if mode == "setup":
        facts = merged_metadata({}, params.get("setup_intent_data", {}).get("metadata"))
        session["setup_intent"] = methods.open_setup(call, session["customer"], facts, kinds)["id"]
    call.store.add(session, parent=session["customer"])
    return rendered(call, session)


def _priced(params: dict[str, Any]) -> tuple[str | None, int | None]:
    items = params.get("line_items") or []
    if not items:
        raise invalid("Missing required param: line_items.", param="line_items", code="parameter_missing")
    currencies = {item["price_data"]["currency"].lower() for item in items}
    if len(currencies) > 1 or not currencies <= set(amounts.MINIMUM):
        raise invalid(f"Invalid currency: {', '.join(sorted(currencies))}.", param="line_items")
    currency = currencies.pop()
    total = sum(item["price_data"]["unit_amount"] * item.get("quantity", 1) for item in items)
    if not amounts.MINIMUM[currency] <= total <= amounts.MAXIMUM:
        code = "amount_too_small" if total < amounts.MINIMUM[currency] else "amount_too_large"
        raise invalid("The Checkout Session's total amount is outside of what can be charged.", code=code)
    return currency, total


def _description(params: dict[str, Any]) -> str:
    items = params.get("line_items") or []
    return ", ".join(item["price_data"].get("product_data", {}).get("name", "") for item in items)


def _kinds(params: dict[str, Any], mode: str) -> list[str]:
    kinds = list(params.get("payment_method_types") or ["card"])
    for kind in kinds:
        if kind not in KINDS or (mode == "setup" and kind != "card"):
            raise invalid(f"The payment method type {kind} is invalid here.", param="payment_method_types")
    options = params.get("payment_method_options", {})
    if "wechat_pay" in kinds and options.get("wechat_pay", {}).get("client") != "web":
        raise invalid(
            "You must provide `payment_method_options[wechat_pay][client]`.",
            param="payment_method_options[wechat_pay][client]",
            code="parameter_missing",
        )
    return kinds


def _expiry(call: Call) -> int:
    expires_at = int(call.params.get("expires_at", call.now + LONGEST))
    if not call.now + SHORTEST <= expires_at <= call.now + LONGEST:
        raise invalid(
            "The `expires_at` timestamp must be 30 minutes to 24 hours from Checkout Session creation.",
            param="expires_at",
        )
    return expires_at


def _blank(call: Call, mode: str, customer: dict[str, Any] | None, kinds: list[str]) -> dict[str, Any]:
    return {
        "id": call.store.new_id("cs_test", 58),
        "object": "checkout.session",
        "after_expiration": None,
        "allow_promotion_codes": None,
        "automatic_tax": {"enabled": False, "liability": None, "provider": None, "status": None},
        "billing_address_collection": None,
        "client_secret": None,
        "consent": None,
        "consent_collection": None,
        "created": call.now,
        "currency_conversion": None,
        "custom_fields": [],
        "custom_text": {
            "after_submit": None, "shipping_address": None, "submit": None, "terms_of_service_acceptance": None,
        },
        "customer": customer["id"] if customer else None,
        "customer_creation": None,
        "customer_details": None,
        "customer_email": None,
        "invoice": None,
        "invoice_creation": None,
        "livemode": False,
        "mode": mode,
        "payment_intent": None,
        "payment_link": None,
        "payment_method_collection": "if_required",
        "payment_method_options": {},
        "payment_method_types": kinds,
        "recovered_from": None,
        "setup_intent": None,
        "shipping_address_collection": None,
        "shipping_cost": None,
        "shipping_options": [],
        "status": "open",
        "submit_type": None,
        "subscription": None,
        "total_details": (
            {"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0} if mode == "payment" else None
        ),
        "ui_mode": "hosted_page",
        "sandbox_token": call.store.new_id("test", 40),
        "sandbox_outcome": "",
        "sandbox_since": 0,
    }  # fmt: skip


def rendered(call: Call, session: dict[str, Any]) -> dict[str, Any]:
    """The session as Stripe answers it: its page only while it is open."""
    url = f"{call.base_url}/c/{session['sandbox_token']}" if session["status"] == "open" else None
    return {key: value for key, value in session.items() if not key.startswith("sandbox_")} | {"url": url}


def retrieve(call: Call) -> dict[str, Any]:
    expire_due(call)
    return rendered(call, call.require("checkout.session"))


def list_sessions(call: Call) -> dict[str, Any]:
    expire_due(call)
    params = call.params
    found = [
        session
        for session in call.store.all("checkout.session", parent=params.get("customer"))
        if all(params.get(name) in {None, session[name]} for name in ("payment_intent", "status"))
        and in_range(params.get("created"), session["created"])
    ]
    page = call.page(found, "/v1/checkout/sessions")
    return page | {"data": [rendered(call, session) for session in page["data"]]}


def expire(call: Call) -> dict[str, Any]:
    expire_due(call)
    session = call.require("checkout.session")
    if session["status"] != "open":
        raise wrong_state(
            f'Only Checkout Sessions with a status in ["open"] can be expired. This Checkout Session has a status of '
            f"{session['status']}."
        )
    return _expired(call, session)


def expire_due(call: Call) -> None:
    """Pages whose time ran out are over, whoever looks."""
    for session in call.store.having("checkout.session", "status", "open"):
        if session["expires_at"] <= call.now:
            _expired(call, session)


def _expired(call: Call, session: dict[str, Any]) -> dict[str, Any]:
    session["status"] = "expired"
    return _saved(call, session, "checkout.session.expired")


def complete(call: Call, session: dict[str, Any], outcome: str, kind: str) -> None:
    """What pressing a button of the page does: paid, declined, or (`later`, `later_failed`) promised for later."""
    if session["status"] != "open":
        return
    if session["mode"] == "setup":
        _finish_setup(call, session, "pm_card_visa" if outcome == "paid" else "pm_card_chargeCustomerFail")
        return
    intent = _intent(call, session, kind)
    if outcome == "declined":
        intents.fail(call, intent)
        return
    session["payment_intent"] = intent["id"]
    if outcome == "paid":
        _receive(call, session, intent, kind)
    else:
        session.update(sandbox_outcome=outcome, sandbox_since=call.now)
        intent["status"] = "processing"
        call.store.save(intent)
        call.emit("payment_intent.processing", intent)
    session.update(status="complete", customer_details=_details(call, session))
    _saved(call, session, "checkout.session.completed")


def _intent(call: Call, session: dict[str, Any], kind: str) -> dict[str, Any]:
    """The session's one intent: a declined attempt is followed by another of the same."""
    known = session.get("sandbox_intent_id")
    if known and (intent := call.store.get("payment_intent", known)):
        return intent
    wanted = session["sandbox_intent"]
    intent = intents.blank(
        call, amount=session["amount_total"], currency=session["currency"], customer=session["customer"],
        description=wanted.get("description"), metadata=merged_metadata({}, wanted.get("metadata")), kinds=[kind],
    )  # fmt: skip
    session["sandbox_intent_id"] = intent["id"]
    call.store.save(session)
    return intent


def _receive(call: Call, session: dict[str, Any], intent: dict[str, Any], kind: str) -> None:
    method = None
    if session["sandbox_intent"].get("setup_future_usage") and kind == "card" and session["customer"]:
        method = methods.save(call, call.require("customer", session["customer"], param="customer"))["id"]
        intent["setup_future_usage"] = session["sandbox_intent"]["setup_future_usage"]
    intents.succeed(call, intent, method=method)
    session["payment_status"] = "paid"


def _finish_setup(call: Call, session: dict[str, Any], token: str) -> None:
    customer = call.require("customer", session["customer"], param="customer")
    setup = call.require("setup_intent", session["setup_intent"])
    methods.finish_setup(call, setup, methods.save(call, customer, token=token))
    session.update(status="complete", customer_details=_details(call, session))
    _saved(call, session, "checkout.session.completed")


def _details(call: Call, session: dict[str, Any]) -> dict[str, Any]:
    customer = call.store.get("customer", session["customer"]) or {}
    return {
        "address": None, "business_name": None, "email": customer.get("email"), "individual_name": None,
        "name": customer.get("name"), "phone": None, "tax_exempt": "none", "tax_ids": [],
    }  # fmt: skip


def settle(call: Call, session: dict[str, Any], *, succeeded: bool) -> None:
    """The promised money arrived, or never will."""
    if session["status"] != "complete" or session["payment_status"] != "unpaid" or not session["sandbox_outcome"]:
        return
    intent = call.require("payment_intent", session["payment_intent"])
    session["sandbox_outcome"] = ""
    if succeeded:
        _receive(call, session, intent, "")
        _saved(call, session, "checkout.session.async_payment_succeeded")
    else:
        intents.fail(call, intent)
        _saved(call, session, "checkout.session.async_payment_failed")


def settle_due(call: Call, *, after: float) -> None:
    """Promises that are old enough come true as their page said."""
    for session in call.store.having("checkout.session", "status", "complete"):
        if session["sandbox_outcome"] and session["sandbox_since"] + after <= call.now:
            settle(call, session, succeeded=session["sandbox_outcome"] == "later")


def _saved(call: Call, session: dict[str, Any], event: str) -> dict[str, Any]:
    call.store.save(session)
    shown = rendered(call, session)
    call.emit(event, shown)
    return shown
