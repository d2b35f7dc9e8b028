"""The price calculator: its address is its state, its figures are those of the order and the invoice."""

import re
from datetime import timedelta
from decimal import Decimal
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation

from billing import actions as billing
from billing.models import Invoice
from catalog.models import Offer
from marketplace.lib import clock
from orders import actions, basket
from orders.basket import Item
from orders.models import Order
from tests import factories
from tests.billing import builders as usage
from tests.factories import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def english(client):
    with translation.override("en"):
        yield


def address(*items):
    query = basket.query([item if isinstance(item, Item) else basket.item_of(item) for item in items])
    return f"{reverse('orders:calculator')}?{query}"


def text(response):
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode())))


def items(response):
    """The basket of a page, or of where it leads."""
    if response.status_code == 302:
        return re.findall(r"item=([^&]+)", response.url)
    form = response.content.decode().partition('id="basket"')[2].partition("</form>")[0]
    return re.findall(r'name="item" value="([^"]+)"', form)


def test_an_item_is_read_as_it_is_written():
    item = Item("h100-8x", "month", 12, 3)

    assert str(item) == "h100-8x:month:12:3"
    assert basket.item_of(str(item)) == item
    assert basket.query([item, item]) == "item=h100-8x:month:12:3&item=h100-8x:month:12:3"


@pytest.mark.parametrize(
    "text",
    ["", ":", "a", "a:month:1", "a:month:1:1:1", ":month:1:1", "a:week:1:1", "a:month:0:1", "a:month:-1:1",
     "a:month:1:0", "a:month:1:65", "a:month:37:1", "a:year:6:1", "a:hour:43801:1", "a:month:1.5:1", "a:month:1e3:1",
     "a:month:٣:1", "a:month:9999999999:1", f"{'a' * 81}:month:1:1"],
)  # fmt: skip
def test_what_is_no_item_is_left_out_and_told(text):
    read = basket.read(["b:hour:720:2", text, "c:year:1:1"])

    assert read.items == (Item("b", "hour", 720, 2), Item("c", "year", 1, 1))
    assert read.unreadable == (text,)


def test_the_twenty_first_line_is_left_out_and_told():
    read = basket.read(["a:hour:1:1"] * 21)

    assert len(read.items) == 20
    assert read.too_many == ("a:hour:1:1",)


@pytest.mark.parametrize(
    ("periods", "old", "new", "carried"),
    [(12, "month", "year", 1), (13, "month", "year", 2), (1, "year", "month", 12), (720, "hour", "month", 1),
     (731, "hour", "month", 2), (1, "month", "hour", 730), (5, "year", "month", 36), (1, "hour", "year", 1)],
)  # fmt: skip
def test_a_length_of_time_is_carried_to_another_term(periods, old, new, carried):
    assert basket.carried_over(periods, old, new) == carried


def test_a_line_shows_its_price_total_tax_and_saving(client):
    offer = factories.offer(cards=2, hour="2.50", month="1280", year="13000")

    page = text(client.get(address(f"{offer.slug}:month:3:2")))

    # 2 × 2 cards × 3 months × ¥1,280; by the hour 4 × 2,190 h × ¥2.50.
    for figure in ("¥1,280.00", "¥15,360.00", "Tax included (6%) ¥869.43", "saves ¥6,540.00 (29.9%)", "4 units free"):
        assert figure in page
    assert "By the month, in advance ¥15,360.00" in page
    assert "Order this basket" in page


def test_totals_are_told_by_kind_of_term(client):
    offer = factories.offer(hour="2.50", month="1280", year="13000")

    page = text(client.get(address(f"{offer.slug}:hour:100:1", f"{offer.slug}:month:1:1", f"{offer.slug}:year:1:2")))

    assert "¥27,530.00" in page
    assert "By the hour, estimated ¥250.00" in page
    assert "By the month, in advance ¥1,280.00" in page
    assert "By the year, in advance ¥26,000.00" in page


def test_the_forms_add_change_and_remove(client):
    one, two = factories.offer(), factories.offer()
    here = reverse("orders:calculator")
    first = client.get(here, {"offer": one.slug, "term": "month", "periods": "2", "quantity": "3"})
    assert items(first) == [f"{one.slug}:month:2:3"]

    second = client.get(
        here, {"item": items(first), "offer": two.slug, "term": "hour", "periods": "720", "quantity": "1"}
    )
    assert items(second) == [f"{one.slug}:month:2:3", f"{two.slug}:hour:720:1"]

    changed = client.get(
        here,
        {"item": items(second), "0-term": "year", "0-periods": "3", "0-quantity": "3", "1-term": "month",
         "1-periods": "720", "1-quantity": "4"},
    )  # fmt: skip
    assert items(changed) == [f"{one.slug}:year:3:3", f"{two.slug}:month:1:4"]

    removed = client.get(here, {"item": items(changed), "remove": "0"})
    assert items(removed) == [f"{two.slug}:month:1:4"]
    assert client.get(here, {"item": items(removed), "remove": "0"}).url == here


