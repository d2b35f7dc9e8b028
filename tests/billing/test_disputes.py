"""Disputes freeze credit; won they leave nothing behind, lost the payment never was."""

import pytest

from accounts.models import CreditLine, Notification
from billing import actions, ledger, stripe_gateway
from billing.actions.refunds import refundable_minor
from billing.models import Book, Dispute, Posting
from tests.billing.builders import DECEMBER
from tests.billing.money_side import paid_invoice, paid_top_up
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db(transaction=True)


def follow(dispute):
    return actions.apply_dispute(theirs=stripe_gateway.retrieve_dispute(dispute_id=dispute), at=DECEMBER)


def standing(invoice_or_top_up):
    return CreditLine.objects.get(organization=invoice_or_top_up.account.organization).standing


def books(account):
    return {str(book): amount for book in Book if (amount := ledger.balance(account, book))}


def intent_of(invoice):
    return invoice.payments.get().reference


def test_an_open_dispute_freezes_credit_and_tells(sandbox):
    invoice = paid_invoice()
    before = books(invoice.account)

    dispute = follow(sandbox.open_dispute(intent_of(invoice)))

    assert (dispute.status, dispute.amount_minor, dispute.payment) == ("open", 1000, invoice.payments.get())
    assert standing(invoice) == "frozen"
    assert books(invoice.account) == before
    assert Notification.objects.get(kind="dispute_opened").params == {"amount": "¥10.00"}
    invoice.refresh_from_db()
    assert invoice.status == "paid"


def test_a_won_dispute_leaves_nothing_behind(sandbox):
    invoice = paid_invoice()
    before = books(invoice.account)
    opened = sandbox.open_dispute(intent_of(invoice))
    follow(opened)
    sandbox.close_dispute(opened, won=True)

    assert follow(opened).status == "won"

    assert (standing(invoice), books(invoice.account)) == ("good", before)


def test_a_lost_dispute_is_owed_again(sandbox):
    invoice = paid_invoice()
    opened = sandbox.open_dispute(intent_of(invoice))
    sandbox.close_dispute(opened, won=False)

    for _ in range(2):
        assert follow(opened).status == "lost"

    invoice.refresh_from_db()
    assert (invoice.status, invoice.paid_minor, invoice.outstanding_minor, invoice.collection) == (
        "open", 0, 1000, "bank_transfer",
    )  # fmt: skip
    assert books(invoice.account) == {"receivable": 1000, "revenue": 943, "tax": 57}
    assert ledger.check() == []
    assert standing(invoice) == "frozen"
    actions.give_credit_again(dispute=Dispute.objects.get())
    assert standing(invoice) == "good"


def test_the_invoice_can_be_paid_by_other_means_afterwards(sandbox):
    invoice = paid_invoice()
    opened = sandbox.open_dispute(intent_of(invoice))
    sandbox.close_dispute(opened, won=False)
    follow(opened)

    invoice.refresh_from_db()
    actions.record_payment(
        invoice=invoice, method="bank_transfer", reference="B-1", amount_minor=1000, currency="CNY",
        received_at=DECEMBER,
    )  # fmt: skip

    theirs = stripe_gateway.retrieve_invoice(invoice_id=invoice.stripe_invoice_id)
    actions.apply_stripe_invoice(theirs=theirs, at=DECEMBER)  # Stripe still says paid: nothing new
    invoice.refresh_from_db()
    assert (invoice.status, invoice.paid_minor) == ("paid", 1000)
    assert books(invoice.account) == {"cash": 1000, "revenue": 943, "tax": 57}
    assert ledger.check() == []


def test_a_lost_part_after_a_note_takes_the_note_from_the_balance(sandbox):
    """¥4 of ¥10 were credited to the balance; then the payer's bank takes all ten."""
    invoice = paid_invoice()
    line = invoice.lines.get()
    actions.issue_credit_note(
        invoice=invoice, amounts={line.pk: 400}, destination="balance", reason="outage", request_key="n", at=DECEMBER
    )
    opened = sandbox.open_dispute(intent_of(invoice))
    sandbox.close_dispute(opened, won=False)
    follow(opened)

    invoice.refresh_from_db()
    assert (invoice.status, invoice.credited_minor, invoice.paid_minor, invoice.outstanding_minor) == (
        "open", 400, 0, 600,
    )  # fmt: skip
    assert books(invoice.account) == {"receivable": 600, "revenue": 566, "tax": 34}
    assert ledger.check() == []


def test_a_lost_top_up_leaves_the_balance_below_zero(sandbox):
    top_up = paid_top_up(sandbox)
    opened = sandbox.open_dispute(top_up.payment_intent, amount=30_000)
    sandbox.close_dispute(opened, won=False)

    follow(opened)

    assert books(top_up.account) == {"cash": 20_000, "wallet": 20_000}
    assert Posting.objects.get(kind="payment_reversed").fact == opened
    assert refundable_minor(top_up) == 20_000
    assert ledger.check() == []


def test_credit_stays_frozen_while_another_dispute_is_open(sandbox):
    first, second = paid_top_up(sandbox), None
    second = paid_top_up(sandbox, organization=first.account.organization)
    one, two = (sandbox.open_dispute(each.payment_intent) for each in (first, second))
    follow(one)
    follow(two)
    sandbox.close_dispute(one, won=True)
    follow(one)

    assert standing(first) == "frozen"
    with pytest.raises(actions.DisputeRefused):
        actions.give_credit_again(dispute=Dispute.objects.get(stripe_id=one))
    sandbox.close_dispute(two, won=True)
    follow(two)
    assert standing(first) == "good"


def test_ten_at_once_are_one(sandbox):
    invoice = paid_invoice()
    opened = sandbox.open_dispute(intent_of(invoice))
    sandbox.close_dispute(opened, won=False)

    at_once(*times(10, lambda _n: follow(opened)))

    assert (Dispute.objects.count(), Posting.objects.filter(kind="payment_reversed").count()) == (1, 1)
    assert ledger.check() == []


def test_a_dispute_of_somebody_elses_payment_is_none_of_ours(sandbox):
    theirs = stripe_gateway.Dispute(
        id="dp_1", status="lost", amount=5, currency="CNY", charge="ch_1", payment_intent="pi_other", reason="x",
        created=DECEMBER,
    )  # fmt: skip

    assert actions.apply_dispute(theirs=theirs, at=DECEMBER) is None
    assert not Dispute.objects.exists()
