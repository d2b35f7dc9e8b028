"""The nightly comparison finds every kind of difference, changes nothing, and each is repaired by one press."""

import uuid

import pytest

from billing import actions, stripe_gateway
from billing.actions.accounts import account_of
from billing.actions.pushing import ensure_customer
from billing.models import (
    CreditNote,
    Dispute,
    Invoice,
    Payment,
    Reconciliation,
    ReconciliationDifference,
    Refund,
    TopUp,
)
from tests import factories
from tests.billing.builders import DECEMBER, HOUR
from tests.billing.money_side import paid_invoice, paid_top_up, pushed_invoice
from tests.billing.stripe_side import pay
from tests.billing.test_events import now

pytestmark = pytest.mark.django_db(transaction=True)


def compare(sandbox):
    return actions.reconcile(at=now(sandbox) + HOUR)


def rows():
    return list(ReconciliationDifference.objects.order_by("pk").values_list("kind", "problem", "state"))


def press(sandbox):
    """The one-click repair of the only difference."""
    row = ReconciliationDifference.objects.get(state="open")
    return actions.repair(difference_id=row.pk, at=now(sandbox) + HOUR, actor=None)


def test_books_that_agree_have_no_difference(sandbox):
    paid_invoice()
    paid_top_up(sandbox)

    assert compare(sandbox) == []

    run = Reconciliation.objects.get()
    assert (run.found, run.compared, run.error) == (0, 1, "")
    assert rows() == []


def test_a_payment_that_nobody_heard_of_is_found_and_applied(sandbox):
    invoice = pushed_invoice()
    pay(invoice)

    (difference,) = compare(sandbox)

    assert str(difference) == f"invoice {invoice.number} ({invoice.stripe_invoice_id}): paid there, open here"
    assert Invoice.objects.get().status == "open"
    assert press(sandbox).state == "repaired"
    assert Invoice.objects.get().status == "paid"
    assert compare(sandbox) == []


def test_a_difference_stays_one_row_and_ends_by_itself(sandbox):
    invoice = pushed_invoice()
    pay(invoice)
    compare(sandbox)
    compare(sandbox)
    assert len(rows()) == 1

    theirs = stripe_gateway.retrieve_invoice(invoice_id=invoice.stripe_invoice_id)
    actions.apply_stripe_invoice(theirs=theirs, at=DECEMBER)
    compare(sandbox)

    assert rows() == [("invoice", "paid there, open here", "gone")]


def test_a_page_that_was_paid_is_credited_by_the_repair(sandbox):
    account = account_of(organization=factories.organization())
    top_up = TopUp.objects.create(
        account=account, request_key=str(uuid.uuid4()), amount_minor=50_000, currency="CNY", created_at=DECEMBER
    )
    session = stripe_gateway.create_checkout(
        topup_key=top_up.key, version=1, amount=50_000, currency="CNY", customer=ensure_customer(account, version=1),
        methods=("card",), success_url="https://x.example/", cancel_url="https://x.example/",
        expires_at=now(sandbox) + HOUR, description="top-up",
    )  # fmt: skip
    sandbox.pay_checkout(session.id)

    (difference,) = compare(sandbox)

    assert (difference.kind, difference.problem) == ("checkout", "50000 CNY paid there, not credited here")
    press(sandbox)
    assert TopUp.objects.get().status == "paid"
    assert compare(sandbox) == []


def test_a_refund_whose_end_nobody_heard_of_is_applied(sandbox):
    top_up = paid_top_up(sandbox)
    actions.refund_top_up(top_up=top_up, amount_minor=100, request_key="r", at=now(sandbox))
    actions.sweep_refunds(at=now(sandbox))
    sandbox.settle_refund(sandbox.objects("refund")[0]["id"], succeeded=True)

    assert [each.problem for each in compare(sandbox)] == ["succeeded there, submitted here"]
    press(sandbox)

    assert Refund.objects.get().status == "succeeded"
    assert compare(sandbox) == []


def test_a_refund_made_by_hand_at_stripe_needs_a_person(sandbox):
    top_up = paid_top_up(sandbox)
    stripe_gateway.create_refund(payment_intent=top_up.payment_intent, amount=700, refund_key="by-hand", version=1)

    assert [each.problem for each in compare(sandbox)] == ["700 CNY sent back there, not by us"]
    with pytest.raises(actions.NotRepaired, match="需要人工处理"):
        press(sandbox)

    assert [state for _kind, _problem, state in rows()] == ["open"]
    assert not Refund.objects.exists()


def test_a_note_that_stripe_refused_is_sent_again(sandbox):
    invoice = paid_invoice()
    at = now(sandbox) - 3 * HOUR
    actions.issue_credit_note(
        invoice=invoice,
        amounts={invoice.lines.get().pk: 300},
        destination="balance",
        reason="x",
        request_key="n",
        at=at,
    )
    CreditNote.objects.update(next_push_at=None, push_error="refused")

    assert [str(each) for each in compare(sandbox)] == [
        f"credit_note {CreditNote.objects.get().number} (-): not at Stripe: refused"
    ]
    press(sandbox)

    assert CreditNote.objects.get().stripe_credit_note_id == sandbox.objects("credit_note")[0]["id"]
    assert compare(sandbox) == []


def test_a_dispute_that_nobody_heard_of_is_applied(sandbox):
    sandbox.open_dispute(paid_top_up(sandbox).payment_intent)

    assert [each.problem for each in compare(sandbox)] == ["unknown here"]
    press(sandbox)

    assert Dispute.objects.get().status == "open"
    assert compare(sandbox) == []


def test_a_lost_dispute_is_no_difference(sandbox):
    invoice = paid_invoice()
    opened = sandbox.open_dispute(Payment.objects.get().reference)
    sandbox.close_dispute(opened, won=False)
    actions.apply_dispute(theirs=stripe_gateway.retrieve_dispute(dispute_id=opened), at=DECEMBER)
    invoice.refresh_from_db()
    assert invoice.status == "open"

    assert compare(sandbox) == []


def test_a_comparison_that_stripe_breaks_off_says_so(sandbox):
    sandbox.faults.configure({"requests": [{"kind": "limit", "times": 9, "path": "/v1/refunds"}]})

    with pytest.raises(stripe_gateway.Unavailable):
        compare(sandbox)

    run = Reconciliation.objects.get()
    assert (run.finished_at, bool(run.error)) == (None, True)
