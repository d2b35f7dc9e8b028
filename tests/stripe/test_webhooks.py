"""Webhooks: signed, retried, and every way in which they may go wrong on request."""

import json
import time

import pytest
import stripe

from marketplace.local.stripe_sandbox import SandboxServer
from tests.stripe.conftest import KEY, SECRET, open_invoice, post, sdk

NO_FAULTS = {"hold": False, "outcomes": {}, "requests": [], "reverse": False, "webhooks": {}}


def verified(receiver, index):
    return stripe.Webhook.construct_event(receiver.bodies[index], receiver.signatures[index], SECRET)


def eventually(condition, *, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def test_paying_tells_the_whole_story_in_order(notifying, receiver):
    api = sdk(notifying)
    invoice = open_invoice(api)
    api.invoices.send_invoice(invoice.id)
    api.invoices.pay(invoice.id, {"payment_method": "pm_card_visa"})

    assert notifying.flush_webhooks() == len(receiver.types)

    assert receiver.types == [
        "customer.created",
        "tax_rate.created",
        "invoice.created",
        "invoiceitem.created",
        "payment_intent.created",
        "invoice.finalized",
        "invoice.sent",
        "charge.succeeded",
        "payment_intent.succeeded",
        "invoice_payment.paid",
        "invoice.updated",
        "invoice.paid",
        "invoice.payment_succeeded",
    ]
    event = verified(receiver, receiver.types.index("invoice.paid"))
    assert (event.data.object.id, event.data.object.status, event.api_version) == (
        invoice.id,
        "paid",
        stripe.api_version if hasattr(stripe, "api_version") else event.api_version,
    )


@pytest.mark.parametrize(
    ("verb", "last"), [("void_invoice", "invoice.voided"), ("mark_uncollectible", "invoice.marked_uncollectible")]
)
def test_endings_are_told(notifying, receiver, verb, last):
    api = sdk(notifying)
    getattr(api.invoices, verb)(open_invoice(api).id)

    notifying.flush_webhooks()

    assert receiver.types[-1] == last


def test_an_event_can_be_fetched_again(notifying, receiver):
    api = sdk(notifying)
    open_invoice(api)
    notifying.flush_webhooks()

    body = json.loads(receiver.bodies[2])
    assert api.events.retrieve(body["id"]).to_dict(for_json=True) == body
    assert [e.type for e in api.events.list({"types": ["invoice.*"]}).data] == ["invoice.finalized", "invoice.created"]


def test_an_unanswered_event_is_sent_again_until_it_is_taken(receiver):
    receiver.answers = [500, 503]
    with SandboxServer(
        api_key=KEY, webhook_secret=SECRET, validate=True, webhook_url=receiver.url, first_pause=0.02
    ) as server:
        sdk(server).customers.create({})
        eventually(lambda: server.state()["deliveries"][0]["state"] == "delivered")

        assert [row["attempts"] for row in server.state()["deliveries"]] == [3]
    assert receiver.types == ["customer.created"] * 3
    assert len(set(receiver.bodies)) == 1


def test_nothing_is_lost_while_nobody_listens(tmp_path, receiver):
    state = tmp_path / "stripe.sqlite3"
    with SandboxServer(api_key=KEY, state=state, webhook_url="http://127.0.0.1:9/", first_pause=0.01) as server:
        made = sdk(server).customers.create({})
        eventually(lambda: server.state()["deliveries"][0]["attempts"] > 0)

    with SandboxServer(api_key=KEY, state=state, webhook_url=receiver.url, webhook_secret=SECRET) as server:
        eventually(lambda: server.state()["deliveries"][0]["state"] == "delivered")

    assert verified(receiver, -1).data.object.id == made.id


def test_held_events_wait_and_can_come_reversed(notifying, receiver):
    api = sdk(notifying)
    open_invoice(api)
    assert receiver.types == []
    notifying.faults.configure({"reverse": True})

    notifying.flush_webhooks()

    assert receiver.types[0] == "invoice.finalized"
    assert receiver.types[-1] == "customer.created"


def test_duplicates_are_the_same_event(notifying, receiver):
    notifying.faults.configure({"webhooks": {"duplicate": 1}})
    sdk(notifying).customers.create({})

    notifying.flush_webhooks()

    assert receiver.types == ["customer.created"] * 2
    assert receiver.bodies[0] == receiver.bodies[1]


def test_a_forged_delivery_does_not_verify_and_the_true_one_follows(notifying, receiver):
    receiver.answers = [400]
    notifying.faults.configure({"webhooks": {"bad_signature": 1}})
    sdk(notifying).customers.create({})

    assert (notifying.flush_webhooks(), notifying.flush_webhooks()) == (0, 1)

    with pytest.raises(stripe.SignatureVerificationError):
        verified(receiver, 0)
    assert verified(receiver, 1).type == "customer.created"


def test_a_dropped_delivery_comes_later(notifying, receiver):
    notifying.faults.configure({"webhooks": {"drop": 1}})
    sdk(notifying).customers.create({})

    assert (notifying.flush_webhooks(), receiver.types) == (0, [])
    assert (notifying.flush_webhooks(), receiver.types) == (1, ["customer.created"])


def test_a_delayed_delivery_comes_behind_what_happened_later(notifying, receiver):
    notifying.faults.configure({"webhooks": {"delay": 1}})
    sdk(notifying).customers.create({})
    sdk(notifying).tax_rates.create({"display_name": "VAT", "inclusive": True, "percentage": 6})

    assert (notifying.flush_webhooks(), notifying.flush_webhooks()) == (1, 1)
    assert receiver.types == ["tax_rate.created", "customer.created"]


def test_faults_and_clock_over_http(notifying, receiver):
    def control(path, body):
        headers = {"Content-Type": "application/json"}
        return json.load(post(f"{notifying.url}/_sandbox/{path}", json.dumps(body).encode(), headers))

    before = json.load(post(f"{notifying.url}/_sandbox/state", None))["now"]
    assert control("clock", {"advance": 3600})["now"] - before in {3600, 3601}
    assert control("faults", {"requests": [{"kind": "limit"}]})["requests"][0]["kind"] == "limit"
    with pytest.raises(stripe.RateLimitError):
        sdk(notifying).customers.create({})
    sdk(notifying).customers.create({})
    assert control("webhooks/flush", {}) == {"accepted": 1}
    assert control("faults", {"reset": True}) == {
        "hold": False,
        "outcomes": {},
        "requests": [],
        "reverse": False,
        "webhooks": {},
    }


@pytest.mark.parametrize("body", [b'{"requests": [{"kind": "earthquake"}]}', b'{"wishes": 3}', b"[]", b"{"])
def test_an_unknown_fault_is_refused(sandbox, body):
    import urllib.error  # noqa: PLC0415

    with pytest.raises(urllib.error.HTTPError) as caught:
        post(f"{sandbox.url}/_sandbox/faults", body, {"Content-Type": "application/json"})

    assert caught.value.code == 400
    caught.value.close()
    assert sandbox.faults.describe() == {
        "hold": False,
        "outcomes": {},
        "requests": [],
        "reverse": False,
        "webhooks": {},
    }


def test_a_web_page_cannot_pull_the_knobs(sandbox):
    import urllib.error  # noqa: PLC0415

    with pytest.raises(urllib.error.HTTPError) as caught:
        post(f"{sandbox.url}/_sandbox/clock", b'{"advance": 1}', {"Content-Type": "text/plain"})

    assert caught.value.code == 403
    caught.value.close()
