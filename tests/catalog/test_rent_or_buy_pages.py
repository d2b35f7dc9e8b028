"""The cost model's page: the market's own prices first, every input from the address, messages beside bad ones."""

import re
from datetime import timedelta
from urllib.parse import parse_qs

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation

from catalog import loading
from catalog.models import Price
from tests.catalog import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def catalogue():
    loading.load(at=timezone.now() - timedelta(days=1))


def show(client, language="en", **state):
    with translation.override(language):
        address = reverse("catalog:rent_or_buy")
    response = client.get(address, state)
    assert response.status_code == 200
    return response.content.decode()


def figures(html):
    return re.findall(r'<dd class="figure">(.*?)</dd>', html)


def messages(html):
    return dict(re.findall(r'id="buy-(\w+)_error"><li>(.*?)</li>', html))


def test_the_usual_values_against_the_list_price_of_an_h100(client, catalogue):
    html = show(client)

    assert figures(html) == ["¥73,058.49", "¥9,132.31", "56.9%"]
    for text in ("¥47,437.50", "¥4,718.90", "¥10,541.67", "¥1,562.50", "¥3,000.00", "¥5,797.92", "¥2,530,000.00"):
        assert text in html
    for text in ("¥96,000.00", "76.1%", "¥81,600.00", "89.5%", "month 25"):
        assert text in html
    assert '<option value="h100-sxm5-80gb" selected>' in html


def test_the_chart_stands_on_a_table_of_every_month(client, catalogue):
    html = show(client)
    table = html.split("data-chart=", 1)[1].split("</table>")[0]

    assert table.count("<tr><th") - 1 == 49
    assert '<td class="number" data-value="2530000.00">¥2,530,000.00</td>' in table
    assert '<th scope="row">48</th><td class="number" data-value="3506807.52">¥3,506,807.52</td>' in table


def test_what_the_form_would_send_gives_the_same_answer(client, catalogue):
    html = show(client)
    form = html.split('class="guide-form"', 1)[1].split("</form>")[0]
    sent = dict(re.findall(r'name="(\w+)"[^>]*? value="([^"]*)"', form)) | {"model": "h100-sxm5-80gb"}

    assert sent["server"] == "2200000"
    assert sent["currency"] == "CNY"
    assert figures(show(client, **sent)) == figures(html)


def test_inputs_come_from_the_address_and_the_rest_stays_usual(client, catalogue):
    html = show(client, server="1,100,000", staff="0", rack="0", capital="0", maintenance="0", kwh="0", use="50")
    # 1,265,000 × 0.9 / 48
    assert figures(html)[0] == "¥23,718.75"
    assert "¥64,240.00" in html
    assert "at 50% use" in html


def test_another_rent_replaces_the_list_price(client, catalogue):
    html = show(client, hour="11")
    assert figures(html)[2] == "113.7%"
    assert "Renting by the hour is cheaper than owning however much you use it." in html


def test_another_card_brings_its_own_rents(client, catalogue):
    html = show(client, model="ascend-910b3-64gb")
    assert "¥29,600.00" in html  # 8 × 3,700 a month


def test_a_price_that_changed_is_used_at_once(client):
    offer = builders.offer(builders.pool(), cards=8)
    assert figures(show(client))[2] == "56.9%"
    now = timezone.now()
    Price.objects.filter(meter="card_hour").update(valid_to=now)
    builders.price(offer, rate="44", start=now)
    assert figures(show(client))[2] == "28.4%"


def test_without_any_rent_owning_is_still_worked_out(client):
    html = show(client)
    assert figures(html) == ["¥73,058.49", "¥9,132.31", "—"]
    assert "There is no rent in this currency" in html


def test_dollars_have_their_own_usual_values(client, catalogue):
    client.cookies["currency"] = "USD"
    html = show(client)

    assert 'name="server" value="330000"' in html
    assert "US$" in figures(html)[0]


def test_a_shared_address_keeps_its_currency(client, catalogue):
    client.cookies["currency"] = "USD"
    html = show(client, server="2200000", currency="CNY")

    assert figures(html)[0] == "¥73,058.49"
    assert "The amounts of this link are in CNY." in html
    assert "Start again in USD" in html


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"server": "-1"}, "Ensure this value is greater than or equal to 0."),
        ({"server": "NaN"}, "Enter a number."),
        ({"server": "1e30"}, "Ensure this value is less than or equal to 1000000000."),
        ({"server": "两百万"}, "Enter a number."),
        ({"years": "0"}, "Ensure this value is greater than or equal to 1."),
        ({"years": "11"}, "Ensure this value is less than or equal to 10."),
        ({"years": "4.5"}, "Enter a whole number."),
        ({"cards": "0"}, "Ensure this value is greater than or equal to 1."),
        ({"residual": "101"}, "Ensure this value is less than or equal to 100."),
        ({"use": "-5"}, "Ensure this value is greater than or equal to 0."),
        ({"pue": "0.9"}, "Ensure this value is greater than or equal to 1."),
        ({"hour": "Infinity"}, "Enter a number."),
        ({"model": "cray-1"}, "Select a valid choice. cray-1 is not one of the available choices."),
    ],
)
def test_what_cannot_be_read_has_its_message_beside_it(client, catalogue, state, message):
    html = show(client, **state)

    assert messages(html) == dict.fromkeys(state, message)
    assert figures(html) == []
    assert "No comparison yet" in html


@pytest.mark.parametrize("state", [
    "server=1000000000&network_share=500&years=10&kw=1000&pue=5&kwh=100&staff=10000000&rack=10000000&cards=64",
    "server=0&network_share=0&years=1&kw=0&load=0&kwh=0&staff=0&rack=0&maintenance=0&capital=0&residual=0&use=0",
    "server=0&residual=100&hour=0&month=0&year=0&cards=1",
])  # fmt: skip
def test_the_limits_are_worked_out(client, catalogue, state):
    html = show(client, **{name: values[0] for name, values in parse_qs(state).items()})
    assert messages(html) == {}
    assert len(figures(html)) == 3


def test_full_width_digits_are_digits(client, catalogue):
    assert figures(show(client, server="２２０００００", residual="１０"))[0] == "¥73,058.49"


@pytest.mark.parametrize(("language", "address"), [("en", "/en/rent-or-buy/"), ("zh-hans", "/rent-or-buy/")])
def test_each_language_has_its_own_address(client, catalogue, language, address):
    with translation.override(language):
        assert reverse("catalog:rent_or_buy") == address
    assert figures(show(client, language))[0] == "¥73,058.49"


@pytest.mark.parametrize("offers", [20, 200])
def test_a_stranger_costs_two_statements_whatever_the_catalogue(client, offers):
    pool = builders.pool()
    for number in range(offers):
        builders.offer(pool, cards=(1, 2, 4, 8)[number % 4], rates=(str(22 + number % 7), "12000", "122400"))
    show(client)  # what a connection learns once is not the page's

    with CaptureQueriesContext(connection) as queries:
        show(client, use="50")
    assert len(queries) <= 2


def test_only_reading_is_allowed(client):
    assert client.post(reverse("catalog:rent_or_buy")).status_code == 405
