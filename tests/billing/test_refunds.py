"""Money goes back once, never more than came, and what cannot go back is on the balance."""

import pytest
from django.db import transaction
from django.db.utils import InternalError

from accounts.models import Notification
from billing import actions, ledger
from billing.actions.refunds import refundable_minor
from billing.models import Book, Refund
from tests.billing.builders import DECEMBER, HOUR
from tests.billing.money_side import paid_invoice, paid_top_up
from tests.support.threads import outcomes, times

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def top_up(sandbox):
    return paid_top_up(sandbox)


def back(top_up, amount_minor, *, key="r-1"):
    return actions.refund_top_up(top_up=top_up, amount_minor=amount_minor, request_key=key, at=DECEMBER)


def books(account):
    return tuple(ledger.balance(account, book) for book in (Book.WALLET, Book.REFUNDS, Book.CASH))


def settle(sandbox, *, succeeded=True, at=DECEMBER + HOUR):
    for theirs in sandbox.objects("refund"):
        sandbox.settle_refund(theirs["id"], succeeded=succeeded)
    actions.sweep_refunds(at=at)
    return Refund.objects.get()


def test_a_refund_is_opened_sent_and_done(top_up, sandbox):
    refund = back(top_up, 20_000)
    assert (refund.status, books(top_up.account)) == ("pending", (30_000, 20_000, 50_000))

    actions.sweep_refunds(at=DECEMBER)

    refund.refresh_from_db()
    (theirs,) = sandbox.objects("refund")
    assert (refund.status, refund.reference, theirs["amount"]) == ("submitted", theirs["id"], 20_000)
    done = settle(sandbox)
    assert (done.status, done.finished_at, books(top_up.account)) == ("succeeded", DECEMBER + HOUR, (30_000, 0, 30_000))
    assert ledger.check() == []
    assert Notification.objects.get(kind="refund_ended").params == {"amount": "¥200.00", "how": "done"}
    assert list(refund.events.order_by("pgh_id").values_list("status", flat=True))[-1] == "succeeded"


def test_a_failed_refund_is_on_the_balance(top_up, sandbox):
    back(top_up, 20_000)
    actions.sweep_refunds(at=DECEMBER)

    failed = settle(sandbox, succeeded=False)

    assert (failed.status, failed.error, books(top_up.account)) == (
        "failed",
        "lost_or_stolen_card",
        (50_000, 0, 50_000),
    )
    assert refundable_minor(top_up) == 50_000
    assert ledger.check() == []


def test_a_refund_that_comes_back_after_all_is_on_the_balance(top_up, sandbox):
    back(top_up, 20_000)
    actions.sweep_refunds(at=DECEMBER)
    settle(sandbox)
    (theirs,) = sandbox.objects("refund")
    sandbox.settle_refund(theirs["id"], succeeded=False)

    from billing import stripe_gateway  # noqa: PLC0415

    actions.apply_refund(theirs=stripe_gateway.retrieve_refund(refund_id=theirs["id"]), at=DECEMBER)

    assert (Refund.objects.get().status, books(top_up.account)) == ("failed", (50_000, 0, 50_000))
    assert ledger.check() == []


def test_what_stripe_refuses_is_on_the_balance(top_up, sandbox):
    back(top_up, 20_000)
    sandbox.open_dispute(top_up.payment_intent)

    actions.sweep_refunds(at=DECEMBER)

    refund = Refund.objects.get()
    assert (refund.status, books(top_up.account)) == ("failed", (50_000, 0, 50_000))
    assert "charged back" in refund.error


@pytest.mark.parametrize(("amount", "code"), [(50_001, "too_much"), (0, "amount_not_positive")])
def test_never_more_than_came(top_up, amount, code):
    with pytest.raises(actions.RefundRefused) as refusal:
        back(top_up, amount)

    assert refusal.value.code == code
    assert not Refund.objects.exists()
    assert books(top_up.account) == (50_000, 0, 50_000)


def test_never_more_than_is_on_the_balance(top_up, sandbox):
    paid_top_up(sandbox, organization=top_up.account.organization, amount_minor=1_000)
    with transaction.atomic():
        ledger.post(
            account=top_up.account, kind="correction", fact="x", entries={Book.WALLET: 40_000, Book.REVENUE: -40_000},
            at=DECEMBER, currency="CNY",
        )  # fmt: skip

    with pytest.raises(actions.RefundRefused, match="¥110"):
        back(top_up, 12_000)
    back(top_up, 11_000)

    assert books(top_up.account)[0] == 0


