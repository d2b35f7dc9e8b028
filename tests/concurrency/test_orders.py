"""Two at once: one order from a double click, headroom never overdrawn, one answer to a quote."""

from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.models import CreditLine
from catalog.models import Allocation, Host
from orders import actions
from orders.models import Order, Quote, Subscription
from tests import factories
from tests.factories import NOON
from tests.orders.builders import shop as build_shop
from tests.support.threads import outcomes

pytestmark = pytest.mark.django_db(transaction=True)
LATER = NOON + timedelta(hours=1)


@pytest.fixture(autouse=True)
def rules(settings):
    settings.HEADROOM_HOURS = 24
    settings.ORDER_HOLD_MINUTES = 30


@pytest.fixture
def shop():
    return build_shop()


@pytest.mark.parametrize("term", ["hour", "month"])
@pytest.mark.parametrize("quantity", [1, 4])  # four units are all there are: the second click finds nothing free
@pytest.mark.parametrize("click", range(3))
def test_a_double_click_makes_one_order(shop, term, quantity, click):
    wish = shop.wish(term=term, quantity=quantity)

    results = outcomes(*[lambda: actions.place_order(**wish)] * 4)

    order = Order.objects.get()
    assert [getattr(result, "pk", result) for result in results] == [order.pk] * 4
    assert shop.held == 2 * quantity
    assert Allocation.objects.count() == 2 * quantity
    assert shop.committed == (12_000 * quantity if term == "hour" else 0)


def test_a_double_click_that_needs_all_the_credit_makes_one_order(shop):
    CreditLine.objects.update(available_minor=12_000)
    wish = shop.wish()

    results = outcomes(*[lambda: actions.place_order(**wish)] * 4)

    assert [getattr(result, "pk", result) for result in results] == [Order.objects.get().pk] * 4
    assert shop.committed == 12_000


def test_parallel_orders_never_overdraw_the_headroom(shop):
    CreditLine.objects.update(available_minor=2 * 12_000 + 11_999)
    wishes = [shop.wish() for _buyer in range(4)]

    results = outcomes(*[lambda wish=wish: actions.place_order(**wish) for wish in wishes])

    refused = [result for result in results if isinstance(result, actions.NoHeadroom)]
    assert (len(refused), Order.objects.count(), shop.held, shop.committed) == (2, 2, 4, 24_000)


def test_many_organizations_race_for_the_last_cards(shop):
    buyers = []
    for number in range(6):
        organization = factories.organization(name=f"买家{number}")
        buyers.append(
            shop.wish(
                organization=organization,
                project=organization.projects.get(),
                actor=organization.memberships.get().user,
                ssh_keys=[factories.ssh_key(organization)],
            )
        )

    results = outcomes(*[lambda wish=wish: actions.place_order(**wish) for wish in buyers])

    assert sorted(type(result).__name__ for result in results) == ["Order"] * 4 + ["SoldOut"] * 2
    assert (shop.held, Host.objects.get().cards_free) == (8, 0)
    losers = CreditLine.objects.filter(committed_minor=0).exclude(organization=shop.organization)
    assert losers.count() == 2


def test_the_first_two_orders_freeze_the_organization_once(shop):
    wishes = [shop.wish(at=NOON), shop.wish(at=LATER)]

    results = outcomes(*[lambda wish=wish: actions.place_order(**wish) for wish in wishes])

    assert {type(result) for result in results} == {Order}
    shop.organization.refresh_from_db()
    assert shop.organization.frozen_at in {NOON, LATER}


@pytest.mark.parametrize("race", range(3))
def test_payment_and_settlement_race_to_one_outcome(shop, race):
    order = shop.place(term="month")
    actions.begin_expiring(at=LATER)

    paid, settled = outcomes(
        lambda: actions.confirm(order_id=order.pk, at=LATER),
        lambda: actions.cancel_unpaid(order_id=order.pk, at=LATER),
    )

    order.refresh_from_db()
    if order.status == "confirmed":
        assert isinstance(settled, actions.IllegalMove)
        assert (shop.held, Subscription.objects.filter(ended_at=None).count()) == (2, 1)
    else:
        assert order.status == "cancelled"
        assert isinstance(paid, actions.HoldGone)
        assert (shop.held, Subscription.objects.count()) == (0, 0)


def test_sweeps_in_parallel_mark_an_expired_order_once(shop):
    order = shop.place(term="month")

    results = outcomes(*[lambda: actions.begin_expiring(at=LATER)] * 3)

    assert sorted(results) == [[], [], [order.pk]]
    assert order.events.filter(status="expiring").count() == 1


def test_ending_every_unit_at_once_ends_the_order_and_returns_all_headroom(shop):
    order = shop.place(quantity=4)
    actions.mark_provisioning(order_id=order.pk, at=NOON)
    ids = list(Subscription.objects.values_list("pk", flat=True))

    results = outcomes(
        *[lambda pk=pk: actions.end_subscription(subscription_id=pk, at=LATER) for pk in ids for _twice in range(2)]
    )

    assert sorted(results) == [False] * 4 + [True] * 4
    order.refresh_from_db()
    assert (order.status, shop.committed) == ("ended", 0)


def sent_quote(shop):
    quote = actions.create_quote(
        organization=shop.organization, actor=shop.owner, valid_until=NOON + timedelta(days=9), at=NOON
    )
    actions.add_quote_line(
        quote_id=quote.pk, offer=shop.offer, image=shop.image, quantity=1, term="month", periods=1,
        discount_percent=Decimal(10), at=NOON,
    )  # fmt: skip
    return actions.send_quote(quote_id=quote.pk, actor=shop.owner, at=NOON)


def test_a_quote_accepted_twice_at_once_makes_one_order(shop):
    quote = sent_quote(shop)
    answer = {"quote_id": quote.pk, "project": shop.project, "ssh_keys": [shop.key], "actor": shop.owner, "at": NOON}

    results = outcomes(*[lambda: actions.accept_quote(**answer)] * 3)

    order = Order.objects.get()
    assert [getattr(result, "pk", result) for result in results] == [order.pk] * 3
    assert shop.held == 2


def test_accepting_and_revising_at_once_have_one_winner(shop):
    quote = sent_quote(shop)
    answer = {"quote_id": quote.pk, "project": shop.project, "ssh_keys": [shop.key], "actor": shop.owner, "at": NOON}

    accepted, revised = outcomes(
        lambda: actions.accept_quote(**answer),
        lambda: actions.revise_quote(quote_id=quote.pk, actor=shop.owner, at=NOON),
    )

    quote.refresh_from_db()
    if quote.status == "accepted":
        assert isinstance(revised, actions.IllegalQuoteMove)
        assert (shop.held, Quote.objects.count()) == (2, 1)
    else:
        assert quote.status == "superseded"
        assert isinstance(accepted, actions.IllegalQuoteMove)
        assert (shop.held, Quote.objects.count()) == (0, 2)
