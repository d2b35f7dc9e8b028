"""The books: every fact once, every set zero, nothing ever rewritten, every balance provable."""

from datetime import UTC, date, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from billing import actions, ledger
from billing.actions.accounts import lock_account
from billing.actions.releasing import mark_void
from billing.models import Book, ClosedMonth, Invoice, LedgerCheckpoint, LedgerEntry, Posting
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, order, rental, used
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db
Kind = Posting.Kind


@pytest.fixture
def account():
    return actions.account_of(organization=factories.organization())


def top_up(account, amount, fact, at=NOVEMBER):
    with transaction.atomic():
        lock_account(organization_id=account.organization_id)
        return ledger.post(
            account=account, kind=Kind.TOP_UP, fact=fact, currency="CNY", at=at,
            entries={Book.CASH: amount, Book.WALLET: -amount},
        )  # fmt: skip


def entries(posting):
    return dict(posting.entries.values_list("book", "amount_minor"))


def test_a_fact_is_posted_once(account):
    assert (top_up(account, 100, "a"), top_up(account, 100, "a"), top_up(account, 100, "b")) == (True, False, True)

    assert [entries(posting) for posting in Posting.objects.all()] == [{"cash": 100, "wallet": -100}] * 2
    assert (ledger.balance(account, Book.WALLET), ledger.balance(account, Book.CASH)) == (200, 200)
    assert ledger.check() == []


def test_a_set_that_does_not_sum_to_zero_is_refused_by_the_code_and_by_the_database(account):
    with pytest.raises(ValueError, match="does not sum to zero"), transaction.atomic():
        ledger.post(account=account, kind=Kind.TOP_UP, fact="a", currency="CNY", at=NOVEMBER, entries={Book.CASH: 100})
    top_up(account, 100, "b")
    posting = Posting.objects.get()
    with pytest.raises(DatabaseError, match="does not sum to zero"), transaction.atomic():
        LedgerEntry.objects.create(posting=posting, account=account, book=Book.TAX, amount_minor=1)

    assert (Posting.objects.count(), LedgerEntry.objects.count()) == (1, 2)


def test_a_fact_that_moves_nothing_is_not_written(account):
    assert top_up(account, 0, "a") is False
    assert Posting.objects.count() == 0


@pytest.mark.parametrize("rows", [Posting.objects, LedgerEntry.objects])
def test_nothing_posted_is_changed_or_deleted(account, rows):
    top_up(account, 100, "a")
    change = {"fact": "x"} if rows is Posting.objects else {"amount_minor": 5}

    with pytest.raises(DatabaseError), transaction.atomic():
        rows.all().update(**change)
    with pytest.raises(DatabaseError), transaction.atomic():
        rows.all()._raw_delete(rows.db)

    assert ledger.balance(account, Book.WALLET) == 100


def test_a_balance_is_the_same_with_and_without_a_checkpoint(account):
    other = actions.account_of(organization=factories.organization(name="乙"))
    top_up(account, 100, "a")
    top_up(other, 7, "b")
    assert ledger.move_checkpoints() == 2
    top_up(account, 30, "c")

    assert ledger.balances([account.pk, other.pk], Book.WALLET) == {account.pk: 130, other.pk: 7}
    assert ledger.move_checkpoints() == ledger.move_checkpoints() == 2
    assert ledger.balances([account.pk, other.pk], Book.WALLET) == {account.pk: 130, other.pk: 7}
    assert LedgerCheckpoint.objects.count() == 4
    assert ledger.check() == []


def test_an_invoice_is_posted_when_it_is_issued_paid_and_voided():
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)
    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    prepaid = actions.draft_order_invoice(order=order(invoice.organization), at=NOVEMBER)
    actions.record_payment(
        invoice=invoice, method="bank_transfer", reference="ICBC-1", amount_minor=600, currency="CNY",
        received_at=DECEMBER + HOUR,
    )  # fmt: skip
    mark_void(invoice_id=prepaid.pk, at=DECEMBER + HOUR)

    posted = {(one.kind, one.invoice_id): entries(one) for one in Posting.objects.all()}
    assert posted == {
        ("issue", invoice.pk): {"receivable": 1000, "revenue": -943, "tax": -57},
        ("payment", invoice.pk): {"cash": 600, "receivable": -600},
        ("issue", prepaid.pk): {"receivable": 128_000, "revenue": -120_755, "tax": -7245},
        ("void", prepaid.pk): {"receivable": -128_000, "revenue": 120_755, "tax": 7245},
    }
    assert ledger.balance(invoice.account, Book.RECEIVABLE) == 400
    assert ledger.trial_balance() == {"CNY": {"cash": 600, "receivable": 400, "revenue": -943, "tax": -57}}
    assert ledger.check() == []


