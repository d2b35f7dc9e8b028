"""An issued invoice reaches Stripe once, with our total, whatever goes wrong on the way."""

import logging
from datetime import timedelta

import pytest
from django.utils import timezone

from billing import actions, stripe_gateway
from billing.actions import pushing
from billing.models import BillingAccount, Invoice, InvoiceEvent
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, order, rental, used
from tests.billing.stripe_side import items_of, only_invoice, pay

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def invoice():
    """A month of two machines: ¥25.00 and ¥12.34."""
    of = factories.organization(name="福州算力")
    offer = factories.offer(cards=1)
    used(rental(of, rate="2.50", offer=offer), NOVEMBER, NOVEMBER + 10 * HOUR)
    used(rental(of, rate="1.234", offer=offer, name="train-2"), NOVEMBER, NOVEMBER + 10 * HOUR)
    (made,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    return made


def expect_open(invoice, sandbox):
    """One live invoice at Stripe, ours to the cent and line by line."""
    invoice.refresh_from_db()
    theirs = only_invoice(sandbox)
    assert (invoice.status, invoice.stripe_invoice_id) == ("open", theirs["id"])
    assert (theirs["status"], theirs["total"], theirs["amount_remaining"]) == ("open", 3734, 3734)
    assert theirs["number"] == invoice.number
    assert items_of(sandbox, theirs) == sorted((str(line.key), line.amount_minor) for line in invoice.lines.all())
    assert invoice.hosted_url.startswith(sandbox.url)
    assert (invoice.push_error, invoice.next_push_at) == ("", None)


def test_a_push_opens_the_invoice(sandbox, invoice):
    actions.push(invoice_id=invoice.pk, at=DECEMBER)

    expect_open(invoice, sandbox)
    assert list(invoice.events.values_list("status", flat=True)) == ["issued", "pushing", "open"]
    account = BillingAccount.objects.get()
    assert account.stripe_customer_id == only_invoice(sandbox)["customer"]
    descriptions = [item["description"] for item in sandbox.objects("invoiceitem")]
    assert descriptions[0].startswith("NVIDIA GeForce RTX 4090 24GB × 1 · 福州 Fuzhou · train-1 · ")


def test_pushing_again_changes_nothing_and_says_nothing(sandbox, invoice):
    actions.push(invoice_id=invoice.pk, at=DECEMBER)
    said = len(sandbox.requests)

    actions.push(invoice_id=invoice.pk, at=DECEMBER + HOUR, impatient=True)

    assert len(sandbox.requests) == said
    expect_open(invoice, sandbox)


def test_a_running_attempt_is_left_alone_until_its_lease_ends(sandbox, invoice):
    assert pushing._lease(invoice.pk, DECEMBER, impatient=False)

    assert actions.push(invoice_id=invoice.pk, at=DECEMBER + MINUTE, impatient=True).status == "pushing"
    assert actions.due_for_push(at=DECEMBER + MINUTE) == []
    assert len(sandbox.requests) == 0
    assert actions.due_for_push(at=DECEMBER + 2 * MINUTE) == [invoice.pk]
    actions.push(invoice_id=invoice.pk, at=DECEMBER + 2 * MINUTE)

    expect_open(invoice, sandbox)


class Killed(BaseException):
    """The worker died here."""


STEPS = (
    "ensure_customer",
    "ensure_tax_rate",
    "create_draft_invoice",
    "add_line",
    "retrieve_invoice",
    "finalize",
    "send",
)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("hours", [0, 25])
def test_killed_after_a_call_it_goes_on_where_it_stood(sandbox, invoice, monkeypatch, step, hours):
    place = stripe_gateway if hasattr(stripe_gateway.push, step) is False else stripe_gateway.push
    real = getattr(place, step)

    def killed(*args, **kwargs):
        real(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(place, step, killed)
        with pytest.raises(Killed):
            actions.push(invoice_id=invoice.pk, at=DECEMBER)
    sandbox.advance_clock(hours * 3600)

    actions.push(invoice_id=invoice.pk, at=DECEMBER + hours * HOUR + 2 * MINUTE)

    expect_open(invoice, sandbox)
    assert len(sandbox.objects("customer")) == 1


def keep_pushing(invoice, at=DECEMBER, tries=12):
    """What the sweep does, until it is through."""
    for _ in range(tries):
        if actions.push(invoice_id=invoice.pk, at=at).status == "open":
            return
        at += HOUR
    raise AssertionError(Invoice.objects.get(pk=invoice.pk).push_error)


@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "error", "error_after", "conflict", "limit"])
@pytest.mark.parametrize("times", [1, 4])
def test_every_call_may_fail(sandbox, invoice, kind, times, caplog):
    caplog.set_level(logging.CRITICAL)
    sandbox.faults.configure({"requests": [{"kind": kind, "after": n, "times": times} for n in range(0, 30, 2)]})

    keep_pushing(invoice, tries=60)

    expect_open(invoice, sandbox)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "error", "error_after", "conflict", "limit"])
