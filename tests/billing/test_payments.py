"""Money is written down once, never lost, and settles what it pays for."""

from datetime import timedelta

import pytest
from django.utils import timezone

from billing import actions, ledger, queries, stripe_gateway
from billing.models import BilledWindow, Book, Invoice, Payment
from orders import actions as orders_actions
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, order, rental, used
from tests.billing.stripe_side import only_invoice, pay

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def usage():
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)
    (made,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    return made


@pytest.fixture
def prepaid():
    return actions.draft_order_invoice(order=order(), at=NOVEMBER)


def bank(invoice, amount_minor, reference="ICBC-1", at=DECEMBER, currency="CNY"):
    return actions.record_payment(
        invoice=invoice, method="bank_transfer", reference=reference, amount_minor=amount_minor, currency=currency,
        received_at=at, actor=None,
    )  # fmt: skip


def test_money_that_covers_an_invoice_pays_it(usage):
    bank(usage, 1000)

    assert (usage.status, usage.paid_minor, usage.paid_at) == ("paid", 1000, DECEMBER)
    assert usage.events.last().status == "paid"


def test_the_same_reference_is_the_same_money(usage):
    first = bank(usage, 400)

    assert bank(usage, 400) == first
    assert (usage.paid_minor, usage.status, Payment.objects.count()) == (400, "issued", 1)
    with pytest.raises(actions.PaymentRefused) as refusal:
        bank(usage, 600)
    assert refusal.value.code == "reference_taken"
    assert Payment.objects.count() == 1


def test_parts_add_up(usage):
    bank(usage, 400, "a")
    assert usage.status == "issued"
    bank(usage, 600, "b")

    assert (usage.status, usage.paid_minor) == ("paid", 1000)


@pytest.mark.parametrize(
    ("code", "wrong"),
    [("amount_not_positive", {"amount_minor": 0}), ("currency_differs", {"currency": "USD"}),
     ("reference_missing", {"reference": " "})],
)  # fmt: skip
def test_what_cannot_be_money_for_it_is_refused(usage, code, wrong):
    with pytest.raises(actions.PaymentRefused) as refusal:
        bank(usage, **{"amount_minor": 1000} | wrong)

    assert refusal.value.code == code
    usage.refresh_from_db()
    assert (usage.status, usage.paid_minor, Payment.objects.count()) == ("issued", 0, 0)


def test_paying_too_much_or_twice_enters_the_balance(usage, caplog):
    bank(usage, 1200, "a")
    bank(usage, 1000, "b")

    assert (usage.status, usage.paid_minor, Payment.objects.count()) == ("paid", 1000, 2)
    assert ledger.balance(usage.account, Book.WALLET) == 1200
    assert (ledger.balance(usage.account, Book.RECEIVABLE), ledger.check()) == (0, [])
    notes = [event.note for event in usage.events.all() if event.note.startswith("attention")]
    assert notes == ["attention: overpaid by ¥2.00", "attention: ¥10.00 (b) came for an invoice that is paid"]
    assert caplog.text.count("WARNING") == 2
    assert not queries.with_astray_money().exists()


def test_paying_an_order_confirms_it(prepaid):
    bank(prepaid, 128_000, at=NOVEMBER + HOUR)

    prepaid.order.refresh_from_db()
    assert (prepaid.status, prepaid.order.status) == ("paid", "confirmed")
    assert prepaid.order.paid_at == NOVEMBER + HOUR


def test_money_for_an_order_whose_cards_are_gone_is_kept_and_flagged(prepaid, caplog):
    orders_actions.begin_expiring(at=NOVEMBER + HOUR)
    orders_actions.cancel_unpaid(order_id=prepaid.order_id, at=NOVEMBER + HOUR)

    bank(prepaid, 128_000, at=NOVEMBER + 2 * HOUR)

    prepaid.order.refresh_from_db()
    assert (prepaid.status, prepaid.order.status, Payment.objects.count()) == ("paid", "cancelled", 1)
    assert "the cards are gone" in caplog.text
    assert list(queries.with_astray_money()) == [prepaid]


# --- voiding ------------------------------------------------------------------------------------------------
def test_a_void_invoice_bills_its_usage_anew(sandbox, usage):
    actions.push(invoice_id=usage.pk, at=DECEMBER)

    void = actions.void_invoice(invoice=usage, at=DECEMBER + HOUR, note="wrong project")
    (again,) = actions.draft_usage_invoices(at=DECEMBER + 2 * HOUR).invoices
    actions.push(invoice_id=again.pk, at=DECEMBER + 2 * HOUR)

    assert (void.status, void.number, again.number) == ("void", "INV-2026-000001", "INV-2026-000002")
    assert (again.total_minor, again.period_start) == (usage.total_minor, NOVEMBER)
    assert [i["status"] for i in sandbox.objects("invoice")] == ["void", "open"]
    assert BilledWindow.objects.get().line.invoice == again
    assert actions.void_invoice(invoice=usage, at=DECEMBER + 3 * HOUR).status == "void"
    assert void.lines.count() == 1


def test_an_invoice_not_sent_yet_is_voided_without_a_trace_at_stripe(sandbox, usage):
    assert actions.void_invoice(invoice=usage, at=DECEMBER).status == "void"
    assert sandbox.objects("invoice") == []
    assert actions.due_for_push(at=DECEMBER + 24 * HOUR) == []


def test_a_draft_left_at_stripe_is_deleted(sandbox, usage):
    sandbox.faults.configure({"requests": [{"kind": "error", "path": "/v1/invoiceitems"}]})
    actions.push(invoice_id=usage.pk, at=DECEMBER)
    assert [i["status"] for i in sandbox.objects("invoice")] == ["draft"]

    assert actions.void_invoice(invoice=usage, at=DECEMBER + HOUR).status == "void"
    assert sandbox.objects("invoice") == []


def test_an_invoice_paid_a_moment_ago_is_not_voided(sandbox, usage):
    pay(actions.push(invoice_id=usage.pk, at=DECEMBER))

    with pytest.raises(actions.VoidRefused) as refusal:
        actions.void_invoice(invoice=usage, at=DECEMBER + HOUR)

    usage.refresh_from_db()
    assert (refusal.value.code, usage.status, usage.paid_minor) == ("paid", "paid", 1000)
    assert BilledWindow.objects.count() == 1


@pytest.mark.parametrize("kind", ["drop_before", "error"])
def test_an_unclear_answer_voids_nothing_here_and_the_next_try_does(sandbox, usage, kind, caplog):
    actions.push(invoice_id=usage.pk, at=DECEMBER)
    sandbox.faults.configure({"requests": [{"kind": kind, "path": "/v1/invoices", "method": "POST", "times": 3}]})

    with pytest.raises(stripe_gateway.GatewayError):
        actions.void_invoice(invoice=usage, at=DECEMBER + HOUR)
    usage.refresh_from_db()
    assert usage.status == "open"
    sandbox.faults.configure({"reset": True})

    assert actions.void_invoice(invoice=usage, at=DECEMBER + 2 * HOUR).status == "void"
    assert [i["status"] for i in sandbox.objects("invoice")] == ["void"]


def test_money_that_came_forbids_a_void(usage):
    bank(usage, 1)

    with pytest.raises(actions.VoidRefused):
        actions.void_invoice(invoice=usage, at=DECEMBER)
    usage.refresh_from_db()
    assert usage.status == "issued"


# --- expiring orders ----------------------------------------------------------------------------------------
def expiring(sandbox, *, pushed=True):
    invoice = actions.draft_order_invoice(order=order(), at=NOVEMBER)
    if pushed:
        invoice = actions.push(invoice_id=invoice.pk, at=NOVEMBER)
    assert orders_actions.begin_expiring(at=NOVEMBER + HOUR) == [invoice.order_id]
    return invoice


def state(invoice):
    invoice = Invoice.objects.select_related("order").get(pk=invoice.pk)
    return invoice.status, invoice.order.status


@pytest.mark.parametrize("pushed", [True, False])
def test_an_unpaid_order_is_voided_at_stripe_and_then_cancelled(sandbox, pushed):
    invoice = expiring(sandbox, pushed=pushed)

    done = actions.settle_expiring(at=NOVEMBER + HOUR)

    assert done == {"cancelled": [invoice.order_id], "paid": [], "waiting": []}
    assert state(invoice) == ("void", "cancelled")
    assert [i["status"] for i in sandbox.objects("invoice")] == (["void"] if pushed else [])
    assert actions.settle_expiring(at=NOVEMBER + HOUR) == {"cancelled": [], "paid": [], "waiting": []}


def test_an_order_paid_in_the_last_second_is_confirmed(sandbox):
    invoice = expiring(sandbox)
    pay(invoice)

    done = actions.settle_expiring(at=NOVEMBER + HOUR)

    assert done == {"cancelled": [], "paid": [invoice.order_id], "waiting": []}
    assert state(invoice) == ("paid", "confirmed")


def test_while_stripe_does_not_answer_the_cards_stay_held(sandbox, caplog):
    invoice = expiring(sandbox)
    sandbox.faults.configure({"requests": [{"kind": "drop_before", "times": 50}]})

    assert actions.settle_expiring(at=NOVEMBER + HOUR)["waiting"] == [invoice.order_id]
    assert state(invoice) == ("open", "expiring")
    sandbox.faults.configure({"reset": True})

    assert actions.settle_expiring(at=NOVEMBER + 2 * HOUR)["cancelled"] == [invoice.order_id]


# --- news from Stripe ---------------------------------------------------------------------------------------
def test_the_sweep_finds_a_payment_whose_webhook_never_came(sandbox, usage):
    pay(actions.push(invoice_id=usage.pk, at=DECEMBER))

    assert actions.sweep_open_invoices(at=DECEMBER + HOUR / 12) == 0
    assert actions.sweep_open_invoices(at=DECEMBER + HOUR) == 1

    usage.refresh_from_db()
    assert (usage.status, usage.payments.get().method) == ("paid", "stripe")
    assert usage.payments.get().reference.startswith("pi_")


def test_money_by_bank_is_reported_to_stripe(sandbox, usage):
    actions.push(invoice_id=usage.pk, at=DECEMBER)
    bank(usage, 1000, at=DECEMBER + HOUR)

    actions.sweep_open_invoices(at=DECEMBER + 2 * HOUR)
    asked = len(sandbox.requests)
    actions.sweep_open_invoices(at=DECEMBER + 3 * HOUR)

    assert (only_invoice(sandbox)["status"], len(sandbox.requests)) == ("paid", asked)
    assert Payment.objects.count() == 1


def test_the_books_are_compared(sandbox, usage, caplog):
    now = timezone.now()
    actions.push(invoice_id=usage.pk, at=now)
    since, until = now - timedelta(days=1), now + timedelta(days=1)
    assert actions.reconcile(at=until, since=since) == []
    pay(Invoice.objects.get(pk=usage.pk))

    (difference,) = actions.reconcile(at=until, since=since)

    assert str(difference).endswith("paid there, open here")
    assert "reconciliation" in caplog.text


# --- credit -------------------------------------------------------------------------------------------------
def test_credit_counts_unpaid_bills_unbilled_windows_and_running_meters():
    of = factories.organization(credit_minor=100_000)
    offer = factories.offer(cards=2)
    billed = rental(of, rate="2.50", offer=offer)
    used(billed, NOVEMBER, NOVEMBER + 4 * HOUR)
    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    used(billed, DECEMBER, DECEMBER + HOUR)
    type(billed).objects.filter(pk=billed.pk).update(meter="card_hour", metered_from=DECEMBER + 2 * HOUR)
    actions.draft_order_invoice(order=order(of, offer=offer, at=DECEMBER), at=DECEMBER)

    spent = actions.refresh_credit(organization_id=of.pk, at=DECEMBER + 4 * HOUR)

    of.credit_line.refresh_from_db()
    assert spent == invoice.total_minor + 250 + 500
    assert of.credit_line.available_minor == 100_000 - spent
    assert of.credit_line.refreshed_at == DECEMBER + 4 * HOUR
    bank(invoice, invoice.total_minor)
    assert actions.refresh_credit(organization_id=of.pk, at=DECEMBER + 4 * HOUR) == 750
