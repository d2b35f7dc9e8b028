"""Webhooks: nothing is believed before its signature is verified."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import stripe
from django.conf import settings

from .errors import BadSignature
from .facts import StripeEventFact, instant

TOLERANCE = 300
# What an event's row has room for; Stripe's own are shorter by half, but a Checkout Session's id has 66 characters.
LONGEST_NAME = 64
LONGEST_OBJECT_ID = 100


def construct_event(*, payload: bytes, signature: str) -> StripeEventFact:
    """The event in a webhook's raw body. Raises BadSignature unless Stripe signed it within the last five minutes."""
    try:
        stripe.WebhookSignature.verify_header(payload, signature, settings.STRIPE_WEBHOOK_SECRET, tolerance=TOLERANCE)
        event = json.loads(payload, parse_constant=_refuse)
        _check_text(event)
        body = event["data"]["object"]
        return StripeEventFact(
            id=_name(event["id"]),
            type=_name(event["type"]),
            created=instant(event["created"]),
            object_id=_name(body.get("id") or "", longest=LONGEST_OBJECT_ID),
            object_type=str(body.get("object") or ""),
            livemode=bool(event.get("livemode")),
            payload=event,
        )
    except stripe.SignatureVerificationError:
        raise BadSignature("the signature does not verify") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise BadSignature("the body is no event") from None


def _name(value: Any, *, longest: int = LONGEST_NAME) -> str:
    """An id or a type as Stripe writes them. Raises ValueError for anything else."""
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError("no id")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _check_text(value: Any) -> None:
    """Raises ValueError for text that PostgreSQL's jsonb cannot hold: NUL, halves of a surrogate pair."""
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_text(name)
            _check_text(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_text(inner)
    elif isinstance(value, str) and b"\0" in value.encode():
        raise ValueError("NUL in a text")
