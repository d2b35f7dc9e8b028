"""The list and the detail page: what they show, how they are narrowed, and how many statements they cost."""

import re
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from catalog import inventory, loading
from catalog.models import Host, Price
from tests.catalog import builders

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def english(client):
    client.cookies["django_language"] = "en"


def page(client, query="", status=200):
    response = client.get(f"/gpus/{query}")
    assert response.status_code == status
    return response.content.decode()


@pytest.fixture
def three():
    h100 = builders.pool()
    builders.host(h100)
    ascend = builders.gpu_model(
        "ascend-910b3-64gb",
        name="Huawei Ascend 910B3 64GB",
        vendor="Huawei",
        family="Ascend 910B",
        memory_gb=64,
        bf16_tflops=Decimal("294.9"),
        memory_bandwidth_gbps=Decimal(1600),
        domestic=True,
        aliases=["910B", "昇腾910B"],
        uncertain={"bf16_tflops": "derived from the clock"},
    )
    npus = builders.pool(ascend, builders.region("cn-beijing", name_zh="华北·北京", name_en="Beijing"))
    builders.host(npus)
    cards = builders.gpu_model(
        "rtx-4090-24gb",
        name="NVIDIA GeForce RTX 4090 24GB",
        family="RTX 4090",
        memory_gb=24,
        bf16_tflops=None,
        interconnect_gbps=None,
        interconnect_type=None,
        aliases=["4090"],
    )
    return [
        builders.offer(h100, 8, slug="h100-8x"),
        builders.offer(npus, 2, ("6.8", "3700", "36400"), slug="ascend-2x"),
        builders.offer(builders.pool(cards), 1, ("1.98", "1010", "10300"), slug="rtx-1x"),
    ]


def slugs(html):
    return re.findall(r'offers__name"><a href="(?:/en)?/gpus/([^/]+)/', html)


def test_the_list_shows_price_stock_and_figures(client, three):
    html = page(client)

    assert slugs(html) == ["h100-8x", "ascend-2x", "rtx-1x"]
    for text in ("¥22.00", "¥12,000.00", "¥122,400.00", "8 cards", "1 unit", "3,350", "989.4", "NVLink 4", "Sold out"):
        assert text in html
    assert "derived from the clock" in html
    assert html.count('data-label="BF16">—') == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?family=H100", ["h100-8x"]),
        ("?vendor=Huawei", ["ascend-2x"]),
        ("?memory=64", ["h100-8x", "ascend-2x"]),
        ("?region=cn-beijing", ["ascend-2x"]),
        ("?domestic=on", ["ascend-2x"]),
        ("?available=on", ["h100-8x", "ascend-2x"]),
        ("?size=1", ["rtx-1x"]),
        ("?sort=price", ["rtx-1x", "ascend-2x", "h100-8x"]),
        ("?sort=-price&term=year", ["h100-8x", "ascend-2x", "rtx-1x"]),
        ("?sort=-memory", ["h100-8x", "ascend-2x", "rtx-1x"]),
        ("?sort=-bf16", ["h100-8x", "ascend-2x", "rtx-1x"]),
        ("?q=4090", ["rtx-1x"]),
        ("?q=rtx4090", ["rtx-1x"]),
        ("?q=昇腾910b", ["ascend-2x"]),
        ("?q=昇腾+910B", ["ascend-2x"]),
        ("?q=h+100", ["h100-8x"]),
        ("?q=北京", ["ascend-2x"]),
        ("?q=%25", []),
        ("?q=_", ["h100-8x", "ascend-2x", "rtx-1x"]),
    ],
)
def test_the_address_narrows_and_sorts_the_list(client, three, query, expected):
    assert slugs(page(client, query)) == expected


def test_nothing_found_says_what_to_do_next(client, three):
    html = page(client, "?family=H100&available=on&region=cn-beijing")

    assert "No offer matches" in html
    assert 'href="/en/gpus/">Show all cards' in html


def test_a_filter_that_cannot_be_read_is_named_and_narrows_nothing(client, three):
    html = page(client, "?region=atlantis&memory=lots&page=zero&term=week&size=-1")

    assert slugs(html) == ["h100-8x", "ascend-2x", "rtx-1x"]
    assert "atlantis is not one of the available choices" in html
    assert "lots is not a number that can be used here" in html


def test_each_currency_shows_its_own_rates_only(client, three):
    builders.price(three[0], rate="3.30", currency="USD")
    client.cookies["currency"] = "USD"

    html = page(client)

    assert "US$3.30" in html
    assert "¥" not in html.split("<tbody", 1)[1].split("</tbody>")[0]


def test_only_the_price_in_force_is_shown(client, three):
    now = timezone.now()
    Price.objects.filter(offer=three[0], meter="card_hour").update(valid_to=now - timedelta(days=2))
    builders.price(three[0], rate="23.50", start=now - timedelta(days=2), end=now + timedelta(days=2))
    builders.price(three[0], rate="99", start=now + timedelta(days=2))

    html = page(client)

    assert "¥23.50" in html
    assert "¥99.00" not in html
    assert "¥22.00" not in html