def test_a_fact_of_a_closed_month_counts_in_the_first_open_one(account):
    ClosedMonth.objects.create(month=date(2026, 11, 1), closed_at=DECEMBER)
    assert top_up(account, 100, "late", at=NOVEMBER + HOUR)
    assert top_up(account, 100, "now", at=DECEMBER + 40 * HOUR)

    assert dict(Posting.objects.values_list("fact", "booked_on")) == {
        "late": date(2026, 12, 1),
        "now": date(2026, 12, 2),
    }


def test_the_database_keeps_a_closed_month_closed(account):
    ClosedMonth.objects.create(month=date(2026, 11, 1), closed_at=DECEMBER)

    with pytest.raises(DatabaseError, match="is closed"), transaction.atomic():
        Posting.objects.create(
            account=account, kind=Kind.TOP_UP, fact="x", currency="CNY", at=NOVEMBER, booked_on=date(2026, 11, 30)
        )
    assert Posting.objects.count() == 0


BREAKS = {
    "every posting has entries that sum to zero": "UPDATE billing_ledgerentry SET amount_minor = amount_minor + 1"
    " WHERE id = (SELECT min(id) FROM billing_ledgerentry)",
    "a checkpoint is the sum of what it stands for": "UPDATE billing_ledgercheckpoint SET amount_minor = 1"
    " WHERE id = (SELECT min(id) FROM billing_ledgercheckpoint)",
    "an issued invoice is posted with its total and tax": "UPDATE billing_posting SET invoice_id = NULL"
    " WHERE kind = 'issue'",
    "what an invoice was paid and credited is posted": "UPDATE billing_invoice SET paid_minor = 1"
    " WHERE status = 'issued'",
    "a posting is in its organization's currency": "UPDATE billing_posting SET currency = 'USD' WHERE kind = 'issue'",
    "entries stand on their posting's account": "UPDATE billing_ledgerentry SET account_id ="
    " (SELECT max(id) FROM billing_billingaccount) WHERE id = (SELECT min(id) FROM billing_ledgerentry)",
}


@pytest.mark.parametrize("rule", BREAKS)
def test_the_check_names_the_rule_and_the_first_wrong_row(rule, capsys):
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)
    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    actions.account_of(organization=factories.organization(name="乙"))
    ledger.move_checkpoints()
    call_command("check_ledger")
    assert "The books are right" in capsys.readouterr().out

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = 'replica'")  # what no code of ours can do
        cursor.execute(BREAKS[rule])
        cursor.execute("SET LOCAL session_replication_role = 'origin'")

    assert rule in [wrong.rule for wrong in ledger.check()]
    with pytest.raises(CommandError, match="broken"):
        call_command("check_ledger")
    assert invoice.number in Invoice.objects.values_list("number", flat=True)


@pytest.mark.django_db(transaction=True)
def test_sixty_four_at_once_on_one_account_lose_nothing():
    account = actions.account_of(organization=factories.organization())

    at_once(*times(64, lambda n: top_up(account, n + 1, str(n), at=datetime(2026, 11, 5, tzinfo=UTC))))

    assert ledger.balance(account, Book.WALLET) == sum(range(1, 65))
    assert (Posting.objects.count(), ledger.check()) == (64, [])


@pytest.mark.django_db(transaction=True)
def test_a_checkpoint_moved_while_others_post_stands_for_what_is_there():
    account = actions.account_of(organization=factories.organization())
    posts = times(16, lambda n: top_up(account, 10, str(n), at=NOVEMBER + timedelta(minutes=n)))
    moves = times(8, lambda _n: ledger.move_checkpoints())

    at_once(*posts, *moves)

    assert ledger.balance(account, Book.WALLET) == 160
    assert ledger.check() == []
