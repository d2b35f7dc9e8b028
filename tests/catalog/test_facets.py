"""Facets: exactly which offers each leaves, what it counts under the others, and what the page says of it."""

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation

from catalog.forms import ListQuery
from catalog.models import Host, Price
from catalog.queries import Facets, OfferFilter, offers
from marketplace.lib import clock
from orders.models import Subscription
from orders.supply import earliest_term_ends
from tests import factories
from tests.catalog import builders
from tests.catalog.builders import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop():
    """Five offers, each alone in something: h100 ×8 and ×1, an Ascend cluster, a 4090, and one on quote."""
    beijing = builders.region("cn-beijing", name_zh="华北·北京", name_en="Beijing")
    h100 = builders.pool(
        builders.gpu_model(fp64_tflops=Decimal(67), fp8_tflops=Decimal(1979), fp16_tflops=Decimal("989.4"))
    )
    builders.host(h100)
    ascend = builders.pool(
        builders.gpu_model(
            "ascend-910b3-64gb",
            name="Huawei Ascend 910B3 64GB",
            vendor="Huawei",
            family="Ascend 910B",
            memory_gb=64,
            memory_bandwidth_gbps=Decimal(1600),
            bf16_tflops=Decimal("294.9"),
            fp16_tflops=Decimal("294.9"),
            interconnect_type="HCCS",
            domestic=True,
            uncertain={"bf16_tflops": "derived from the clock"},
        ),
        beijing,
    )
    builders.host(ascend)
    builders.host(ascend)
    rtx = builders.pool(
        builders.gpu_model(
            "rtx-4090-24gb",
            name="NVIDIA GeForce RTX 4090 24GB",
            family="RTX 4090",
            memory_gb=24,
            bf16_tflops=Decimal("165.2"),
            fp16_tflops=Decimal("165.2"),
            fp8_tflops=Decimal("330.3"),
            interconnect_type="PCIe",
        )
    )
    reported = builders.gpu_model(
        "ascend-920",
        name="Ascend 920",
        vendor="Huawei",
        family="Ascend 920",
        memory_gb=None,
        bf16_tflops=None,
        interconnect_type=None,
        domestic=True,
    )
    network = {"fabric": "infiniband", "fabric_gbps": Decimal(400)}
    builders.offer(h100, 8, slug="h100-8x", cooling="liquid", isolation="bare_metal", **network)
    builders.offer(h100, 1, slug="h100-1x", **network)
    builders.offer(
        ascend, 8, ("6.8", "3700"), slug="ascend-8x", kind="cluster", fabric="rocev2", fabric_gbps=Decimal(200)
    )
    builders.offer(rtx, 2, ("1.98",), slug="rtx-2x")
    builders.offer(
        builders.pool(reported, beijing), 8, (), slug="quote-8x", gpu_model=reported, pool=None, quote_only=True
    )


