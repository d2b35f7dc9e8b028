"""Quotes: frozen prices, versions, and an acceptance that places exactly one order."""

from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.models import CreditLine, Organization
from catalog.models import Allocation
from orders import actions
from orders.models import Order, Quote, QuoteLine, Subscription
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db
UNTIL = NOON + timedelta(days=14)


@pytest.fixture(autouse=True)
def rules(settings):
    settings.HEADROOM_HOURS = 24


@pytest.fixture
def seller(db):
    return factories.user(is_staff=True)


@pytest.fixture
def quote(shop, seller):
    return actions.create_quote(organization=shop.organization, actor=seller, valid_until=UNTIL, at=NOON)


def add(quote, shop, **changes):
    line = {
        "quote_id": quote.pk, "offer": shop.offer, "image": shop.image, "quantity": 2, "term": "month", "periods": 3,
        "discount_percent": Decimal(15), "at": NOON,
    }  # fmt: skip
    return actions.add_quote_line(**line | changes)


def send(quote, seller, at=NOON):
    return actions.send_quote(quote_id=quote.pk, actor=seller, at=at)


def accept(quote, shop, at=NOON, **changes):
    given = {"quote_id": quote.pk, "project": shop.project, "ssh_keys": [shop.key], "actor": shop.owner, "at": at}
    return actions.accept_quote(**given | changes)


def status(quote):
    return Quote.objects.get(pk=quote.pk).status


# --- drafting --------------------------------------------------------------------------------------------------------
def test_a_quote_has_a_number_a_version_and_an_unguessable_link(quote, shop, seller):
    other = actions.create_quote(organization=shop.organization, actor=seller, valid_until=UNTIL, at=NOON)

    assert (quote.number, quote.version, quote.status) == (f"QT261130{quote.pk:06d}", 1, "draft")
    assert quote.currency == "CNY"
    assert len(quote.token) == 43
    assert other.number != quote.number
    assert [(event.status, event.actor) for event in quote.events.all()] == [("draft", seller)]


def test_a_line_freezes_list_rate_discount_and_amount(quote, shop):
    line = add(quote, shop)

    # 4 cards × 3 months × ¥1,280.00 less 15 %
    assert (line.list_rate, line.rate, line.amount_minor) == (Decimal(1280), Decimal(1088), 1_305_600)
    assert (line.position, line.cards) == (1, 4)

    shop.offer.prices.filter(meter="month").update(valid_to=NOON + timedelta(seconds=1))
    factories.price(shop.offer, since=NOON + timedelta(seconds=1), month="2000")
    second = add(quote, shop, at=NOON + timedelta(minutes=1), discount_percent=Decimal(0))

    line.refresh_from_db()
    assert (line.list_rate, line.amount_minor) == (Decimal(1280), 1_305_600)
    assert (second.position, second.list_rate, second.amount_minor) == (2, Decimal(2000), 2_400_000)


def test_an_hourly_line_costs_nothing_in_advance(quote, shop):
    line = add(quote, shop, term="hour", periods=9)

    assert (line.rate, line.disk_rate, line.periods, line.amount_minor) == (
        Decimal("2.125"),
        Decimal("0.0005"),
        1,
        0,
    )


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"discount_percent": Decimal("100.01")}, "discount_percent"),
        ({"discount_percent": Decimal("-1")}, "discount_percent"),
        ({"quantity": 0}, "quantity"),
        ({"periods": 37}, "periods"),
    ],
)
def test_a_bad_line_is_refused(quote, shop, changes, field):
    with pytest.raises(actions.BadChoice) as refused:
        add(quote, shop, **changes)

    assert refused.value.field == field
    assert not QuoteLine.objects.exists()


def test_a_line_can_be_taken_out_of_a_draft_only(quote, shop, seller):
    first, second = add(quote, shop), add(quote, shop)
    actions.remove_quote_line(line_id=first.pk)
    send(quote, seller)

    with pytest.raises(actions.IllegalQuoteMove):
        actions.remove_quote_line(line_id=second.pk)
    with pytest.raises(actions.IllegalQuoteMove):
        add(quote, shop)

    assert list(quote.lines.all()) == [second]


