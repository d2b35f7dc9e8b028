"""Many hands on one balance at the same time: no posting is lost, nothing is booked twice, nothing is overspent."""

import pytest
from django.utils import timezone

from billing import actions, ledger
from billing.models import Book, Gift, Posting, TopUp
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, rental, used
from tests.billing.conftest import _no_waiting, sandbox  # noqa: F401 - fixtures
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db(transaction=True)


def balance(of, book=Book.WALLET):
    return ledger.balance(actions.account_of(organization=of), book)


def begun(of, number, amount):
    return actions.begin_top_up(organization=of, amount_minor=amount, request_key=f"k{number}", at=NOVEMBER)


def credit(top_up, intent):
    return actions.record_top_up(
        top_up_id=top_up.pk, payment_intent=intent, amount_minor=top_up.amount_minor, currency="CNY", at=NOVEMBER
    )


def test_sixty_four_top_ups_at_once_lose_none():
    lab = factories.organization()
    rows = [begun(lab, number, 1_000 + number) for number in range(64)]

    at_once(*times(64, lambda number: credit(rows[number], f"pi_{number}")))

    assert balance(lab) == sum(range(1_000, 1_064))
    assert Posting.objects.count() == 64
    assert ledger.check() == []


def test_one_top_up_settled_by_many_is_credited_once(sandbox):  # noqa: F811
    lab = factories.organization()
    made = actions.open_top_up(
        top_up_id=actions.begin_top_up(organization=lab, amount_minor=5_000, request_key="k", at=timezone.now()).pk,
        success_url="https://example.com/a",
        cancel_url="https://example.com/b",
        at=timezone.now(),
    )
    sandbox.pay_checkout(made.stripe_session_id)

    at_once(*times(6, lambda _n: actions.settle_top_up(top_up_id=made.pk, at=timezone.now())))

    assert (balance(lab), Posting.objects.count(), TopUp.objects.count()) == (5_000, 1, 1)


def test_one_form_pressed_at_once_is_one_top_up():
    lab = factories.organization()

    at_once(*times(6, lambda _n: begun(lab, 1, 5_000)))

    assert TopUp.objects.count() == 1


def test_one_voucher_is_redeemed_once_by_whoever_is_first():
    labs = [factories.organization(name=f"lab{number}") for number in range(6)]
    (voucher,) = actions.create_vouchers(
        count=1, amount_minor=700, currency="CNY", reason="Fair", valid_until=DECEMBER, at=NOVEMBER
    )

    refused = []

    def redeem(number):
        try:
            actions.redeem_voucher(organization=labs[number], code=voucher.code, at=NOVEMBER)
        except actions.VoucherRefused as refusal:
            refused.append(refusal.code)

    at_once(*times(6, redeem))

    assert refused == ["used"] * 5

    assert sorted(balance(lab, Book.GIFT) for lab in labs) == [0, 0, 0, 0, 0, 700]
    assert Gift.objects.count() == 1


def test_one_balance_pays_no_more_than_it_holds():
    machine = rental()
    lab = machine.organization
    used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)
    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    credit(begun(lab, 1, 700), "pi_1")

    def pay(_number):
        try:
            actions.pay_from_wallet(invoice=invoice, at=DECEMBER)
        except actions.BalanceRefused:
            return

    at_once(*times(6, pay))

    invoice.refresh_from_db()
    assert (invoice.paid_minor, balance(lab)) == (700, 0)
    assert ledger.check() == []


def test_one_transfer_matched_at_once_is_credited_once():
    labs = [factories.organization(name=f"lab{number}") for number in range(4)]
    line = actions.StatementLine(
        reference="ICBC-9", payer="x", amount_minor=900, currency="CNY", remark="", received_at=NOVEMBER
    )
    transfer, _new = actions.record_transfer(line=line, at=NOVEMBER)

    refused = []

    def match(number):
        try:
            actions.match_transfer(transfer=transfer, organization=labs[number], at=NOVEMBER)
        except actions.TransferRefused as refusal:
            refused.append(refusal.code)

    at_once(*times(4, match))

    assert refused == ["decided"] * 3
    assert sorted(balance(lab) for lab in labs) == [0, 0, 0, 900]