ALL = {"h100-8x", "h100-1x", "ascend-8x", "rtx-2x", "quote-8x"}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ALL),
        ("family=H100", {"h100-8x", "h100-1x"}),
        ("family=H100&family=RTX+4090", {"h100-8x", "h100-1x", "rtx-2x"}),
        ("vendor=Huawei", {"ascend-8x", "quote-8x"}),
        ("domestic=on", {"ascend-8x", "quote-8x"}),
        ("memory=64", {"h100-8x", "h100-1x", "ascend-8x"}),
        ("memory_max=64", {"ascend-8x", "rtx-2x"}),
        ("memory=25&memory_max=79", {"ascend-8x"}),
        ("price_min=2", {"h100-8x", "h100-1x", "ascend-8x"}),
        ("price_max=6.8", {"ascend-8x", "rtx-2x"}),
        ("price_min=6.8&price_max=6.80", {"ascend-8x"}),
        ("precision=fp64", {"h100-8x", "h100-1x"}),
        ("precision=fp8", {"h100-8x", "h100-1x", "rtx-2x"}),
        ("precision=fp8&precision=fp64", {"h100-8x", "h100-1x"}),
        ("precision=fp8&rate=331", {"h100-8x", "h100-1x"}),
        ("precision=fp4", set()),
        ("rate=200", {"h100-8x", "h100-1x", "ascend-8x"}),
        ("link=nvlink", {"h100-8x", "h100-1x"}),
        ("link=hccs&link=pcie", {"ascend-8x", "rtx-2x"}),
        ("link=none", {"quote-8x"}),
        ("fabric=infiniband", {"h100-8x", "h100-1x"}),
        ("fabric=none", {"rtx-2x", "quote-8x"}),
        ("speed=200", {"h100-8x", "h100-1x", "ascend-8x"}),
        ("speed=200.5", {"h100-8x", "h100-1x"}),
        ("isolation=bare_metal", {"h100-8x"}),
        ("cooling=liquid", {"h100-8x"}),
        ("region=cn-beijing", {"ascend-8x", "quote-8x"}),
        ("kind=cluster", {"ascend-8x"}),
        ("size=1&size=2", {"h100-1x", "rtx-2x"}),
        ("priced=year", {"h100-8x", "h100-1x"}),
        ("priced=hour&priced=month", {"h100-8x", "h100-1x", "ascend-8x"}),
        ("available=on", {"h100-8x", "h100-1x", "ascend-8x"}),
        ("free=9", {"ascend-8x"}),
        ("vendor=Huawei&available=on&q=910", {"ascend-8x"}),
        ("family=H100&region=cn-beijing", set()),
    ],
)
def test_a_facet_leaves_exactly_its_offers(shop, query, found):
    asked = ListQuery.read(QueryDict(query))

    page = offers(asked.wanted, currency="CNY", at=NOON)

    assert asked.problems == {}
    assert {row.slug for row in page.rows} == found
    assert page.total == len(found)


@pytest.mark.parametrize(
    ("sort", "term", "found"),
    [
        ("", "hour", ["h100-1x", "h100-8x", "ascend-8x", "rtx-2x", "quote-8x"]),
        ("price", "hour", ["rtx-2x", "ascend-8x", "h100-1x", "h100-8x", "quote-8x"]),
        ("-price", "month", ["h100-1x", "h100-8x", "ascend-8x", "rtx-2x", "quote-8x"]),
        # 22 / 989.4 = 0.02224, 6.8 / 294.9 = 0.02306, 1.98 / 165.2 = 0.01199
        ("tflops", "hour", ["rtx-2x", "h100-1x", "h100-8x", "ascend-8x", "quote-8x"]),
        # 80 / 22 = 3.6, 64 / 6.8 = 9.4, 24 / 1.98 = 12.1
        ("memory-value", "hour", ["rtx-2x", "ascend-8x", "h100-1x", "h100-8x", "quote-8x"]),
        ("-free", "hour", ["ascend-8x", "h100-1x", "h100-8x", "rtx-2x", "quote-8x"]),
        ("-memory", "hour", ["h100-1x", "h100-8x", "ascend-8x", "rtx-2x", "quote-8x"]),
    ],
)
def test_the_list_is_sorted(shop, sort, term, found):
    rows = offers(OfferFilter(sort=sort, term=term), currency="CNY", at=NOON).rows

    assert [row.slug for row in rows] == found


def counts(**wanted):
    return Facets.read(offers(OfferFilter(**wanted), currency="CNY", at=NOON).facets)


def test_every_value_is_counted(shop):
    found = counts()

    assert found.counts == {
        "family": {"H100": 2, "Ascend 910B": 1, "RTX 4090": 1, "Ascend 920": 1},
        "vendor": {"NVIDIA": 3, "Huawei": 2},
        "region": {"cn-fuzhou": 3, "cn-beijing": 2},
        "kind": {"server": 2, "gpu": 2, "cluster": 1},
        "size": {"8": 3, "1": 1, "2": 1},
        "link": {"nvlink": 2, "hccs": 1, "pcie": 1, "none": 1},
        "fabric": {"infiniband": 2, "rocev2": 1, "none": 2},
        "isolation": {"bare_metal": 1, "container": 4},
        "cooling": {"liquid": 1, "air": 4},
        "precision": {"fp64": 2, "bf16": 4, "fp16": 4, "fp8": 3},
        "priced": {"hour": 4, "month": 3, "year": 2},
        "speed": {"400.000": 2, "200.000": 1},
        "memory": {"80": 2, "64": 1, "24": 1},
        "free": {"available": 3},
        "domestic": {"domestic": 2},
    }
    assert (found.lowest, found.highest) == (Decimal("1.98"), Decimal(22))
    assert (
        found.regions
        == {"cn-fuzhou": ("华东南·福州", "Fuzhou"), "cn-beijing": ("华北·北京", "Beijing")} | found.regions
    )


