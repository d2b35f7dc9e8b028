"""Closing a month: once, in order, with the sums it had; what comes later counts in the open one."""

from datetime import date

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from billing import actions, ledger
from billing.models import ClosedMonth, Posting
from tests.billing.builders import DECEMBER, HOUR, JANUARY, NOVEMBER, rental, used

pytestmark = pytest.mark.django_db
TEN = 10 * HOUR


@pytest.fixture
def invoice():
    """Issued on 1 December in Shanghai."""
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)
    (made,) = actions.draft_usage_invoices(at=DECEMBER + TEN).invoices
    return made


def pay(invoice, amount, at):
    actions.record_payment(
        invoice=invoice, method="bank_transfer", reference=f"ICBC-{at}", amount_minor=amount, currency="CNY",
        received_at=at,
    )  # fmt: skip


def test_a_closed_month_keeps_its_sums(invoice):
    closed = actions.close_month(month=date(2026, 12, 1), at=JANUARY + HOUR)
    pay(invoice, 400, DECEMBER + 20 * HOUR)  # came to light afterwards

    assert closed.totals == {"CNY": {"receivable": 1000, "revenue": -943, "tax": -57}}
    assert ledger.trial_balance(since=date(2026, 12, 1), until=date(2027, 1, 1)) == closed.totals
    assert Posting.objects.get(kind="payment").booked_on == date(2027, 1, 1)
    assert actions.close_month(month=date(2026, 12, 1), at=JANUARY + 5 * HOUR) == closed


@pytest.mark.parametrize(
    ("month", "at", "code"),
    [
        (date(2026, 12, 2), JANUARY, "no_month"),
        (date(2026, 12, 1), JANUARY - HOUR, "not_over"),
        (date(2027, 1, 1), JANUARY + 31 * 24 * HOUR, "not_next"),
        (date(2026, 11, 1), JANUARY, "not_next"),
    ],
)
def test_what_cannot_be_closed_is_refused(invoice, month, at, code):
    with pytest.raises(actions.CloseRefused) as refusal:
        actions.close_month(month=month, at=at)

    assert (refusal.value.code, ClosedMonth.objects.count()) == (code, 0)


def test_books_that_do_not_prove_are_not_closed(invoice):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = 'replica'")
        cursor.execute("UPDATE billing_ledgerentry SET amount_minor = amount_minor + 1 WHERE book = 'tax'")
        cursor.execute("SET LOCAL session_replication_role = 'origin'")

    with pytest.raises(actions.CloseRefused, match="账簿核对不平"):
        actions.close_month(month=date(2026, 12, 1), at=JANUARY)
    assert ClosedMonth.objects.count() == 0


def test_the_command_names_the_next_month_and_closes_it(invoice, capsys):
    call_command("close_month")
    assert capsys.readouterr().out == "Next to close: 2026-12\n"
    with pytest.raises(CommandError, match="该月尚未结束"):
        call_command("close_month", "2099-12")
