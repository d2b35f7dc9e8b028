"""What people type into the search field, and what it finds."""

import pytest

from catalog.queries import OfferFilter, offers, search
from tests.catalog import builders
from tests.catalog.builders import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop():
    fuzhou = builders.region()
    beijing = builders.region("cn-beijing", name_zh="华北·北京", name_en="North China (Beijing)")
    a100 = builders.gpu_model("a100-sxm4-80gb", name="NVIDIA A100 SXM4 80GB", family="A100", aliases=["A100"])
    a10 = builders.gpu_model(
        "a10-24gb", name="NVIDIA A10 24GB", family="A10", aliases=["A10"], interconnect_type="PCIe"
    )
    rtx = builders.gpu_model(
        "rtx-4090-24gb",
        name="NVIDIA GeForce RTX 4090 24GB",
        family="RTX 4090",
        aliases=["RTX4090", "4090"],
        interconnect_type="PCIe",
    )
    ascend = builders.gpu_model(
        "ascend-910b3-64gb",
        name="Huawei Ascend 910B3 64GB",
        vendor="Huawei",
        family="Ascend 910B",
        aliases=["昇腾910B"],
        domestic=True,
        interconnect_type="HCCS",
    )
    builders.offer(builders.pool(), 8, slug="h100-8x", fabric="infiniband", isolation="bare_metal")
    builders.offer(builders.pool(), 1, slug="h100-1x")
    builders.offer(builders.pool(a100, beijing), 8, slug="a100-beijing", cooling="liquid")
    builders.offer(builders.pool(a100, fuzhou), 8, slug="a100-fuzhou")
    builders.offer(builders.pool(a10), 1, slug="a10-1x")
    builders.offer(builders.pool(rtx), 2, slug="rtx-2x")
    builders.offer(builders.pool(ascend), 8, slug="ascend-8x")


ALL = {"h100-8x", "h100-1x", "a100-beijing", "a100-fuzhou", "a10-1x", "rtx-2x", "ascend-8x"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4090", {"rtx-2x"}),
        ("RTX4090", {"rtx-2x"}),
        ("rtx 4090", {"rtx-2x"}),
        ("RTX-4090", {"rtx-2x"}),
        ("ＲＴＸ４０９０", {"rtx-2x"}),
        ("昇腾910b", {"ascend-8x"}),
        ("昇腾 910 B", {"ascend-8x"}),
        ("华为", {"ascend-8x"}),
        ("国产", {"ascend-8x"}),
        ("h 100", {"h100-8x", "h100-1x"}),
        ("H-100", {"h100-8x", "h100-1x"}),
        ("ｈ１００", {"h100-8x", "h100-1x"}),
        ("h100 8卡", {"h100-8x"}),
        ("8卡h100", {"h100-8x"}),
        ("八卡 H100 服务器租赁", {"h100-8x"}),
        ("8x h100", {"h100-8x"}),
        ("H100×8", {"h100-8x"}),
        ("h100 8 cards", {"h100-8x"}),
        ("单卡 h100", {"h100-1x"}),
        ("北京 a100", {"a100-beijing"}),
        ("北京a100", {"a100-beijing"}),
        ("A100 Beijing", {"a100-beijing"}),
        ("a100", {"a100-beijing", "a100-fuzhou"}),
        ("a10", {"a10-1x"}),
        ("100", {"h100-8x", "h100-1x", "a100-beijing", "a100-fuzhou"}),
        ("a100 80g", {"a100-beijing", "a100-fuzhou"}),
        ("a100 液冷", {"a100-beijing"}),
        ("裸金属", {"h100-8x"}),
        ("bare metal", {"h100-8x"}),
        ("IB h100", {"h100-8x"}),
        ("hccs", {"ascend-8x"}),
        ("显卡", ALL),
        ("", ALL),
        ("_", ALL),
        ("%", set()),
        ("a100 (", {"a100-beijing", "a100-fuzhou"}),
        ("[h", set()),
        ("\\", set()),
        ("h100 tokyo", set()),
        ("h100 4卡", set()),
    ],
)
def test_search_forgives_how_a_card_is_written(shop, text, found):
    rows = offers(OfferFilter(text=text), currency="CNY", at=NOON).rows

    assert {row.slug for row in rows} == found


def test_a_card_whose_name_ends_in_x8_is_no_unit_of_eight():
    assert search.read("MLU370-X8").sizes == ()


def test_a_long_text_is_looked_at_as_far_as_anybody_types():
    assert len(search.read(" ".join(f"w{number}" for number in range(100))).patterns) == search.MOST_WORDS
