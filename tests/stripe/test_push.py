"""The whole push: killed, dropped, expired or refused at every call, it ends with one invoice that adds up."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from billing import stripe_gateway as gw

START, END = datetime(2026, 10, 31, 16, tzinfo=UTC), datetime(2026, 11, 30, 16, tzinfo=UTC)
UUID = "6f1c8a52-3d0c-4a0b-9a53-3b6f6c1f0001"
DAY = 24 * 3600


@pytest.fixture
def facts(gateway):
    """Three lines, one a credit, 6 % inside: 12,345.67 yuan."""
    customer = gateway.ensure_customer(key="org-1", name="甲公司", email="a@example.cn")
    rate = gateway.ensure_tax_rate(percent=Decimal(6), inclusive=True, country="CN", display_name="增值税")
    amounts = {"line-1": 1_200_000, "line-2": 44_567, "line-3": -10_000}
    lines = tuple(gw.LineDraft(uuid, amount, uuid, START, END, rate) for uuid, amount in amounts.items())
    return {"uuid": UUID, "customer": customer, "currency": "CNY", "number": "INV-2026-000001", "days_until_due": 15,
            "lines": lines}  # fmt: skip


def draft(facts, version=1, **changes):
    return gw.InvoiceDraft(version=version, **facts | changes)


def expect_one_good_invoice(sandbox, result):
    (invoice,) = [i for i in sandbox.objects("invoice") if i["status"] != "void"]
    items = [item for item in sandbox.objects("invoiceitem") if item["invoice"] == invoice["id"]]
    assert (result.id, result.status, result.total, result.amount_remaining) == (
        invoice["id"],
        "open",
        1_234_567,
        1_234_567,
    )
    assert sorted((item["metadata"]["line_uuid"], item["amount"]) for item in items) == [
        ("line-1", 1_200_000),
        ("line-2", 44_567),
        ("line-3", -10_000),
    ]
    assert [i["invoice"] for i in sandbox.objects("invoiceitem") if i["invoice"] is None] == []


def keep_pushing(sandbox, facts, *, tries=12, hours=0):
    """What a sweep does: come again, under the next version where the old key only repeats a 500."""
    version = 1
    for attempt in range(tries):
        try:
            return gw.push_invoice(draft(facts, version), look_up=attempt > 0)
        except gw.UnknownOutcome as unknown:
            version += unknown.stored
        except gw.Unavailable:
            pass
        sandbox.advance_clock(hours * 3600)
    raise AssertionError("it never came through")


def test_a_push_opens_the_invoice_with_our_total(gateway, sandbox, facts):
    result = gateway.push_invoice(draft(facts))

    expect_one_good_invoice(sandbox, result)
    assert (result.number, result.invoice_uuid) == ("INV-2026-000001", UUID)
    assert sandbox.objects("invoice")[0]["total_taxes"][0]["amount"] == 67_925 + 2_523 - 566


def test_pushing_again_changes_nothing(gateway, sandbox, facts):
    first = gateway.push_invoice(draft(facts), look_up=False)
    before = sandbox.state()["objects"]

    assert gateway.push_invoice(draft(facts)) == first
    assert gateway.push_invoice(draft(facts), stripe_id=first.id) == first
    sandbox.advance_clock(2 * DAY)
    assert gateway.push_invoice(draft(facts, version=2)) == first
    assert sandbox.state()["objects"] == before


class Killed(BaseException):
    """The worker died here."""


def calls_of_a_push(gateway, sandbox, facts):
    sandbox.requests.clear()
    gateway.push_invoice(draft(facts, number="COUNT", uuid="count"), look_up=False)
    return len(sandbox.requests)


@pytest.mark.parametrize("hours", [0, 30], ids=["at-once", "after-the-keys-expired"])
@pytest.mark.parametrize("call", range(7))
def test_killed_after_any_call_and_repeated(gateway, sandbox, facts, monkeypatch, call, hours):
    """Calls: create, three lines, retrieve, finalize; the seventh kill comes after the end."""
    done = 0
    real = sandbox.answer

    def dying(*arguments):
        nonlocal done
        answer = real(*arguments)
        done += 1
        return answer

    monkeypatch.setattr(sandbox, "answer", dying)
    from billing.stripe_gateway import client  # noqa: PLC0415

    services = client.services

    def until_killed():
        if done >= call:
            raise Killed
        return services()

    for module in ("invoices", "customers"):
        monkeypatch.setattr(f"billing.stripe_gateway.{module}.services", until_killed)
    if call < 6:
        with pytest.raises(Killed):
            gateway.push_invoice(draft(facts), look_up=False)
    else:
        gateway.push_invoice(draft(facts), look_up=False)
    for module in ("invoices", "customers"):
        monkeypatch.setattr(f"billing.stripe_gateway.{module}.services", services)
    assert done == min(call, 6)
    sandbox.advance_clock(hours * 3600)

    expect_one_good_invoice(sandbox, gateway.push_invoice(draft(facts)))


@pytest.mark.parametrize("hours", [0, pytest.param(30, marks=pytest.mark.slow)], ids=["at-once", "keys-expired"])
@pytest.mark.parametrize("call", range(6))
@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "error", "error_after", "conflict", "limit"])
def test_every_fault_at_every_call_ends_with_one_invoice(gateway, sandbox, facts, kind, call, hours):
    sandbox.faults.configure({"requests": [{"kind": kind, "after": call, "times": 3, "path": "/v1/invoice"}]})

    expect_one_good_invoice(sandbox, keep_pushing(sandbox, facts, hours=hours))

    assert len(sandbox.objects("invoice")) == 1


def test_too_many_lines_are_refused_before_anything_is_sent(gateway, sandbox, facts):
    with pytest.raises(gw.Refused) as caught:
        gateway.push_invoice(draft(facts, lines=facts["lines"] * 84))

    assert caught.value.reason == "too_many_lines"
    assert sandbox.objects("invoice") == []


def test_a_draft_that_does_not_add_up_is_taken_back(gateway, sandbox, facts, api):
    made = gateway.create_draft_invoice(
        invoice_uuid=UUID, version=1, customer=facts["customer"], currency="CNY", number="X", days_until_due=15
    )
    api.invoice_items.create({"invoice": made.id, "customer": facts["customer"], "amount": 5, "currency": "cny"})

    with pytest.raises(gw.TotalMismatch) as caught:
        gateway.push_invoice(draft(facts))

    assert (caught.value.invoice_id, sandbox.objects("invoice")) == (made.id, [])
    expect_one_good_invoice(sandbox, gateway.push_invoice(draft(facts, version=2)))


@pytest.mark.parametrize("balance", [-5_000, 3_000])
def test_a_customers_balance_at_stripe_is_noticed(gateway, sandbox, facts, api, balance):
    """Stripe would have charged less or more than our invoice says."""
    api.customers.update(facts["customer"], {"balance": balance})

    with pytest.raises(gw.TotalMismatch) as caught:
        gateway.push_invoice(draft(facts))

    (invoice,) = sandbox.objects("invoice")
    assert (invoice["id"], invoice["status"]) == (caught.value.invoice_id, "void")


def test_an_amount_below_stripes_minimum_is_noticed(gateway, sandbox, facts):
    """Stripe calls it paid and moves the debt to the customer's balance."""
    small = (gw.LineDraft("line-1", 20, "20 分", START, END),)

    with pytest.raises(gw.TotalMismatch):
        gateway.push_invoice(draft(facts, lines=small))


def test_an_invoice_that_was_paid_meanwhile_is_returned_as_paid(gateway, api, facts):
    made = gateway.push_invoice(draft(facts))
    api.invoices.pay(made.id, {"payment_method": "pm_card_visa"})

    again = gateway.push_invoice(draft(facts), stripe_id=made.id)

    assert (again.status, again.amount_paid, again.amount_remaining) == ("paid", 1_234_567, 0)
