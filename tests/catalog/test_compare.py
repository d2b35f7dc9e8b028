"""Offers side by side: what differs, what is best, what the money buys, and every wrong way to ask."""

import re
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import translation

from tests.catalog import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop():
    h100 = builders.pool()
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
            interconnect_type="HCCS",
            domestic=True,
            uncertain={"bf16_tflops": "derived from the clock"},
        ),
        builders.region("cn-beijing", name_zh="华北·北京", name_en="Beijing"),
    )
    builders.offer(h100, 8, slug="h100-8x", fabric="infiniband", fabric_gbps=Decimal(400), fabric_basis="DGX H100")
    builders.offer(h100, 1, slug="h100-1x")
    builders.offer(ascend, 8, ("6.8", "3700"), slug="ascend-8x")
    for number in range(3):
        builders.offer(h100, 2, slug=f"h100-2x-{number}")


def compare(client, *slugs, language="en", **others):
    with translation.override(language):
        response = client.get(reverse("catalog:compare"), {"offer": list(slugs), **others})
    assert response.status_code == 200
    return response.content.decode()


def line(html, label):
    """The cells of a row as text, with `differs` in front where it says so."""
    row = re.search(rf'<tr( data-differs)?><th scope="row">{re.escape(label)}(?: <|</th).*?</tr>', html, re.DOTALL)
    cells = re.findall(r"<td.*?</td>", row[0], re.DOTALL)
    texts = [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", cell).replace("&nbsp;", " ")).strip() for cell in cells]
    return (["differs"] if "compare__differs" in row[0] else []) + texts


def test_differences_and_best_values_are_marked_in_words(client, shop):
    html = compare(client, "h100-8x", "ascend-8x")

    assert line(html, "Per card-hour") == ["differs", "¥22.0000 8 cards: ¥176.00", "¥6.8000 best 8 cards: ¥54.40"]
    assert line(html, "Per card-month") == [
        "differs",
        "¥12,000.00 8 cards: ¥96,000.00 · saves 25.3%",
        "¥3,700.00 best 8 cards: ¥29,600.00 · saves 25.5%",
    ]
    assert line(html, "Per card-year") == [
        "differs",
        "¥122,400.00 8 cards: ¥979,200.00 · saves 36.5%",
        "— no price in this currency",
    ]
    assert line(html, "Memory") == ["differs", "80 GB best", "64 GB"]
    assert line(html, "Cards") == ["8", "8"]
    assert line(html, "Free cards") == ["differs", "8 best", "0"]
    assert line(html, "FP8") == ["— not published", "— not published"]
    assert line(html, "Domestic") == ["differs", "no", "yes"]


def test_what_the_money_buys_follows_the_term(client, shop):
    html = compare(client, "h100-8x", "ascend-8x")

    # 989.4 / 22 and 294.9 / 6.8; 80 / 22 and 64 / 6.8; 3350 / 22 and 1600 / 6.8
    assert line(html, "BF16 per ¥/h")[1] == "44.97 TFLOPS best"
    assert line(html, "BF16 per ¥/h")[2].startswith("43.37 TFLOPS")
    assert line(html, "Memory per ¥/h") == ["differs", "3.64 GB", "9.41 GB best"]
    assert line(html, "Memory bandwidth per ¥/h") == ["differs", "152.27 GB/s", "235.29 GB/s best"]
    # 80 × 730 / 12000 and 64 × 730 / 3700
    assert line(compare(client, "h100-8x", "ascend-8x", term="month"), "Memory per ¥/h") == [
        "differs",
        "4.87 GB",
        "12.63 GB best",
    ]


def test_uncertain_figures_carry_their_reason(client, shop):
    html = compare(client, "h100-8x", "ascend-8x")

    assert html.count("derived from the clock") == 4  # as text and as tooltip, of the rate and of what it is per yuan
    assert "Design value (DGX H100)" in html


def test_equal_offers_have_no_best_and_no_difference(client, shop):
    html = compare(client, "h100-2x-0", "h100-2x-1")

    assert "compare__best" not in html
    assert "compare__differs" not in html


def test_only_differences_can_be_shown(client, shop):
    html = compare(client, "h100-8x", "h100-1x", only="differences")

    assert "Per card-hour" not in html
    assert line(html, "Cards") == ["differs", "8", "1"]
    assert ">Show every row<" in html


def test_a_column_can_be_removed_and_ordered(client, shop):
    html = compare(client, "h100-8x", "ascend-8x", term="year")

    assert 'href="?offer=ascend-8x&amp;term=year">Remove' in html
    assert "/order/h100-8x/" in html
    assert "/order/ascend-8x/" not in html


@pytest.mark.parametrize(
    ("slugs", "message", "columns"),
    [
        ((), "Nothing to compare yet", 0),
        (("nope",), "nope is not on sale.", 0),
        (("h100-8x",), "One offer alone has nothing to be compared with", 1),
        (("h100-8x", "h100-8x"), "One offer alone has nothing to be compared with", 1),
        (("h100-8x", "nope", "ascend-8x"), "nope is not on sale.", 2),
        (
            ("h100-8x", "h100-1x", "ascend-8x", "h100-2x-0", "h100-2x-1", "h100-2x-2"),
            "4 offers fit beside each other; 2 more were left out.",
            4,
        ),
        (("<script>", " ", "h100-8x"), "&lt;script&gt; is not on sale.", 1),
    ],
)
def test_every_wrong_way_to_ask_gets_a_word(client, shop, slugs, message, columns):
    html = compare(client, *slugs)

    assert message in html
    assert html.count('<th scope="col">') == columns
    assert "<script>" not in html


def test_an_offer_that_was_switched_off_is_not_compared(client, shop):
    builders.Offer.objects.filter(slug="ascend-8x").update(enabled=False)

    assert "ascend-8x is not on sale." in compare(client, "h100-8x", "ascend-8x")


@pytest.mark.parametrize("slugs", [("h100-8x",), ("h100-8x", "h100-1x", "ascend-8x", "h100-2x-0")])
def test_a_comparison_costs_three_statements(client, django_assert_num_queries, shop, slugs):
    with django_assert_num_queries(3):
        compare(client, *slugs)


def test_the_list_sends_what_is_ticked_without_a_script(client, shop):
    with translation.override("en"):
        html = client.get(reverse("catalog:list")).content.decode()

    assert 'id="compare" method="get" action="/en/gpus/compare/"' in html
    assert '<input type="checkbox" name="offer" value="h100-8x" form="compare">' in html


def test_the_comparison_speaks_chinese(client, shop):
    html = compare(client, "h100-8x", "ascend-8x", language="zh-hans")

    assert "华北·北京" in html
    assert "Beijing" not in html
