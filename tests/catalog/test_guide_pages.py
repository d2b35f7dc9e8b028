"""The guide's page: plans for what the address asks, messages beside what it cannot read, and what it costs."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation

from catalog import loading
from catalog.models import Host, Price
from catalog.views.guide import EXAMPLES
from tests.catalog import builders

pytestmark = pytest.mark.django_db
FULL = {"purpose": "full", "params": "7", "tokens": "1", "deadline": "3"}


@pytest.fixture
def catalogue():
    loading.load(at=timezone.now() - timedelta(days=1))


def ask(client, language="en", **state):
    with translation.override(language):
        address = reverse("catalog:guide")
    response = client.get(address, state)
    assert response.status_code == 200
    return response.content.decode()


def plans(html):
    """(card and number of cards, total) of every plan shown."""
    names = re.findall(r'id="plan-\d">.*?</span> (.*?) <span class="nowrap">× (\d+)<', html)
    return list(
        zip([f"{name} × {cards}" for name, cards in names], re.findall(r'plan__price">(.*?)<', html), strict=True)
    )


def messages(html):
    """The messages beside the fields, by field."""
    return dict(re.findall(r'id="guide-(\w+)_error"><li>(.*?)</li>', html))


def test_nothing_asked_shows_worked_examples(client, catalogue):
    html = ask(client)

    assert "Start from an example" in html
    assert html.count("?purpose=") + html.count("?stage=") == len(EXAMPLES)
    assert plans(html) == []


@pytest.mark.parametrize("state", [state for _title, _text, state in EXAMPLES])
def test_every_example_has_plans_without_complaints(client, catalogue, state):
    html = ask(client, **state)

    assert len(plans(html)) >= 1
    assert messages(html) == {}
    assert "The arithmetic" in html


def test_a_need_is_answered_with_arithmetic_rules_and_buttons(client, catalogue):
    html = ask(client, **FULL)

    assert plans(html) == [
        ("NVIDIA H800 SXM5 80GB × 4", "¥792.00"),
        ("NVIDIA B300 SXM 288GB × 4", "¥844.80"),
        ("NVIDIA H100 SXM5 80GB × 2", "¥866.80"),
    ]
    assert "126 / 2 + 5.38 = 68.38 ≤ 0.9 × 80 = 72" in html
    assert 'href="/en/order/h100-sxm5-80gb-2x-fuzhou/?term=hour&amp;quantity=1&amp;periods=1"' in html
    assert set(re.findall(r'href="#rule-(\w+)"', html)) == set(re.findall(r'id="rule-(\w+)"', html))


def test_a_plan_goes_into_the_calculator_and_to_sales_as_it_is(client, catalogue):
    html = ask(client, **FULL | {"deadline": "", "tokens": "", "months": "12"})
    items = set(re.findall(r"\?(item=[^\"]*)", html))

    assert "item=a800-sxm4-80gb-4x-fuzhou:year:1:1" in items
    for page in ("orders:calculator", "orders:request_quote"):
        address = reverse(page)
        for item in items:
            answer = client.get(f"{address}?{item}")
            assert answer.status_code == 200
            assert "could not be read" not in answer.content.decode()


def test_a_plan_of_hours_and_many_machines_fits_the_basket(client):
    pool = builders.pool()
    builders.offer(pool, cards=8, rates=("1",), fabric="infiniband", fabric_gbps=400)
    html = ask(client, purpose="pretrain", params="3000", tokens="1")

    assert plans(html)[0][0].endswith("× 888")
    assert "item=" in html
    items = re.search(r"/calculator/\?([^\"]*)", html)[1].replace("&amp;", "&").split("&")
    assert [item.rpartition(":")[2] for item in items] == ["64", "47"]


def test_the_form_keeps_what_was_asked(client, catalogue):
    html = ask(client, **FULL | {"scenario": "government", "domestic": "on"})

    assert '<option value="full" selected>' in html
    assert '<option value="government" selected>' in html
    assert re.search(r'name="params" value="7"', html)
    assert [name for name, _total in plans(html)] == ["Huawei Ascend 910B3 64GB × 8"]


def test_each_currency_has_its_own_prices(client, catalogue):
    client.cookies["currency"] = "USD"
    html = ask(client, **FULL)

    assert plans(html)[0] == ("NVIDIA H800 SXM5 80GB × 4", "US$118.80")
    assert "¥" not in html.split("<main", 1)[1].split("</main>")[0]


def test_a_sale_and_a_price_change_show_at_once(client):
    offer = builders.offer(builders.pool(), cards=2)
    builders.host(offer.pool, cards=2)
    assert "Free now" in ask(client, **FULL)

    Host.objects.update(cards_free=0)
    html = ask(client, **FULL)
    assert "0 of 1 unit is free now" in html
    assert "/order/" not in html

    now = timezone.now()
    Price.objects.filter(meter="card_hour").update(valid_to=now)
    builders.price(offer, rate="23.50", start=now)
    assert plans(ask(client, **FULL)) == [("NVIDIA H100 SXM5 80GB × 2", "¥925.90")]


def test_an_empty_catalogue_says_so(client):
    assert "No listed offer carries this" in ask(client, **FULL)


def test_an_offer_that_is_off_is_not_recommended(client):
    offer = builders.offer(builders.pool(), cards=2)
    offer.enabled = False
    offer.save()
    assert plans(ask(client, **FULL)) == []


# --- what cannot be read ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "field", "message"),
    [
        ({"params": ""}, "params", "How many billion parameters has the model? For example 7."),
        ({"params": "-7"}, "params", "Ensure this value is greater than or equal to 0.1."),
        ({"params": "0"}, "params", "Ensure this value is greater than or equal to 0.1."),
        ({"params": "NaN"}, "params", "Enter a number."),
        ({"params": "sNaN"}, "params", "Enter a number."),
        ({"params": "Infinity"}, "params", "Enter a number."),
        ({"params": "七十"}, "params", "Enter a number."),
        ({"params": "1e400"}, "params", "Ensure this value is less than or equal to 10000."),
        ({"params": "9" * 5000}, "params", "Ensure this value is less than or equal to 10000."),
        ({"params": "7.12345"}, "params", "Ensure that there are no more than 3 decimal places."),
        ({"tokens": ""}, "tokens", "A deadline can only be planned with the number of tokens."),
        ({"tokens": "0"}, "tokens", "Ensure this value is greater than or equal to 0.001."),
        ({"deadline": "-1"}, "deadline", "Ensure this value is greater than or equal to 0.1."),
        ({"sequence": "1.5"}, "sequence", "Enter a whole number."),
        ({"sequence": "9" * 5000}, "sequence", "Enter a whole number."),
        ({"sequence": "0"}, "sequence", "Ensure this value is greater than or equal to 1."),
        ({"concurrency": "10000000"}, "concurrency", "Ensure this value is less than or equal to 1000000."),
        ({"months": "61"}, "months", "Ensure this value is less than or equal to 60."),
        ({"hours": "745"}, "hours", "Ensure this value is less than or equal to 744."),
        ({"purpose": "mining"}, "purpose", "Select a valid choice. mining is not one of the available choices."),
        ({"precision": "fp2"}, "precision", "Select a valid choice. fp2 is not one of the available choices."),
    ],
)
def test_what_cannot_be_read_has_its_message_beside_it(client, state, field, message):
    html = ask(client, **FULL | state)

    assert messages(html) == {field: message}
    assert re.search(rf'name="{field}"[^>]*aria-invalid="true"', html)
    assert "No plan yet" in html


@pytest.mark.parametrize("said", ["７", "7B", "7 b", " 7 ", "7.0", "７Ｂ"])
def test_numbers_are_read_as_people_write_them(client, catalogue, said):
    assert plans(ask(client, **FULL | {"params": said}))[0] == ("NVIDIA H800 SXM5 80GB × 4", "¥792.00")


@pytest.mark.parametrize("said", ["4,096", "4 096", "４０９６", "４，０９６"])
def test_thousands_may_be_apart(client, catalogue, said):
    assert "6·1·4096·152064" in ask(client, **FULL | {"sequence": said})


def test_nothing_but_a_number_needs_more(client):
    html = ask(client, months="3")
    assert messages(html) == {"purpose": "Choose what to compute, or say who you are or what kind of work it is."}


def test_the_largest_need_is_answered(client, catalogue):
    html = ask(
        client, purpose="pretrain", params="10000", sequence="10000000", batch="1024", tokens="1000000",
        deadline="0.1", step_tokens="1", months="60", hours="744",
    )  # fmt: skip
    assert messages(html) == {}
    assert "No listed offer carries this" in html


def test_script_in_the_address_stays_text(client):
    html = ask(client, purpose="full", params='"><script>alert(1)</script>')
    assert "<script>alert" not in html


def test_only_reading_is_allowed(client):
    assert client.post(reverse("catalog:guide"), FULL).status_code == 405


# --- both languages, and what it costs -------------------------------------------------------------------------------
@pytest.mark.parametrize(("language", "address"), [("en", "/en/guide/"), ("zh-hans", "/guide/")])
def test_each_language_has_its_own_address(client, catalogue, language, address):
    with translation.override(language):
        assert reverse("catalog:guide") == address
    html = ask(client, language, **FULL)

    assert plans(html)[2] == ("NVIDIA H100 SXM5 80GB × 2", "¥866.80")
    assert ("Southeast China (Fuzhou)" if language == "en" else "华东南·福州") in html


@pytest.mark.parametrize("offers", [20, 200])
@pytest.mark.parametrize("state", [{}, FULL, {"stage": "growing", "scenario": "training"}])
def test_a_stranger_costs_two_statements_whatever_the_catalogue(client, offers, state):
    pool = builders.pool()
    builders.host(pool)
    for number in range(offers):
        builders.offer(pool, cards=(1, 2, 4, 8)[number % 4], rates=(str(22 + number % 7), "12000", "122400"))
    ask(client)  # what a connection learns once is not the page's

    with CaptureQueriesContext(connection) as queries:
        ask(client, hours="100", **state) if state else ask(client)
    assert len(queries) <= 2


def test_offers_that_differ_in_place_alone_are_one_choice(client):
    pool, elsewhere = builders.pool(), builders.pool(place=builders.region("cn-beijing", name_en="Beijing"))
    builders.host(elsewhere)
    builders.offer(pool, cards=2)
    builders.offer(elsewhere, cards=2)

    html = ask(client, **FULL)
    assert len(plans(html)) == 1
    assert "Beijing" in html


def test_a_model_on_quote_leads_to_its_offer(client, catalogue):
    html = ask(client, **FULL)
    assert 'href="/en/gpus/ascend-920-8x-fuzhou/"' in html
    assert "Its memory is not published" in html


def test_an_uncertain_figure_is_said(client):
    model = builders.gpu_model(uncertain={"memory_gb": "providers list 76"})
    builders.host(builders.offer(builders.pool(model), cards=2, rates=(Decimal(22),)).pool)
    html = ask(client, **FULL)

    assert "Estimate" in html
    assert "memory: providers list 76" in html
