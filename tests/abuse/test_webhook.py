"""Bodies no Stripe would send, though signed: refused, not stored, and no failure of ours."""

import json
import time

import pytest
import stripe
from django.conf import settings
from django.urls import reverse

from billing.models import StripeEvent

pytestmark = pytest.mark.django_db


def event(**changes) -> dict:
    return {"id": "evt_1", "type": "invoice.paid", "created": 1, "data": {"object": {"id": "in_1"}}} | changes


BODIES = {
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "no object": json.dumps(event(data={"object": None})).encode(),
    "text object": json.dumps(event(data={"object": "in_1"})).encode(),
    "not utf-8": b'{"id":"\xff"}',
    "id of another kind": json.dumps(event(id={"a": 1})).encode(),
    "id too long": json.dumps(event(id="e" * 65)).encode(),
    "nul in the id": json.dumps(event(id="evt\0")).encode(),
    "nul in a name": json.dumps(event(name=["a", {"b": "\0"}])).encode(),
    "nul in a key": json.dumps(event(**{"a\0": 1})).encode(),
    "half a surrogate pair": json.dumps(event(name="\ud800")).encode(),
    "nan": json.dumps(event(amount=float("nan"))).encode(),
    "infinite time": json.dumps(event(created=float("inf"))).encode(),
    "time beyond the calendar": json.dumps(event(created=10**20)).encode(),
    "number of 5000 digits": json.dumps(event()).replace('"in_1"', "9" * 5000).encode(),
    "nested too deep": json.dumps(event()).replace('"in_1"', "[" * 100_000 + "]" * 100_000).encode(),
    "larger than a request may be": json.dumps(event(name="x" * 3_000_000)).encode(),
}


def signed(body: bytes) -> str:
    now = int(time.time())
    text = body.decode("utf-8", "replace")
    return f"t={now},v1={stripe.WebhookSignature._compute_signature(f'{now}.{text}', settings.STRIPE_WEBHOOK_SECRET)}"


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_no_event_is_refused(client, name):
    body = BODIES[name]
    for signature in (signed(body), "", "t=,v1=", "t=abc,v1=zz", "t=1,v1=é"):
        answer = client.generic(
            "POST", reverse("billing:stripe_webhook"), body, content_type="application/json",
            headers={"Stripe-Signature": signature},
        )  # fmt: skip
        assert answer.status_code == 400, signature
    assert not StripeEvent.objects.exists()
