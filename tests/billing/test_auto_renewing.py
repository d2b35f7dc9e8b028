"""A term that renews itself: from day −7 at nine in the morning, by the balance only, once."""

from datetime import UTC, datetime, timedelta

import pytest

from billing import actions, ledger
from billing.actions.auto_renewing import renew_terms
from billing.models import Book, Invoice
from orders import actions as orders
from orders.models import Extension, Order, Subscription
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db(transaction=True)
# The term of NOON's month ends at 00:00 of 31 December in Shanghai; seven days before are 24 December, 00:00.
ENDS = datetime(2026, 12, 30, 16, tzinfo=UTC)
NINE = datetime(2026, 12, 24, 1, tzinfo=UTC)


@pytest.fixture
def term(db):
    organization = factories.organization()
    order = factories.order(organization, factories.offer(), term="month")
    orders.confirm(order_id=order.pk, at=NOON)
    made = Subscription.objects.get(order_line__order=order)
    orders.start_term(subscription_id=made.pk, started_at=NOON)
    orders.set_auto_renew(subscription_id=made.pk, on=True)
    made.refresh_from_db()
    assert made.ends_at == ENDS
    return made


def pay_in(term, amount):
    made = actions.begin_top_up(organization=term.organization, amount_minor=amount, request_key="pi", at=NOON)
    actions.record_top_up(top_up_id=made.pk, payment_intent="pi", amount_minor=amount, currency="CNY", at=NOON)


def balance(term) -> int:
    return ledger.balance(actions.account_of(organization=term.organization), Book.WALLET)


def test_it_is_extended_and_paid_once(term):
    pay_in(term, 200_000)
    assert renew_terms(at=NINE - timedelta(seconds=1)) == 0

    assert renew_terms(at=NINE) == 1
    assert renew_terms(at=NINE) == 0
    assert renew_terms(at=NINE + timedelta(days=1)) == 0

    term.refresh_from_db()
    order = Order.objects.get(kind="renewal")
    assert term.ends_at == datetime(2027, 1, 30, 16, tzinfo=UTC)
    assert (order.status, order.placed_by, Extension.objects.count()) == ("active", None, 1)
    assert Invoice.objects.get(order=order).status == "paid"
    assert balance(term) == 72_000


def test_a_balance_that_is_too_small_orders_nothing_and_is_asked_again(term):
    pay_in(term, 100_000)

    assert renew_terms(at=NINE) == 0

    assert Order.objects.filter(kind="renewal").count() == Invoice.objects.count() == 0
    assert balance(term) == 100_000
    term.refresh_from_db()
    assert term.ends_at == ENDS


def test_one_that_does_not_renew_itself_is_left_alone(term):
    pay_in(term, 200_000)
    orders.set_auto_renew(subscription_id=term.pk, on=False)

    assert renew_terms(at=NINE) == 0


def test_an_order_under_way_comes_first(term):
    pay_in(term, 200_000)
    orders.extend_term(
        subscription_id=term.pk, actor=None, request_key="mine", term="month", periods=1,
        seen_rate=term.rate, at=NINE - timedelta(minutes=5),
    )  # fmt: skip

    assert renew_terms(at=NINE) == 0
