"""An order that begins at once and one that begins when it is paid get the same subscriptions from the same line."""

from __future__ import annotations

from typing import Any

import pytest

from orders.actions.subscriptions import open_subscriptions
from orders.models import Order, Subscription
from tests import factories
from tests.orders.builders import Shop

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def rules(settings):
    settings.HEADROOM_HOURS, settings.TAX_PERCENT = 72, "6.5"


def rows(order: Order) -> list[dict[str, Any]]:
    """Every column of the order's subscriptions, in the order of its units, but for what names the row itself."""
    found = Subscription.objects.filter(order_line__order=order).order_by("order_line", "unit").values()
    return [{name: value for name, value in row.items() if name not in ("id", "key")} for row in found]


def written_again(order: Order) -> list[dict[str, Any]]:
    """The rows that the other way of writing them makes of the order's lines."""
    Subscription.objects.filter(order_line__order=order).delete()
    open_subscriptions(order, order.lines.order_by("pk"))
    return rows(order)


def offer(shop: Shop, **fields: Any):
    currency, disk_gb = shop.organization.currency, fields.pop("disk_gb", 100)
    made = factories.offer(factories.pool(hosts=3), currency=currency, **fields)
    made.disk_gb = disk_gb
    made.save()
    return made


@pytest.mark.parametrize("currency", ["CNY", "USD"])
@pytest.mark.parametrize(
    ("offered", "quantity"),
    [
        ({"cards": 1}, 1),
        ({"cards": 2, "hour": "2.4999999999", "disk": "0.0000000001"}, 5),
        ({"cards": 8, "hour": "0.0003472222", "disk_gb": 30_720}, 3),
        ({"cards": 3, "hour": "199.99", "disk_gb": None}, 2),
        ({"cards": 4, "hour": "0", "disk": "0"}, 2),
    ],
)
def test_hourly_subscriptions_written_with_the_order_are_those_a_payment_would_open(shop, currency, offered, quantity):
    shop.organization = factories.organization(shop.owner, currency=currency, credit_minor=10_000_000_000)
    shop.project, shop.key = shop.organization.projects.get(), factories.ssh_key(shop.organization)

    order = shop.place(offer=offer(shop, **offered), quantity=quantity)

    placed = rows(order)
    assert [row["unit"] for row in placed] == sorted(order.lines.get().units)
    assert placed == written_again(order)
    assert sum(row["headroom_minor"] for row in placed) == shop.committed


@pytest.mark.parametrize(("term", "periods"), [("month", 3), ("year", 2)])
def test_a_term_that_costs_nothing_begins_at_once_with_the_same_subscriptions(shop, term, periods):
    order = shop.place(offer=offer(shop, cards=2, month="0", year="0"), term=term, periods=periods, quantity=2)

    placed = rows(order)
    assert [(row["term"], row["periods"], row["headroom_minor"]) for row in placed] == [(term, periods, 0)] * 2
    assert placed == written_again(order)