def test_a_facet_is_counted_under_the_others_and_not_under_itself(shop):
    found = counts(vendor=("NVIDIA",), cooling=("air",))

    assert found.counts["vendor"] == {"NVIDIA": 2, "Huawei": 2}
    assert found.counts["cooling"] == {"liquid": 1, "air": 2}
    assert found.counts["family"] == {"H100": 1, "RTX 4090": 1, "Ascend 910B": 0, "Ascend 920": 0}
    assert found.counts["domestic"] == {"domestic": 0}
    assert (found.lowest, found.highest) == (Decimal("1.98"), Decimal(22))


def test_what_dropping_one_filter_would_bring_is_counted(shop):
    found = counts(family=("H100",), region=("cn-beijing",), available=True)

    assert found.without == {"family": 1, "region": 2}


def test_prices_and_their_range_are_of_the_asked_currency(shop):
    page = offers(OfferFilter(price_max=Decimal(100)), currency="USD", at=NOON)

    assert page.rows == ()
    assert (Facets.read(page.facets).lowest, Facets.read(page.facets).without) == (None, {"price": 5})


def test_an_empty_catalogue_has_no_facets(client):
    page = offers(OfferFilter(), currency="CNY", at=NOON)

    assert (page.rows, page.total) == ((), 0)
    assert replace(Facets.read(page.facets), regions={}) == Facets()


@pytest.mark.parametrize(
    ("query", "problems"),
    [
        ("memory=lots", {"memory"}),
        ("memory=-1&memory_max=1e3", {"memory", "memory_max"}),
        ("size=0x8", {"size"}),
        ("price_min=NaN&price_max=%EF%BC%91", {"price_min", "price_max"}),
        ("rate=99999999999999", {"rate"}),
        ("free=1.5", {"free"}),
        ("kind=castle&link=nvlink", {"kind"}),
        ("precision=fp3&precision=fp8", {"precision"}),
        ("sort=beauty&term=week&view=globe&page=-1&available=0", set()),
    ],
)
def test_what_cannot_be_read_is_named_and_narrows_nothing(query, problems):
    read = ListQuery.read(QueryDict(query))

    assert set(read.problems) == problems
    usual = OfferFilter()
    assert replace(read.wanted, link=(), precision=()) == usual
    assert (read.view, read.page) == ("cards", 1)


# --- the page --------------------------------------------------------------------------------------------------------
def page(client, query="", language="en"):
    with translation.override(language):
        response = client.get(reverse("catalog:list") + query)
    assert response.status_code == 200
    return response.content.decode()


def test_the_panel_shows_counts_and_closes_what_leads_nowhere(client, shop):
    html = page(client, "?vendor=Huawei")

    assert 'id="f-vendor-Huawei" name="vendor" value="Huawei" checked><span>Huawei</span>' in html
    assert re.search(r'value="hccs"><span>HCCS</span><span class="facet__count">1<', html)
    assert re.search(r'value="nvlink" disabled><span>NVLink</span><span class="facet__count">0<', html)
    assert 'name="family" value="H100"' not in html


def test_what_is_set_stands_as_chips_that_take_it_away(client, shop):
    html = page(client, "?family=H100&size=8&q=h100&term=month&junk=1")

    assert 'class="chip" href="?q=h100&amp;size=8&amp;term=month">Family: H100<' in html
    assert 'class="chip" href="?q=h100&amp;family=H100&amp;term=month">Cards per unit: 8<' in html
    assert 'class="chip" href="?family=H100&amp;size=8&amp;term=month">“h100”<' in html
    assert 'class="chips__clear" href="?term=month"' in html


