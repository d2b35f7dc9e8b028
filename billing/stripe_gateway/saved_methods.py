"""Means of payment that customers left with Stripe, and charging them while nobody is present."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from .client import PAGE, idempotent, services, since_filter, translated_errors
from .errors import Refused
from .money_facts import PaymentIntent, SavedMethod, intent_of, method_of


def charge_saved(
    *,
    topup_key: UUID | str,
    version: int,
    amount: int,
    currency: str,
    customer: str,
    payment_method: str,
    description: str,
) -> PaymentIntent:
    """Take this amount from a saved means of payment, once a version.

    Raises CardDeclined when the bank refuses or wants its holder to confirm; the key remembers that, so another try is
    the next version. After UnknownOutcome look at `find_charges` first: the money may have moved.
    """
    params: Any = {
        "amount": amount,
        "currency": currency.lower(),
        "customer": customer,
        "payment_method": payment_method,
        "confirm": True,
        "off_session": True,
        "description": description,
        "metadata": {"topup_key": str(topup_key), "topup_version": str(version)},
    }
    with translated_errors(write=True):
        options = idempotent(f"topup:{topup_key}:v{version}:charge")
        return intent_of(services().payment_intents.create(params, options))


def find_charges(*, customer: str, topup_key: UUID | str, since: datetime | None = None) -> tuple[PaymentIntent, ...]:
    """Every payment made or tried for this top-up, newest first."""
    params: Any = {"customer": customer, "limit": PAGE, **since_filter(since)}
    with translated_errors(write=False):
        found = (intent_of(each) for each in services().payment_intents.list(params).auto_paging_iter())
        return tuple(intent for intent in found if intent.topup_key == str(topup_key))


def retrieve_payment_intent(*, payment_intent_id: str) -> PaymentIntent:
    """As it is now. Raises Refused with reason `resource_missing` when Stripe has none."""
    with translated_errors(write=False):
        return intent_of(services().payment_intents.retrieve(payment_intent_id))


def retrieve_setup_method(*, setup_intent: str) -> SavedMethod | None:
    """The means of payment that a setup page collected; None until its customer finished."""
    with translated_errors(write=False):
        intent = services().setup_intents.retrieve(setup_intent)
        if intent.status != "succeeded" or not intent.payment_method:
            return None
        return method_of(services().payment_methods.retrieve(intent.payment_method))


def list_saved_methods(*, customer: str) -> tuple[SavedMethod, ...]:
    """Everything the customer left, newest first."""
    params: Any = {"customer": customer, "limit": PAGE}
    with translated_errors(write=False):
        found = services().payment_methods.list(params).auto_paging_iter()
        return tuple(method_of(method) for method in found)


def detach_method(*, payment_method: str) -> None:
    """Make sure that nobody can charge it any more."""
    try:
        with translated_errors(write=True):
            services().payment_methods.detach(payment_method)
    except Refused as refusal:
        if refusal.reason != "resource_missing" and _customer_of(payment_method):
            raise


def _customer_of(payment_method: str) -> str:
    with translated_errors(write=False):
        return method_of(services().payment_methods.retrieve(payment_method)).customer
