"""Webhooks: nothing is believed before its signature is verified."""

from __future__ import annotations

import json

import stripe
from django.conf import settings

from .errors import BadSignature
from .facts import StripeEventFact, instant

TOLERANCE = 300


def construct_event(*, payload: bytes, signature: str) -> StripeEventFact:
    """The event in a webhook's raw body. Raises BadSignature unless Stripe signed it within the last five minutes."""
    try:
        stripe.WebhookSignature.verify_header(payload, signature, settings.STRIPE_WEBHOOK_SECRET, tolerance=TOLERANCE)
        event = json.loads(payload)
        body = event["data"]["object"]
        return StripeEventFact(
            id=str(event["id"]),
            type=str(event["type"]),
            created=instant(event["created"]),
            object_id=str(body.get("id") or ""),
            object_type=str(body.get("object") or ""),
            livemode=bool(event.get("livemode")),
            payload=event,
        )
    except stripe.SignatureVerificationError:
        raise BadSignature("the signature does not verify") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadSignature("the body is no event") from None
