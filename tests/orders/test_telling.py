"""What customers are told of orders and quotes: with the fact, once, and not without it."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import transaction

from accounts.models import Notification
from orders import actions
from tests.factories import NOON
from tests.support.threads import at_once, outcomes, times

pytestmark = pytest.mark.django_db
LATER = NOON + timedelta(minutes=30)


def told():
    return list(Notification.objects.order_by("pk").values_list("kind", "fact", "params", "page", "page_args"))


@pytest.fixture
def expiring(shop, settings):
    settings.ORDER_HOLD_MINUTES = 30
    order = shop.place(term="month")
    assert actions.begin_expiring(at=LATER) == [order.pk]
    return order


def test_an_order_that_nobody_paid_is_told_of_once_its_cards_are_free(expiring):
    assert told() == []

    for _time in range(2):
        actions.cancel_unpaid(order_id=expiring.pk, at=LATER)

    assert told() == [
        ("hold_expired", str(expiring.key), {"number": expiring.number}, "orders:detail", [str(expiring.key)])
    ]


def test_an_order_that_was_paid_after_all_is_told_nobody(expiring):
    actions.confirm(order_id=expiring.pk, at=LATER)
    with pytest.raises(actions.IllegalMove):
        actions.cancel_unpaid(order_id=expiring.pk, at=LATER)

    assert told() == []


def test_an_order_that_the_customer_cancelled_is_no_news(shop):
    order = shop.place(term="month")
    actions.cancel_order(order_id=order.pk, actor=shop.owner, at=NOON)

    actions.cancel_unpaid(order_id=order.pk, at=NOON)

    assert told() == []


def test_a_cancellation_that_is_rolled_back_tells_nobody(expiring):
    with transaction.atomic():
        actions.cancel_unpaid(order_id=expiring.pk, at=LATER)
        transaction.set_rollback(True)

    assert told() == []


@pytest.mark.django_db(transaction=True)
def test_an_order_cancelled_by_many_is_told_of_once(shop):
    order = shop.place(term="month")
    actions.begin_expiring(at=NOON + timedelta(days=1))

    at_once(*times(5, lambda _n: actions.cancel_unpaid(order_id=order.pk, at=LATER)))

    assert len(told()) == 1


# --- quotes ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def draft(shop):
    return drafted(shop)


def drafted(shop):
    quote = actions.create_quote(
        organization=shop.organization, actor=shop.owner, valid_until=NOON + timedelta(days=7), at=NOON
    )
    actions.add_quote_line(
        quote_id=quote.pk, offer=shop.offer, image=shop.image, quantity=1, term="month", periods=1,
        discount_percent=Decimal(0), at=NOON,
    )  # fmt: skip
    return quote


def test_a_quote_is_told_of_when_it_is_sent_with_its_secret_link(shop, draft):
    assert told() == []

    actions.send_quote(quote_id=draft.pk, actor=shop.owner, at=NOON)
    with pytest.raises(actions.IllegalQuoteMove):
        actions.send_quote(quote_id=draft.pk, actor=shop.owner, at=NOON)

    figures = {"number": draft.number, "date": "2026-12-07 12:00"}
    assert told() == [("quote_sent", str(draft.key), figures, "orders:quote", [draft.token])]


def test_the_next_version_is_told_of_as_such(shop, draft):
    actions.send_quote(quote_id=draft.pk, actor=shop.owner, at=NOON)
    successor = actions.revise_quote(quote_id=draft.pk, actor=shop.owner, at=NOON)

    actions.send_quote(quote_id=successor.pk, actor=shop.owner, at=NOON)

    assert [params["number"] for _kind, _fact, params, *_page in told()] == [draft.number, f"{draft.number} v2"]


def test_a_quote_that_cannot_be_sent_is_told_nobody(shop, draft):
    with pytest.raises(actions.QuoteRefused):
        actions.send_quote(quote_id=draft.pk, actor=shop.owner, at=NOON + timedelta(days=7))

    assert told() == []


@pytest.mark.django_db(transaction=True)
def test_a_quote_sent_twice_at_once_is_told_of_once(shop):
    quote = drafted(shop)

    outcomes(*times(4, lambda _n: actions.send_quote(quote_id=quote.pk, actor=shop.owner, at=NOON)))

    assert len(told()) == 1
