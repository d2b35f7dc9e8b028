"""A term that ended early is credited to the balance, once."""

import pytest

from billing import actions, ledger
from billing.models import Book, CreditNote
from orders.models import TermRefund, TermRefundLine
from tests.billing.builders import DECEMBER, NOVEMBER, order, rental
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def owed():
    """¥500 of a month of ¥1280 is owed back."""
    ended = order()
    invoice = actions.draft_order_invoice(order=ended, at=NOVEMBER)
    actions.record_payment(
        invoice=invoice, method="bank_transfer", reference="IN-1", amount_minor=128_000, currency="CNY",
        received_at=NOVEMBER,
    )  # fmt: skip
    refund = TermRefund.objects.create(
        subscription=rental(ended.organization).subscription, organization=ended.organization, rule="prorated",
        currency="CNY", paid_minor=128_000, amount_minor=50_000, at=DECEMBER,
    )  # fmt: skip
    return TermRefundLine.objects.create(
        refund=refund, order_line=ended.lines.get(), paid_minor=128_000, amount_minor=50_000
    )


def test_it_is_on_the_balance_once(owed):
    assert at_once(*times(4, lambda _n: actions.credit_term_refunds(at=DECEMBER))).count(1) == 1

    note = CreditNote.objects.get()
    owed.refresh_from_db()
    assert (note.total_minor, note.destination, owed.credited_at) == (50_000, "balance", DECEMBER)
    assert ledger.balance(note.account, Book.WALLET) == 50_000
    assert actions.credit_term_refunds(at=DECEMBER) == 0
    assert ledger.check() == []


def test_what_finance_has_credited_already_is_not_paid_twice(owed):
    line = owed.order_line.invoice_lines.get()
    actions.issue_credit_note(
        invoice=line.invoice,
        amounts={line.pk: 100_000},
        destination="balance",
        reason="x",
        request_key="n",
        at=DECEMBER,
    )

    actions.credit_term_refunds(at=DECEMBER)

    assert sorted(CreditNote.objects.values_list("total_minor", flat=True)) == [28_000, 100_000]
    owed.refresh_from_db()
    assert owed.credited_at == DECEMBER