def test_offers_and_regions_that_are_off_are_not_shown(client, three):
    three[0].enabled = False
    three[0].save()
    three[1].region.enabled = False
    three[1].region.save()

    assert slugs(page(client)) == ["rtx-1x"]
    assert client.get("/gpus/h100-8x/").status_code == 404
    assert client.get("/gpus/ascend-2x/").status_code == 404


def test_a_sale_shows_at_once(client, three):
    assert 'aria-hidden="true"></span>8 cards' in page(client, "?family=H100")
    with transaction.atomic():
        inventory.claim(pool_id=three[0].pool_id, cards_per_unit=8, holders=[uuid4()], at=timezone.now())

    html = page(client, "?family=H100")
    assert 'aria-hidden="true"></span>8 cards' not in html
    assert "Sold out" in html
    assert slugs(page(client, "?family=H100&available=on")) == []


def test_the_counts_come_as_fragments_for_their_places(client, three):
    first = three[0]
    response = client.get(reverse("catalog:counts"), {"offers": f"{first.pk},{three[2].pk}"})
    html = response.content.decode()

    assert f'id="free-{first.pk}" class="free" hx-swap-oob="true"' in html
    assert "8 cards" in html
    assert html.count("Sold out") == 1
    assert "no-store" in response.headers["Cache-Control"]
    assert client.get(reverse("catalog:counts"), {"offers": "1;drop"}).status_code == 400
    assert client.get(reverse("catalog:counts")).content == b""


@pytest.mark.parametrize(("rows", "address"), [(1, "/gpus/"), (3, "/gpus/"), (3, "/gpus/?family=H100&q=h&sort=price")])
def test_the_list_costs_two_statements_whatever_its_length(client, django_assert_num_queries, rows, address):
    pool = builders.pool()
    builders.host(pool)
    for _ in range(rows):
        builders.offer(pool)
    with django_assert_num_queries(2):
        assert client.get(address).content.count(b"offers__name") == rows


@pytest.mark.parametrize("rows", [1, 3])
def test_the_detail_page_costs_three_statements_whatever_its_siblings(client, django_assert_num_queries, rows):
    pool = builders.pool(builders.gpu_model(sources={"memory_gb": ["ML"]}))
    offers = [builders.offer(pool) for _ in range(rows)]
    with django_assert_num_queries(3):
        client.get(f"/gpus/{offers[0].slug}/")


def test_the_real_catalogue_pages_through_in_both_languages(client):
    loading.load(at=timezone.now() - timedelta(days=1))
    seen = []
    for number in (1, 2):
        seen += slugs(page(client, f"?page={number}"))
    assert len(seen) == len(set(seen)) == 40
    page(client, "?page=3", status=404)
    client.cookies["django_language"] = "zh-hans"
    assert "华东南·福州" in page(client)


def test_every_detail_page_of_the_real_catalogue_opens(client):
    loading.load(at=timezone.now() - timedelta(days=1))
    for slug in (
        "h100-sxm5-80gb-8x-fuzhou",
        "ascend-910b3-64gb-8x-fuzhou",
        "ascend-920-8x-fuzhou",
        "h100-sxm5-80gb-8x-beijing",
    ):
        assert client.get(f"/gpus/{slug}/").status_code == 200


def test_the_detail_page_shows_every_term_with_its_saving(client):
    loading.load(at=timezone.now() - timedelta(days=1))
    html = client.get("/gpus/h100-sxm5-80gb-8x-fuzhou/").content.decode()

    for text in (
        "¥22.00",
        "¥176.00",
        "¥12,000.00",
        "¥96,000.00",
        "saves 25.3%",
        "¥122,400.00",
        "¥979,200.00",
        "saves 36.5%",
    ):
        assert text in html
    assert "48 cards" in html
    assert 'href="#source-1"' in html
    assert 'id="source-1"' in html
    assert "¥0.0003" in html
    assert "DGX H100" in html


def test_what_is_on_quote_leads_to_sales_and_not_to_an_order(client):
    loading.load(at=timezone.now() - timedelta(days=1))
    html = client.get("/gpus/ascend-920-8x-fuzhou/").content.decode()

    assert "On quote" in html
    assert "sold on quote only" in html
    assert "Press reports of April 2025 only" in html
    assert ">Rent<" not in html


def test_a_sold_out_offer_says_where_to_look_instead(client):
    loading.load(at=timezone.now() - timedelta(days=1))
    Host.objects.update(state="draining")
    html = client.get("/gpus/h100-sxm5-80gb-8x-fuzhou/").content.decode()

    assert "Nothing of this size is free now." in html
    assert "h100-sxm5-80gb-4x-fuzhou" in html


def test_the_home_page_sums_up_the_catalogue(client):
    loading.load(at=timezone.now() - timedelta(days=1))
    html = client.get("/").content.decode()

    assert ">304<" in html
    assert "¥1.98" in html
