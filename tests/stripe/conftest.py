"""A sandbox per test, held to Stripe's OpenAPI document; any breach that a test does not claim fails it."""

import json
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import stripe

KEY, SECRET = "sk_test_tests", "whsec_tests"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """The SDK waits half a second before each retry; here nothing recovers by waiting."""
    monkeypatch.setattr(stripe.HTTPClient, "INITIAL_DELAY", 0.005)
    monkeypatch.setattr(stripe.HTTPClient, "MAX_DELAY", 0.01)


class Receiver(ThreadingHTTPServer):
    """Our side of a webhook: keeps what came, answers 200 unless told otherwise."""

    daemon_threads = True

    def __init__(self):
        self.bodies, self.signatures, self.answers = [], [], []
        super().__init__(("127.0.0.1", 0), _ReceiverHandler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/webhooks/stripe"

    @property
    def types(self):
        return [json.loads(body)["type"] for body in self.bodies]


class _ReceiverHandler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        self.server.bodies.append(body)
        self.server.signatures.append(self.headers["Stripe-Signature"])
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        return


@pytest.fixture
def receiver():
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def sandbox_server(**options):
    from marketplace.local.stripe_sandbox import SandboxServer  # noqa: PLC0415 - refuses to load before DEBUG is set

    return SandboxServer(api_key=KEY, webhook_secret=SECRET, validate=True, **options)


@pytest.fixture
def sandbox():
    with sandbox_server() as server:
        yield server
        assert server.take_violations() == []


@pytest.fixture
def notifying(receiver):
    """A sandbox that holds its webhooks until the test flushes them."""
    with sandbox_server(webhook_url=receiver.url, first_pause=0.01) as server:
        server.faults.configure({"hold": True})
        yield server
        assert server.take_violations() == []


def sdk(server, *, key=KEY, retries=2):
    return stripe.StripeClient(key, base_addresses={"api": server.url}, max_network_retries=retries).v1


@pytest.fixture
def api(sandbox):
    """The real SDK's services."""
    return sdk(sandbox)


@pytest.fixture
def gateway(sandbox, settings):
    """Our gateway, pointed at the sandbox."""
    from billing import stripe_gateway  # noqa: PLC0415 - after Django is configured

    point_at(settings, sandbox)
    return stripe_gateway


def point_at(settings, server):
    settings.STRIPE_API_KEY, settings.STRIPE_API_BASE = KEY, server.url
    settings.STRIPE_WEBHOOK_SECRET, settings.STRIPE_TIMEOUT = SECRET, 5


def open_invoice(api, *, amount=10_600, **extra):
    """A finalized invoice of one line, 6 % tax inside."""
    customer = api.customers.create({"name": "福州算力有限公司", "email": "finance@example.cn"})
    rate = api.tax_rates.create({"display_name": "增值税", "inclusive": True, "percentage": 6, "country": "CN"})
    invoice = api.invoices.create(
        {"customer": customer.id, "currency": "cny", "collection_method": "send_invoice", "days_until_due": 15, **extra}
    )
    api.invoice_items.create(
        {"customer": customer.id, "invoice": invoice.id, "amount": amount, "currency": "cny", "tax_rates": [rate.id],
         "description": "RTX 4090 × 2"}
    )  # fmt: skip
    return api.invoices.finalize_invoice(invoice.id)


def post(url, data=b"", headers=None):
    """The answer of a plain HTTP request, redirects followed."""
    return urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers or {}), timeout=5)
