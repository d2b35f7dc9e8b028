"""Baskets and requests at once: each order has all of its lines, a double click makes one."""

import pytest

from catalog.models import Host
from orders import actions
from orders.actions import Contact
from orders.basket import Item
from orders.models import Order, Quote
from tests import factories
from tests.factories import NOON
from tests.orders.builders import shop as build_shop
from tests.support.threads import outcomes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def shop():
    return build_shop()


def basket(shop, key, *offers, term="month"):
    wanted = [
        actions.Wanted(
            offer, shop.image, 1, term, 1, offer.prices.get(meter={"hour": "card_hour"}.get(term, term)).rate
        )
        for offer in offers
    ]

    def place():
        return actions.place_basket(
            organization=shop.organization, project=shop.project, actor=shop.owner, request_key=key, wanted=wanted,
            ssh_keys=[shop.key], at=NOON,
        )  # fmt: skip

    return place


@pytest.mark.parametrize("term", ["hour", "month"])
def test_a_double_click_makes_one_order(shop, term):
    other = factories.offer(cards=8)

    results = outcomes(*[basket(shop, "once", shop.offer, other, term=term)] * 4)

    order = Order.objects.get()
    assert [getattr(result, "pk", result) for result in results] == [order.pk] * 4
    assert order.lines.count() == 2
    assert shop.held == 2


@pytest.mark.parametrize("again", range(3))
def test_crossed_baskets_never_lock_each_other_and_each_is_whole(shop, again):
    """Two scarce offers, wanted in both orders: whoever gets one gets the other."""
    one, two = factories.offer(cards=8), factories.offer(cards=8)

    results = outcomes(*(basket(shop, f"k{n}", *((one, two) if n % 2 else (two, one))) for n in range(4)))

    placed = [result for result in results if isinstance(result, Order)]
    assert len(placed) == 1
    assert all(isinstance(result, Order | actions.SoldOut) for result in results)
    assert [order.lines.count() for order in Order.objects.all()] == [2]
    assert not Host.objects.filter(pool__in=[one.pool, two.pool], cards_free__gt=0).exists()


def test_sending_a_request_twice_at_once_makes_one(shop):
    def ask():
        return actions.request_quote(
            organization=shop.organization, actor=shop.owner, currency="CNY", need="gpu", note="8 cards",
            contact=Contact("", shop.organization.name, shop.owner.email, ""), request_key="once",
            items=[Item(shop.offer.slug, "month", 1, 1)], at=NOON,
        )  # fmt: skip

    results = outcomes(*[ask] * 4)

    quote = Quote.objects.get()
    assert [getattr(result, "pk", result) for result in results] == [quote.pk] * 4
    assert quote.lines.count() == 1
    assert quote.events.count() == 1