# --- sending ---------------------------------------------------------------------------------------------------------
def test_an_empty_quote_is_not_sent(quote, seller):
    with pytest.raises(actions.QuoteRefused) as refused:
        send(quote, seller)

    assert (refused.value.code, status(quote)) == ("no_lines", "draft")


def test_a_quote_of_the_past_is_not_sent(quote, shop, seller):
    add(quote, shop)

    with pytest.raises(actions.QuoteRefused) as refused:
        send(quote, seller, at=UNTIL)

    assert (refused.value.code, status(quote)) == ("valid_until_past", "draft")


def test_a_quote_is_sent_once(quote, shop, seller):
    add(quote, shop)
    send(quote, seller)

    with pytest.raises(actions.IllegalQuoteMove):
        send(quote, seller)

    assert [event.status for event in quote.events.all()] == ["draft", "sent"]


# --- versions --------------------------------------------------------------------------------------------------------
def test_a_revision_is_the_next_version_and_supersedes_this_one(quote, shop, seller):
    add(quote, shop)
    send(quote, seller)

    second = actions.revise_quote(quote_id=quote.pk, actor=seller, at=NOON, valid_until=UNTIL + timedelta(days=7))

    assert (second.number, second.version, second.status) == (quote.number, 2, "draft")
    assert second.token != quote.token
    assert second.valid_until == UNTIL + timedelta(days=7)
    assert status(quote) == "superseded"
    frozen = ("position", "offer", "image", "quantity", "term", "periods", "list_rate", "discount_percent", "rate")
    assert list(second.lines.values_list(*frozen)) == list(quote.lines.values_list(*frozen))
    with pytest.raises(actions.IllegalQuoteMove):
        accept(quote, shop)
    with pytest.raises(actions.IllegalQuoteMove):
        actions.revise_quote(quote_id=quote.pk, actor=seller, at=NOON)


def test_a_declined_version_stays_declined_when_it_is_revised(quote, shop, seller):
    add(quote, shop)
    send(quote, seller)
    actions.decline_quote(quote_id=quote.pk, actor=shop.owner, at=NOON)

    assert actions.revise_quote(quote_id=quote.pk, actor=seller, at=NOON).version == 2
    assert status(quote) == "declined"
    with pytest.raises(actions.IllegalQuoteMove):
        actions.revise_quote(quote_id=quote.pk, actor=seller, at=NOON)


# --- answering -------------------------------------------------------------------------------------------------------
def test_an_accepted_quote_is_an_order_at_its_frozen_prices(quote, shop, seller):
    add(quote, shop)
    send(quote, seller)
    shop.offer.prices.filter(meter="month").update(valid_to=NOON + timedelta(days=1))
    factories.price(shop.offer, since=NOON + timedelta(days=1), month="2000")

    order = accept(quote, shop, at=NOON + timedelta(days=2))

    line = order.lines.get()
    assert (order.status, order.total_minor) == ("awaiting_payment", 1_305_600)
    assert (line.rate, line.amount_minor, line.quantity) == (Decimal(1088), 1_305_600, 2)
    assert shop.held == 4
    quote.refresh_from_db()
    assert (quote.status, quote.order) == ("accepted", order)


def test_accepting_again_is_the_same_order(quote, shop, seller):
    add(quote, shop)
    send(quote, seller)

    assert accept(quote, shop) == accept(quote, shop)
    assert (Order.objects.count(), shop.held) == (1, 4)


def test_hourly_and_monthly_lines_make_one_order(quote, shop, seller):
    add(quote, shop, quantity=1)
    add(quote, shop, quantity=1, term="hour", discount_percent=Decimal(0))
    send(quote, seller)

    order = accept(quote, shop)

    assert (order.status, order.total_minor, shop.committed) == ("awaiting_payment", 652_800, 12_000)
    assert [one.term for one in Subscription.objects.all()] == ["hour"]

    actions.confirm(order_id=order.pk, at=NOON)
    assert sorted(one.term for one in Subscription.objects.all()) == ["hour", "month"]