def test_refunds_in_parallel_never_exceed_what_was_paid(top_up, sandbox):
    paid_top_up(sandbox, organization=top_up.account.organization)  # the balance alone would allow twice as much

    found = outcomes(*times(6, lambda number: back(top_up, 20_000, key=f"r{number}")))

    assert sum(isinstance(each, Refund) for each in found) == 2
    assert {each.code for each in found if isinstance(each, Exception)} == {"too_much"}
    actions.sweep_refunds(at=DECEMBER)
    assert sum(theirs["amount"] for theirs in sandbox.objects("refund")) == 40_000
    assert ledger.check() == []


def test_the_database_holds_refunds_within_their_source(top_up):
    back(top_up, 40_000)

    with pytest.raises(InternalError, match="only 10000 is left"):
        Refund.objects.create(
            account=top_up.account, request_key="by hand", top_up=top_up, method="stripe", amount_minor=10_001,
            currency="CNY", created_at=DECEMBER,
        )  # fmt: skip


def test_the_same_request_is_the_same_refund(top_up):
    assert back(top_up, 100) == back(top_up, 100)
    assert books(top_up.account)[1] == 100


@pytest.mark.parametrize("hours", [1, 30], ids=["at-once", "after-the-keys-expired"])
@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "error", "error_after", "conflict", "limit"])
def test_every_fault_ends_with_the_money_sent_once(top_up, sandbox, kind, hours):
    back(top_up, 20_000)
    sandbox.faults.configure({"requests": [{"kind": kind, "times": 3, "method": "POST", "path": "/v1/refunds"}]})

    for attempt in range(6):
        actions.sweep_refunds(at=DECEMBER + attempt * HOUR)
        sandbox.advance_clock(hours * 3600)

    (theirs,) = sandbox.objects("refund")
    refund = Refund.objects.get()
    assert (refund.status, refund.reference, theirs["amount"]) == ("submitted", theirs["id"], 20_000)


class Killed(BaseException):
    """The worker died here."""


@pytest.mark.parametrize("hours", [0, 30], ids=["at-once", "after-the-keys-expired"])
@pytest.mark.parametrize("call", range(2))
def test_killed_after_any_call_and_repeated(top_up, sandbox, monkeypatch, call, hours):
    """First attempt: create. Its process dies before the call, or after it and before anything was written down."""
    back(top_up, 20_000)
    from billing.actions import refunds  # noqa: PLC0415

    real = refunds.stripe_gateway.create_refund

    def dying(**facts):
        if call:
            real(**facts)
        raise Killed

    monkeypatch.setattr(refunds.stripe_gateway, "create_refund", dying)
    with pytest.raises(Killed):
        actions.sweep_refunds(at=DECEMBER)
    monkeypatch.setattr(refunds.stripe_gateway, "create_refund", real)
    sandbox.advance_clock(hours * 3600)

    actions.sweep_refunds(at=DECEMBER)  # the dead attempt's lease still holds
    assert len(sandbox.objects("refund")) == call
    actions.sweep_refunds(at=DECEMBER + HOUR)

    assert [theirs["amount"] for theirs in sandbox.objects("refund")] == [20_000]
    assert Refund.objects.get().status == "submitted"


def test_several_workers_send_it_once(top_up, sandbox):
    refund = back(top_up, 20_000)

    outcomes(*times(4, lambda _n: actions.send_refund(refund_id=refund.pk, at=DECEMBER)))

    assert len(sandbox.objects("refund")) == 1
    assert Refund.objects.get().attempts == 1


def test_an_invoices_payment_goes_back_along_its_card(sandbox):
    invoice = paid_invoice()
    line = invoice.lines.get()
    actions.issue_credit_note(
        invoice=invoice, amounts={line.pk: 400}, destination="source", reason="outage", request_key="n", at=DECEMBER
    )
    actions.sweep_refunds(at=DECEMBER)

    done = settle(sandbox)

    assert (done.status, done.amount_minor, done.payment.reference) == ("succeeded", 400, done.payment.reference)
    assert sandbox.objects("charge")[0]["amount_refunded"] == 400
    assert books(invoice.account) == (0, 0, 600)
    assert ledger.check() == []


def test_finance_keeps_a_refund_that_nobody_sent_on_the_balance(top_up):
    refund = back(top_up, 20_000)

    actions.keep_on_balance(refund=refund, at=DECEMBER)

    assert books(top_up.account) == (50_000, 0, 50_000)
    with pytest.raises(actions.RefundRefused):
        actions.keep_on_balance(refund=refund, at=DECEMBER)


def test_once_stripe_was_asked_it_takes_its_course(top_up, sandbox):
    refund = back(top_up, 20_000)
    actions.sweep_refunds(at=DECEMBER)

    with pytest.raises(actions.RefundRefused):
        actions.keep_on_balance(refund=refund, at=DECEMBER)
    with pytest.raises(actions.RefundRefused):
        actions.confirm_bank_refund(refund=refund, reference="x", at=DECEMBER)
    assert books(top_up.account) == (30_000, 20_000, 50_000)
