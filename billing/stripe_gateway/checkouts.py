"""Pages on which customers top up or leave a card, one call to Stripe each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from .client import PAGE, idempotent, services, since_filter, translated_errors
from .errors import KeyReused, Refused, UnknownOutcome
from .money_facts import CheckoutSession, checkout_of, window

# What the hosted page needs to be told about a method before it offers it.
_OPTIONS: Mapping[str, Mapping[str, str]] = {"wechat_pay": {"client": "web"}}


def create_checkout(
    *,
    topup_key: UUID | str,
    version: int,
    amount: int,
    currency: str,
    customer: str,
    methods: Sequence[str],
    success_url: str,
    cancel_url: str,
    expires_at: datetime,
    description: str,
    save_method: bool = False,
    metadata: Mapping[str, str] | None = None,
) -> CheckoutSession:
    """A page that takes exactly this amount once; the same page however often it is asked for within a day.

    `expires_at` lies 30 minutes to 24 hours ahead and is a fact of the top-up: another value under the same version is
    KeyReused. `{CHECKOUT_SESSION_ID}` in `success_url` is filled in by Stripe. `save_method` keeps the means of payment
    for later charges. After an unclear answer look at `find_checkouts` before the next version.
    """
    facts = {**(metadata or {}), "topup_key": str(topup_key), "topup_version": str(version)}
    intent: dict[str, Any] = {"metadata": facts, "description": description}
    if save_method:
        intent["setup_future_usage"] = "off_session"
    price = {"currency": currency.lower(), "unit_amount": amount, "product_data": {"name": description}}
    params: Any = {
        "mode": "payment",
        "client_reference_id": str(topup_key),
        "customer": customer,
        "line_items": [{"price_data": price, "quantity": 1}],
        "metadata": facts,
        "payment_intent_data": intent,
        **_methods(methods),
        **_ways_back(success_url, cancel_url, expires_at),
    }
    with translated_errors(write=True):
        made = services().checkout.sessions.create(params, idempotent(f"topup:{topup_key}:v{version}:checkout"))
        return checkout_of(made)


def create_setup_checkout(
    *,
    setup_key: UUID | str,
    version: int,
    currency: str,
    customer: str,
    success_url: str,
    cancel_url: str,
    expires_at: datetime,
    methods: Sequence[str] = ("card",),
) -> CheckoutSession:
    """A page on which the customer leaves a means of payment for later charges; nothing is taken."""
    facts = {"setup_key": str(setup_key)}
    params: Any = {
        "mode": "setup",
        "client_reference_id": str(setup_key),
        "currency": currency.lower(),
        "customer": customer,
        "metadata": facts,
        "setup_intent_data": {"metadata": facts},
        **_methods(methods),
        **_ways_back(success_url, cancel_url, expires_at),
    }
    with translated_errors(write=True):
        made = services().checkout.sessions.create(params, idempotent(f"setup:{setup_key}:v{version}"))
        return checkout_of(made)


def _methods(methods: Sequence[str]) -> dict[str, Any]:
    options = {name: dict(_OPTIONS[name]) for name in methods if name in _OPTIONS}
    return {"payment_method_types": list(methods), **({"payment_method_options": options} if options else {})}


def _ways_back(success_url: str, cancel_url: str, expires_at: datetime) -> dict[str, Any]:
    return {"success_url": success_url, "cancel_url": cancel_url, "expires_at": int(expires_at.timestamp())}


def retrieve_checkout(*, session_id: str) -> CheckoutSession:
    """As it is now. Raises Refused with reason `resource_missing` when Stripe has none."""
    with translated_errors(write=False):
        return checkout_of(services().checkout.sessions.retrieve(session_id))


def expire_checkout(*, session_id: str) -> CheckoutSession:
    """Make sure that nobody can pay on the page any more. One that was completed is returned as it is: look at it."""
    try:
        with translated_errors(write=True):
            options = idempotent(f"checkout:{session_id}:expire")
            return checkout_of(services().checkout.sessions.expire(session_id, {}, options))
    except (UnknownOutcome, Refused, KeyReused):
        seen = retrieve_checkout(session_id=session_id)
        if seen.status == "open":
            raise
        return seen


def find_checkouts(
    *, customer: str, topup_key: UUID | str, since: datetime | None = None
) -> tuple[CheckoutSession, ...]:
    """Every page made for this top-up, newest first: what an attempt without a clear answer left behind."""
    params: Any = {"customer": customer, "limit": PAGE, **since_filter(since)}
    with translated_errors(write=False):
        found = (checkout_of(each) for each in services().checkout.sessions.list(params).auto_paging_iter())
        return tuple(session for session in found if session.topup_key == str(topup_key))


def list_checkouts(*, created_from: datetime, created_to: datetime) -> Iterator[CheckoutSession]:
    """Every page made in `[created_from, created_to)`, newest first, fetched page by page."""
    params: Any = {"created": window(created_from, created_to), "limit": PAGE}
    with translated_errors(write=False):
        for session in services().checkout.sessions.list(params).auto_paging_iter():
            yield checkout_of(session)
