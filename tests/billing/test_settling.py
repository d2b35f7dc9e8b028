"""Prepaid accounts: what runs is paid while it runs, and what was taken ends equal to the invoice."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from billing import actions, ledger, queries
from billing.actions.accounts import lock_account
from billing.models import Book, Invoice, Payment, Posting, SettledGift, SettledUsage
from rentals.models import Rental
from tests.billing.builders import DECEMBER, HOUR, JANUARY, NOVEMBER, rental, used
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db


def prepaid(**terms):
    """A machine of an organization that pays from its balance."""
    machine = rental(**terms)
    account = actions.account_of(organization=machine.organization)
    type(account).objects.filter(pk=account.pk).update(mode="wallet")
    account.refresh_from_db()
    return machine, account


def top_up(account, amount):
    with transaction.atomic():
        lock_account(organization_id=account.organization_id)
        ledger.post(
            account=account, kind=Posting.Kind.TOP_UP, fact=f"t-{amount}", currency="CNY", at=NOVEMBER,
            entries={Book.CASH: amount, Book.WALLET: -amount},
        )  # fmt: skip


def run_since(machine, since):
    Rental.objects.filter(pk=machine.pk).update(meter="card_hour", metered_from=since)


def test_usage_is_taken_while_it_runs_and_only_once():
    machine, account = prepaid()
    top_up(account, 10_000)
    run_since(machine, NOVEMBER)

    actions.settle_usage(at=NOVEMBER + HOUR)
    actions.settle_usage(at=NOVEMBER + HOUR)
    assert ledger.balance(account, Book.WALLET) == 9_750
    actions.settle_usage(at=NOVEMBER + 3 * HOUR)

    assert ledger.balance(account, Book.WALLET) == 9_250
    assert SettledUsage.objects.get().amount_minor == 750
    assert (Posting.objects.filter(kind="settle").count(), ledger.check()) == (2, [])


def test_the_balance_may_fall_below_zero_by_usage():
    machine, account = prepaid()
    used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)

    actions.settle_usage(at=NOVEMBER + 5 * HOUR)

    assert ledger.balance(account, Book.WALLET) == -1000
    assert queries.standing_of(account.organization, at=NOVEMBER + 5 * HOUR).available_minor == 10_000_000 - 1000


def test_who_is_billed_by_the_month_keeps_the_balance():
    machine = rental()
    account = actions.account_of(organization=machine.organization)
    used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)

    assert (account.mode, actions.settle_usage(at=DECEMBER)) == ("credit", 0)
    assert Posting.objects.count() == 0


def test_the_month_is_paid_with_what_was_taken():
    machine, account = prepaid()
    top_up(account, 10_000)
    used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)
    actions.settle_usage(at=NOVEMBER + 5 * HOUR)
    used(machine, DECEMBER - HOUR, DECEMBER)
    used(machine, DECEMBER, DECEMBER + 2 * HOUR)

    (invoice,) = actions.draft_usage_invoices(at=DECEMBER + 2 * HOUR).invoices

    invoice.refresh_from_db()
    assert (invoice.status, invoice.total_minor, invoice.paid_minor, invoice.gift_minor) == ("paid", 1250, 1250, 0)
    assert list(invoice.payments.values_list("method", "amount_minor")) == [("wallet", 1250)]
    assert ledger.balance(account, Book.WALLET) == 10_000 - 1250 - 500
    assert [(one.month, one.amount_minor) for one in SettledUsage.objects.all()] == [(DECEMBER, 500)]
    assert (ledger.balance(account, Book.RECEIVABLE), ledger.check()) == (0, [])
    assert [event.status for event in invoice.events.all()] == ["issued", "paid"]


def test_gifts_are_spent_first_and_stand_on_the_invoice():
    machine, account = prepaid()
    top_up(account, 10_000)
    actions.grant_gift(
        organization=account.organization, amount_minor=700, reason="trial", request_key="g", at=NOVEMBER,
        actor=account.organization.members.first(), expires_at=None,
    )  # fmt: skip
    used(machine, NOVEMBER, NOVEMBER + 2 * HOUR)
    actions.settle_usage(at=NOVEMBER + 3 * HOUR)
    used(machine, NOVEMBER + 4 * HOUR, NOVEMBER + 6 * HOUR)

    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices

    assert (invoice.total_minor, invoice.gift_minor, invoice.status) == (1000, 700, "paid")
    assert sorted(invoice.payments.values_list("method", "amount_minor")) == [("gift", 700), ("wallet", 300)]
    assert (ledger.balance(account, Book.GIFT), ledger.balance(account, Book.WALLET)) == (0, 9_700)
    assert (SettledGift.objects.count(), ledger.check()) == (0, [])


def test_a_correction_gives_back_what_was_taken():
    machine, account = prepaid()
    wrong = used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)
    actions.settle_usage(at=NOVEMBER + 5 * HOUR)
    used(machine, NOVEMBER, NOVEMBER + 4 * HOUR, reverses=wrong)

    actions.settle_usage(at=NOVEMBER + 6 * HOUR)

    assert (ledger.balance(account, Book.WALLET), ledger.check()) == (0, [])
    assert actions.draft_usage_invoices(at=DECEMBER).invoices == []


def test_a_prepaid_month_of_a_few_cents_is_invoiced_because_the_balance_pays():
    machine, account = prepaid(rate="0.03")
    used(machine, NOVEMBER, NOVEMBER + HOUR)

    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices

    assert (invoice.total_minor, invoice.status, ledger.balance(account, Book.WALLET)) == (3, "paid", -3)
    assert ledger.check() == []


def test_what_a_customer_with_a_limit_has_paid_ahead_pays_the_month():
    machine = rental()
    account = actions.account_of(organization=machine.organization)
    top_up(account, 400)
    used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)

    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices

    assert (invoice.status, invoice.paid_minor, invoice.outstanding_minor) == ("issued", 400, 600)
    assert (ledger.balance(account, Book.WALLET), ledger.balance(account, Book.RECEIVABLE)) == (0, 600)
    assert ledger.check() == []


def test_leaving_the_balance_gives_back_what_was_taken_of_the_month():
    machine, account = prepaid()
    top_up(account, 10_000)
    used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)
    actions.settle_usage(at=NOVEMBER + 5 * HOUR)

    actions.set_mode(organization=account.organization, mode="credit", at=NOVEMBER + 6 * HOUR)

    account.refresh_from_db()
    assert (account.mode, ledger.balance(account, Book.WALLET)) == ("credit", 10_000)
    assert (SettledUsage.objects.count(), ledger.check()) == (0, [])


@pytest.mark.django_db(transaction=True)
def test_settling_and_billing_at_once_takes_every_second_once():
    machine, account = prepaid()
    top_up(account, 10_000)
    for hour in range(10):
        used(machine, NOVEMBER + hour * HOUR, NOVEMBER + (hour + 1) * HOUR)

    settles = times(6, lambda _n: actions.settle_usage(at=DECEMBER))
    bills = times(3, lambda _n: actions.draft_usage_invoices(at=DECEMBER))
    at_once(*settles, *bills)

    invoice = Invoice.objects.get()
    assert (invoice.total_minor, invoice.status) == (2500, "paid")
    assert Payment.objects.get().amount_minor == 2500
    assert (ledger.balance(account, Book.WALLET), ledger.check()) == (7_500, [])


class Steps(TestCase):
    @settings(deadline=None, max_examples=25)
    @given(
        st.lists(st.integers(1, 26 * 3600), min_size=1, max_size=6),
        st.decimals("0.0001", "99", places=4),
        st.integers(1, 8),
    )
    def test_however_it_is_cut_what_was_taken_is_the_line(self, pieces, rate, cards):
        machine, account = prepaid(rate=str(rate), cards=cards)
        start = NOVEMBER
        for seconds in pieces:
            end = start + timedelta(seconds=seconds)
            used(machine, start, end)
            start = end
            actions.settle_usage(at=start)
            assert ledger.check() == []
        exact = Decimal(sum(pieces)) * rate * cards * 100 / 3600
        total = int(exact.quantize(Decimal(1), rounding="ROUND_HALF_UP"))

        assert ledger.balance(account, Book.WALLET) == -total
        actions.draft_usage_invoices(at=JANUARY)
        assert sum(Invoice.objects.filter(account=account).values_list("total_minor", flat=True)) == total
        assert (ledger.balance(account, Book.WALLET), ledger.check()) == (-total, [])