def test_nothing_found_names_the_nearest_filter_to_drop(client, shop):
    html = page(client, "?family=H100&region=cn-beijing")

    assert "“" not in html.split('class="empty"')[1]
    assert '<a href="?family=H100">Without Region: Beijing</a> <span class="muted">2 offers<' in html
    assert '<a href="?region=cn-beijing">Without Family: H100</a> <span class="muted">2 offers<' in html


def test_a_row_says_the_price_of_eight_cards_and_what_a_term_saves(client, shop):
    html = page(client, "?q=h100+8卡&term=month&sort=tflops")

    assert "¥22.0000" in html
    assert "×8 ¥176.00" in html
    # 12,000 against 22 × 730 = 16,060; 122,400 against 22 × 8,760 = 192,720
    assert "saves 25.3%" in html
    assert "saves 36.5%" in html
    assert "×8 ¥96,000.00" in html
    assert "¥16.4384 per hour" in html
    # 16.4384 / 989.4
    assert "¥0.0166 per BF16 TFLOPS and hour" in html
    assert "Prices include tax." in html


def test_the_list_says_when_its_counts_were_true(client, shop):
    assert re.search(r'<time id="as-of">\d\d:\d\d:\d\d</time>', page(client))


def test_an_address_makes_no_markup(client, shop):
    html = page(client, "?q=%22%3E%3Cscript%3E&family=%22%3E%3Cscript%3E&memory=%3Cscript%3E")

    assert "<script>" not in html


def test_the_page_speaks_the_readers_language(client, shop):
    html = page(client, "?region=cn-beijing", "zh-hans")

    assert "华北·北京" in html
    assert "Beijing" not in html


def test_sold_out_names_what_is_free_instead_and_when_a_term_ends(client, shop):
    at = clock.now()
    Host.objects.filter(pool__gpu_model__slug="rtx-4090-24gb").delete()
    beijing = builders.pool(builders.gpu_model("rtx-4090-24gb"), builders.region("cn-beijing"))
    builders.host(beijing)
    builders.offer(beijing, 1, ("1.98",), slug="rtx-beijing")

    html = page(client, "?family=RTX+4090&region=cn-fuzhou")

    assert 'data-status="sold_out"' in html
    assert re.search(r'Free now instead:.*?/gpus/rtx-beijing/">NVIDIA GeForce RTX 4090 24GB × 1, Beijing</a>', html)
    assert "#waitlist" in html
    assert earliest_term_ends([beijing.pk], at=at) == {}


def test_the_earliest_end_of_a_running_term_is_known_by_pool():
    at = clock.now()
    organization = factories.organization()
    offer = factories.offer(hosts=2)
    for days in (30, 12):
        order = factories.order(organization, offer, at=at)
        factories.rental(order, at=at)
        Subscription.objects.filter(order_line__order=order).update(started_at=at, ends_at=at + timedelta(days=days))

    assert earliest_term_ends([offer.pool_id], at=at) == {offer.pool_id: at + timedelta(days=12)}
    assert earliest_term_ends([offer.pool_id], at=at + timedelta(days=12)) == {offer.pool_id: at + timedelta(days=30)}
    Subscription.objects.update(ended_at=at)
    assert earliest_term_ends([offer.pool_id], at=at) == {}


@pytest.mark.parametrize("query", ["", "?q=h100&price_max=30&precision=bf16&sort=tflops&view=table"])
def test_the_list_costs_the_same_for_1_3_20_and_200_offers(client, query):
    pool = builders.pool()
    builders.host(pool)
    spent, made = [], 0
    for size in (1, 3, 20, 200):
        while made < size:
            builders.offer(pool)
            made += 1
        with CaptureQueriesContext(connection) as queries:
            html = page(client, query)
        assert html.count('class="offers__name"') == min(size, 20)
        spent.append(len(queries))
    assert spent == [2, 2, 2, 2]


def test_a_page_with_sold_out_offers_costs_three_statements(client, django_assert_num_queries, shop):
    with django_assert_num_queries(3):
        page(client)


def test_a_changed_price_is_in_the_next_answer(client, shop):
    assert "¥1.9800" in page(client, "?family=RTX+4090")
    Price.objects.filter(offer__slug="rtx-2x").update(valid_to=clock.now())

    assert "¥1.9800" not in page(client, "?family=RTX+4090")