@pytest.mark.parametrize(
    ("name", "value"), [("quantity", "0"), ("quantity", "-1"), ("quantity", "65"), ("quantity", "x"),
                        ("periods", "37"), ("periods", ""), ("term", "week"), ("quantity", "9" * 400)],
)  # fmt: skip
def test_a_wrong_change_is_told_beside_its_field_and_loses_nothing(client, name, value):
    one, two = factories.offer(), factories.offer()
    sent = {"0-term": "month", "0-periods": "2", "0-quantity": "3", f"0-{name}": value}

    response = client.get(
        reverse("orders:calculator"), {"item": [f"{one.slug}:month:2:3", f"{two.slug}:year:1:1"], **sent}
    )

    assert response.status_code == 200
    assert items(response) == [f"{one.slug}:month:2:3", f"{two.slug}:year:1:1"]
    assert response.content.decode().count('class="field__errors"') == 1


def test_a_wrong_addition_is_told_and_the_basket_stays(client):
    offer = factories.offer()
    line = f"{offer.slug}:month:2:3"

    for slug, quantity in (("no-such-offer", "1"), ("", "1"), (offer.slug, "0")):
        response = client.get(
            reverse("orders:calculator"),
            {"item": line, "offer": slug, "term": "month", "periods": "1", "quantity": quantity},
        )
        assert response.status_code == 200
        assert items(response) == [line]
        assert 'class="field__errors"' in response.content.decode()


def test_a_full_basket_takes_no_more(client):
    line = f"{factories.offer().slug}:month:1:1"

    response = client.get(
        reverse("orders:calculator"),
        {"item": [line] * 20, "offer": line.partition(":")[0], "term": "month", "periods": "1", "quantity": "1"},
    )

    assert "The basket holds 20 lines; take one out first." in text(response)
    assert items(response) == [line] * 20


def test_unknown_withdrawn_and_unreadable_lines_are_told_and_the_rest_stays(client):
    sold, withdrawn = factories.offer(), factories.offer(enabled=False)

    response = client.get(
        reverse("orders:calculator"),
        {"item": ["<b>x</b>", f"{withdrawn.slug}:month:1:1", "no-such:month:1:1", f"{sold.slug}:month:1:1"]},
    )

    assert items(response) == [f"{sold.slug}:month:1:1"]
    page = text(response)
    assert "Part of the address could not be read" in page
    assert "<b>x</b>" in page
    assert "<b>x</b>" not in response.content.decode()
    assert withdrawn.slug in page
    assert "no-such" in page


def test_what_is_sold_on_quote_says_so_and_is_not_in_the_totals(client):
    offer = factories.offer(month="1000")
    special = factories.offer(quote_only=True, month="9999")

    response = client.get(address(f"{offer.slug}:month:1:1", f"{special.slug}:month:1:1"))

    page = text(response)
    assert "This offer is sold on quote: its price is agreed with you and is not in the totals." in page
    assert "9,999" not in page
    assert "Order the 1 line with a price" in page
    assert f'{reverse("orders:basket")}?item={offer.slug}:month:1:1"' in response.content.decode()
    both = f"item={offer.slug}:month:1:1&amp;item={special.slug}:month:1:1"
    assert f"{reverse('orders:request_quote')}?{both}" in response.content.decode()


def test_a_term_without_a_price_says_so(client):
    offer = factories.offer()
    client.cookies["currency"] = "USD"

    page = text(client.get(address(f"{offer.slug}:month:1:1")))

    assert "This offer has no price in USD for this term." in page
    assert "Order this basket" not in page


def test_more_than_is_free_is_said_as_of_now(client):
    offer = factories.offer(cards=8)

    assert "Fewer units than this are free right now." in text(client.get(address(f"{offer.slug}:month:1:2")))
    offer.pool.hosts.update(cards_free=0)
    assert "No unit is free right now." in text(client.get(address(f"{offer.slug}:month:1:2")))


def test_the_address_of_the_basket_is_shown_whole(client):
    offer = factories.offer()

    page = client.get(address(f"{offer.slug}:month:1:2")).content.decode()

    assert f"http://testserver{reverse('orders:calculator')}?item={offer.slug}:month:1:2" in page


