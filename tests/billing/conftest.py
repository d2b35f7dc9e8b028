"""A Stripe sandbox for the test, and Stripe's webhooks delivered straight into our view."""

import pytest
import stripe

KEY, SECRET = "sk_test_billing", "whsec_billing"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """The SDK waits half a second before each retry; here nothing recovers by waiting."""
    monkeypatch.setattr(stripe.HTTPClient, "INITIAL_DELAY", 0.005)
    monkeypatch.setattr(stripe.HTTPClient, "MAX_DELAY", 0.01)


@pytest.fixture
def sandbox(settings):
    """The real gateway speaks to this one, held to Stripe's OpenAPI document."""
    from marketplace.local.stripe_sandbox import SandboxServer  # noqa: PLC0415 - refuses to load before DEBUG is set

    with SandboxServer(api_key=KEY, webhook_secret=SECRET, validate=True) as server:
        settings.STRIPE_API_KEY, settings.STRIPE_API_BASE = KEY, server.url
        settings.STRIPE_WEBHOOK_SECRET, settings.STRIPE_TIMEOUT = SECRET, 5
        yield server
        assert server.take_violations() == []
