"""Invoices are paid from gifted credit, then from the balance, never more than is due or there."""

import pytest

from billing import actions, ledger
from billing.models import Book, Gift, Payment
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, order, rental, used

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def usage():
    """¥10.00 of usage, invoiced."""
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)
    (made,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    return made


@pytest.fixture
def prepaid():
    """An order over ¥1,280.00, invoiced."""
    return actions.draft_order_invoice(order=order(), at=NOVEMBER)


def pay_in(of, amount, intent="pi_1"):
    top_up = actions.begin_top_up(organization=of, amount_minor=max(amount, 400), request_key=intent, at=NOVEMBER)
    actions.record_top_up(
        top_up_id=top_up.pk, payment_intent=intent, amount_minor=amount, currency=of.currency, at=NOVEMBER
    )


def give(of, amount, key="g"):
    actions.grant_gift(organization=of, amount_minor=amount, reason="Welcome", request_key=key, at=NOVEMBER)


def books(of):
    account = actions.account_of(organization=of)
    return {book.value: ledger.balance(account, book) for book in (Book.WALLET, Book.GIFT, Book.RECEIVABLE)}


def payments():
    return list(Payment.objects.order_by("pk").values_list("method", "amount_minor"))


def test_gifts_go_first_and_the_rest_comes_from_the_balance(usage):
    give(usage.organization, 300)
    pay_in(usage.organization, 5_000)

    assert actions.pay_from_wallet(invoice=usage, at=DECEMBER) == 1_000

    assert (usage.status, usage.paid_minor, usage.gift_minor) == ("paid", 1_000, 300)
    assert payments() == [("gift", 300), ("wallet", 700)]
    assert books(usage.organization) == {"wallet": 4_300, "gift": 0, "receivable": 0}
    assert Gift.objects.get().spent_minor == 300
    assert ledger.check() == []


def test_usage_is_paid_in_part_and_the_rest_later(usage):
    pay_in(usage.organization, 400)
    assert actions.pay_from_wallet(invoice=usage, at=DECEMBER) == 400
    assert (usage.outstanding_minor, usage.is_unpaid) == (600, True)

    pay_in(usage.organization, 600, "pi_2")
    assert actions.pay_from_wallet(invoice=usage, at=DECEMBER) == 600

    assert usage.status == "paid"
    assert payments() == [("wallet", 400), ("wallet", 600)]
    assert books(usage.organization) == {"wallet": 0, "gift": 0, "receivable": 0}
    assert ledger.check() == []


def test_a_prepaid_order_is_paid_whole_or_not_at_all(prepaid):
    pay_in(prepaid.organization, 127_999)

    with pytest.raises(actions.BalanceRefused) as refusal:
        actions.pay_from_wallet(invoice=prepaid, at=NOVEMBER)
    assert refusal.value.code == "balance_too_low"
    assert payments() == []
    assert books(prepaid.organization) == {"wallet": 127_999, "gift": 0, "receivable": 128_000}

    give(prepaid.organization, 1)
    assert actions.pay_from_wallet(invoice=prepaid, at=NOVEMBER) == 128_000
    prepaid.order.refresh_from_db()
    assert (prepaid.status, prepaid.order.status) == ("paid", "confirmed")
    assert ledger.check() == []


def test_nothing_is_paid_with_nothing(usage):
    with pytest.raises(actions.BalanceRefused) as refusal:
        actions.pay_from_wallet(invoice=usage, at=DECEMBER)

    assert (refusal.value.code, payments()) == ("balance_too_low", [])


def test_a_paid_invoice_takes_nothing_more(usage):
    pay_in(usage.organization, 5_000)
    actions.pay_from_wallet(invoice=usage, at=DECEMBER)

    with pytest.raises(actions.BalanceRefused) as refusal:
        actions.pay_from_wallet(invoice=usage, at=DECEMBER)

    assert refusal.value.code == "not_unpaid"
    assert books(usage.organization)["wallet"] == 4_000


def test_a_balance_below_zero_pays_nothing(usage):
    account = actions.account_of(organization=usage.organization)
    settle_below_zero(account)
    give(usage.organization, 300)

    assert actions.pay_from_wallet(invoice=usage, at=DECEMBER) == 300

    assert books(usage.organization)["wallet"] == -50
    assert usage.outstanding_minor == 700


def settle_below_zero(account):
    from django.db import transaction  # noqa: PLC0415

    from billing.models import Posting  # noqa: PLC0415

    with transaction.atomic():
        ledger.post(
            account=account, kind=Posting.Kind.CORRECTION, fact="test", currency="CNY", at=NOVEMBER,
            entries={Book.WALLET: 50, Book.CASH: -50},
        )  # fmt: skip


def test_another_organizations_money_is_not_touched(usage):
    other = factories.organization(name="other")
    pay_in(other, 5_000)

    with pytest.raises(actions.BalanceRefused):
        actions.pay_from_wallet(invoice=usage, at=DECEMBER)

    assert books(other)["wallet"] == 5_000