@pytest.mark.parametrize("count", [1, 20])
def test_a_stranger_costs_three_statements_however_many_offers(client, count):
    made = [factories.offer() for _ in range(count)]
    here = address(*(f"{offer.slug}:month:1:1" for offer in made))
    client.get(here)

    with CaptureQueriesContext(connection) as queries:
        assert client.get(here).status_code == 200

    assert len(queries) == 3


def test_two_hundred_offers_cost_the_same_statements(client):
    one = factories.offer()
    Offer.objects.bulk_create(
        Offer(
            slug=f"{one.slug}-{n}", kind="gpu", region=one.region, gpu_model=one.gpu_model, pool=one.pool,
            cards_per_unit=1,
        )
        for n in range(200)
    )  # fmt: skip
    here = address(f"{one.slug}:month:1:1")
    client.get(here)

    with CaptureQueriesContext(connection) as queries:
        assert client.get(here).status_code == 200

    assert len(queries) == 3


def test_calculator_order_and_invoice_agree_to_the_cent(client):
    """Rates that do not divide: the page's totals are the order's and the invoice's, line by line."""
    owner = factories.user()
    organization = factories.organization(owner, credit_minor=1_000_000_000)
    one = factories.offer(cards=1, hour="2.3333333333", month="1279.9999999999", year="13000.005", hosts=3)
    two = factories.offer(cards=4, hour="17.7777", month="999.995", year="8888.885", hosts=3)
    wanted = [(one, "month", 7, 3), (two, "month", 1, 1), (two, "year", 2, 1), (one, "year", 1, 1)]
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    response = client.get(address(*(f"{offer.slug}:{term}:{n}:{units}" for offer, term, n, units in wanted)))

    order = actions.place_basket(
        organization=organization, project=organization.projects.get(), actor=owner, request_key="k",
        wanted=[
            actions.Wanted(offer, factories.image(), units, term, n, offer.prices.get(meter=term).rate)
            for offer, term, n, units in wanted
        ],
        ssh_keys=[factories.ssh_key(organization)], at=NOON,
    )  # fmt: skip
    invoice = billing.draft_order_invoice(order=order, at=NOON)

    totals = response.context["totals"]
    shown = [line.estimate for line, _form in response.context["lines"]]
    assert [one.total_minor for one in shown] == [line.amount_minor for line in order.lines.order_by("pk")]
    lines = list(invoice.lines.order_by("position"))
    assert [(one.total_minor, one.tax_minor) for one in shown] == [
        (line.amount_minor, line.tax_minor) for line in lines
    ]
    assert totals.total_minor == order.total_minor == invoice.total_minor
    assert totals.tax_minor == invoice.tax_minor


def test_estimated_hours_are_what_running_them_is_billed(client):
    """100 hours of two units: the calculator's line is the sum of the two usage lines that the month's invoice has."""
    owner = factories.user()
    organization = factories.organization(owner, credit_minor=1_000_000_000)
    offer = factories.offer(cards=3, hour="2.3333333333")
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    estimate = client.get(address(f"{offer.slug}:hour:100:2")).context["lines"][0][0].estimate

    for _unit in range(2):
        machine = usage.rental(organization, rate="2.3333333333", cards=3, offer=offer)
        for start, end in clock.split_at_midnights(usage.NOVEMBER, usage.NOVEMBER + 100 * usage.HOUR, "Asia/Shanghai"):
            usage.used(machine, start, end)
    (invoice,) = billing.draft_usage_invoices(at=usage.DECEMBER).invoices

    assert estimate.total_minor == invoice.total_minor == 140_000
    assert estimate.tax_minor == invoice.tax_minor == 2 * 3962


def test_a_member_sees_the_prices_of_their_currency(client):
    owner = factories.user()
    factories.organization(owner, currency="USD")
    offer = factories.offer()
    factories.price(offer, currency="USD", month="180")
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    client.cookies["currency"] = "CNY"

    assert "US$180.00" in text(client.get(address(f"{offer.slug}:month:1:1")))


def test_a_changed_price_shows_in_the_next_answer(client):
    offer = factories.offer(month="1000")
    here = address(f"{offer.slug}:month:1:1")
    assert "¥1,000.00" in text(client.get(here))
    now = clock.now()
    offer.prices.filter(meter="month").update(valid_to=now - timedelta(seconds=1))
    factories.price(offer, since=now - timedelta(seconds=1), month="1100")

    assert "¥1,100.00" in text(client.get(here))
    assert Order.objects.count() == Invoice.objects.count() == 0
    assert Decimal("1100") in offer.prices.values_list("rate", flat=True)