def test_a_mixed_order_that_is_never_paid_gives_its_headroom_back(quote, shop, seller):
    add(quote, shop, quantity=1)
    add(quote, shop, quantity=1, term="hour")
    send(quote, seller)
    order = accept(quote, shop)

    actions.begin_expiring(at=NOON + timedelta(days=1))
    actions.cancel_unpaid(order_id=order.pk, at=NOON + timedelta(days=1))

    assert (shop.committed, shop.held) == (0, 0)


def test_a_quote_for_nothing_needs_no_payment(quote, shop, seller):
    add(quote, shop, discount_percent=Decimal(100))
    send(quote, seller)

    order = accept(quote, shop)

    assert (order.status, order.total_minor, Subscription.objects.count()) == ("confirmed", 0, 2)


def test_sold_out_leaves_the_quote_open(quote, shop, seller):
    add(quote, shop, quantity=1)
    add(quote, shop, quantity=4)
    send(quote, seller)

    with pytest.raises(actions.SoldOut) as refused:
        accept(quote, shop)

    assert refused.value.free_units == 3
    assert (status(quote), shop.held, Order.objects.count(), Allocation.objects.count()) == ("sent", 0, 0, 0)


def test_too_little_headroom_leaves_the_quote_open(quote, shop, seller):
    add(quote, shop, term="hour")
    send(quote, seller)
    CreditLine.objects.update(available_minor=0)

    with pytest.raises(actions.NoHeadroom):
        accept(quote, shop)

    assert (status(quote), shop.held, shop.committed) == ("sent", 0, 0)


def test_a_quote_expires_at_its_instant(quote, shop, seller):
    add(quote, shop)
    send(quote, seller)

    with pytest.raises(actions.QuoteRefused) as refused:
        accept(quote, shop, at=UNTIL)
    assert (refused.value.code, status(quote)) == ("expired", "sent")

    assert actions.expire_quotes(at=UNTIL - timedelta(seconds=1)) == 0
    assert actions.expire_quotes(at=UNTIL) == 1
    assert actions.expire_quotes(at=UNTIL) == 0
    assert status(quote) == "expired"
    assert shop.held == 0


def test_a_declined_quote_cannot_be_accepted(quote, shop, seller):
    add(quote, shop)
    send(quote, seller)
    actions.decline_quote(quote_id=quote.pk, actor=shop.owner, at=NOON)
    actions.decline_quote(quote_id=quote.pk, actor=shop.owner, at=NOON)

    with pytest.raises(actions.IllegalQuoteMove):
        accept(quote, shop)

    assert (status(quote), Order.objects.count()) == ("declined", 0)


def test_a_draft_cannot_be_answered(quote, shop):
    add(quote, shop)

    with pytest.raises(actions.IllegalQuoteMove):
        accept(quote, shop)
    with pytest.raises(actions.IllegalQuoteMove):
        actions.decline_quote(quote_id=quote.pk, actor=shop.owner, at=NOON)

    assert status(quote) == "draft"


def test_a_quote_in_a_currency_the_organization_left_is_refused(quote, shop, seller):
    add(quote, shop)
    send(quote, seller)
    Organization.objects.filter(pk=shop.organization.pk).update(currency="USD")

    with pytest.raises(actions.QuoteRefused) as refused:
        accept(quote, shop)

    assert (refused.value.code, status(quote), shop.held) == ("currency", "sent", 0)


def test_keys_of_others_cannot_accept(quote, shop, seller):
    add(quote, shop)
    send(quote, seller)
    other = factories.organization(name="别家")

    with pytest.raises(actions.BadChoice):
        accept(quote, shop, ssh_keys=[factories.ssh_key(other)])
    with pytest.raises(actions.BadChoice):
        accept(quote, shop, project=other.projects.get())

    assert status(quote) == "sent"