@pytest.mark.parametrize("nth", range(14))
def test_the_nth_call_fails(sandbox, invoice, kind, nth):
    sandbox.faults.configure({"requests": [{"kind": kind, "after": nth, "times": 3}]})

    keep_pushing(invoice)

    expect_open(invoice, sandbox)


def test_while_stripe_is_away_it_waits_ever_longer(sandbox, invoice):
    sandbox.faults.configure({"requests": [{"kind": "drop_before", "times": 100}]})
    at, pauses = DECEMBER, []
    for _ in range(4):
        waiting = actions.push(invoice_id=invoice.pk, at=at)
        pauses.append(waiting.next_push_at - at)
        at = waiting.next_push_at
    assert pauses == [timedelta(seconds=30 * 2**n) for n in range(4)]
    assert waiting.push_error.startswith("payment_")
    sandbox.faults.configure({"reset": True})

    assert actions.push(invoice_id=invoice.pk, at=at - MINUTE).status == "pushing"
    actions.push(invoice_id=invoice.pk, at=at - MINUTE, impatient=True)

    expect_open(invoice, sandbox)


def test_a_total_that_differs_is_taken_back_and_parked(sandbox, invoice, monkeypatch, caplog):
    real = stripe_gateway.push.add_line
    doubled = []

    def generous(**line):
        real(**line)
        if not doubled:
            doubled.append(real(**line | {"line_uuid": "someone-else"}))

    with monkeypatch.context() as patch:
        patch.setattr(stripe_gateway.push, "add_line", generous)
        parked = actions.push(invoice_id=invoice.pk, at=DECEMBER)

    assert (parked.status, parked.next_push_at) == ("pushing", None)
    assert parked.push_error.startswith("payment_total_mismatch")
    assert "was not pushed" in caplog.text
    assert [i for i in sandbox.objects("invoice") if i["status"] != "void"] == []
    assert actions.due_for_push(at=DECEMBER + 48 * HOUR) == []
    assert InvoiceEvent.objects.filter(invoice=invoice, note__startswith="attention").count() == 1

    actions.retry_push(invoice_id=invoice.pk, at=DECEMBER + HOUR)
    expect_open(invoice, sandbox)


def test_a_wrong_key_waits_for_the_operator(sandbox, invoice, settings, caplog):
    settings.STRIPE_API_KEY = "sk_test_wrong"
    waiting = actions.push(invoice_id=invoice.pk, at=DECEMBER)
    settings.STRIPE_API_KEY = "sk_test_billing"

    assert (waiting.status, waiting.next_push_at) == ("pushing", DECEMBER + timedelta(seconds=30))
    assert "sk_test" not in waiting.push_error
    keep_pushing(invoice, at=DECEMBER + HOUR)
    expect_open(invoice, sandbox)


def test_more_lines_than_stripe_takes_are_grouped_to_the_same_total(sandbox, monkeypatch):
    monkeypatch.setattr(stripe_gateway, "MAX_LINES", 5)
    of = factories.organization()
    offer = factories.offer(cards=1)
    for number in range(12):
        used(rental(of, rate=f"1.{number}37", offer=offer, name=f"m-{number}"), NOVEMBER, NOVEMBER + 10 * HOUR)
    (made,) = actions.draft_usage_invoices(at=DECEMBER).invoices

    actions.push(invoice_id=made.pk, at=DECEMBER)

    made.refresh_from_db()
    theirs = only_invoice(sandbox)
    assert made.lines.count() == 12
    assert (made.status, theirs["total"]) == ("open", made.total_minor)
    assert len(items_of(sandbox, theirs)) == 4


def test_an_order_whose_hold_ran_out_is_not_pushed(sandbox):
    made = order(at=timezone.now())
    invoice = actions.draft_order_invoice(order=made, at=made.placed_at)
    type(made).objects.filter(pk=made.pk).update(status="expiring")

    assert actions.push(invoice_id=invoice.pk, at=made.placed_at).status == "issued"
    assert len(sandbox.requests) == 0


def test_voided_here_while_stripe_was_opening_it_is_voided_there(sandbox, invoice, monkeypatch):
    real = stripe_gateway.push_invoice

    def slow(draft, **options):
        theirs = real(draft, **options)
        Invoice.objects.filter(pk=invoice.pk).update(status="void", next_push_at=None)
        return theirs

    monkeypatch.setattr(stripe_gateway, "push_invoice", slow)
    actions.push(invoice_id=invoice.pk, at=DECEMBER)

    assert [i["status"] for i in sandbox.objects("invoice")] == ["void"]


def test_paid_before_we_wrote_that_it_is_open(sandbox, invoice, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(pushing, "_finish", lambda *_: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            actions.push(invoice_id=invoice.pk, at=DECEMBER)
    theirs = only_invoice(sandbox)
    invoice.hosted_url = theirs["hosted_invoice_url"]
    pay(invoice)

    actions.push(invoice_id=invoice.pk, at=DECEMBER + 2 * MINUTE)
    actions.sweep_open_invoices(at=DECEMBER + HOUR)

    invoice.refresh_from_db()
    assert (invoice.status, invoice.paid_minor) == ("paid", 3734)
    assert invoice.payments.count() == 1
