"""What happens on Stripe's side of a test: a customer pays, events leave."""

import json
import time
import urllib.request

from marketplace.local.stripe_sandbox.webhooks import signature
from tests.billing.conftest import SECRET


def pay(invoice) -> None:
    """Press Pay on the hosted page."""
    urllib.request.urlopen(urllib.request.Request(f"{invoice.hosted_url}/pay", data=b""), timeout=5).read()


def only_invoice(sandbox) -> dict:
    """Stripe's one live invoice."""
    (found,) = [invoice for invoice in sandbox.objects("invoice") if invoice["status"] != "void"]
    return found


def items_of(sandbox, stripe_invoice) -> list[tuple[str, int]]:
    return sorted(
        (item["metadata"]["line_uuid"], item["amount"])
        for item in sandbox.objects("invoiceitem")
        if item["invoice"] == stripe_invoice["id"]
    )


def deliver(client, event: dict, *, secret: str = SECRET) -> int:
    """POST one event to our webhook as Stripe would; the answer's status."""
    body = json.dumps(event).encode()
    answer = client.post(
        "/stripe/webhook/",
        data=body,
        content_type="application/json",
        headers={"Stripe-Signature": signature(body, secret, int(time.time()))},
    )
    return answer.status_code


def invoice_events(sandbox) -> list[dict]:
    """Every event so far that is about an invoice, oldest first."""
    return [event for event in sandbox.objects("event") if event["type"].startswith(("invoice.", "invoice_payment."))]
