"""The demonstration's past prices and network test: added once, and marked."""

from datetime import timedelta
from decimal import Decimal

import pytest

from catalog import loading
from catalog.models import Offer, Price
from marketplace.lib import clock

pytestmark = pytest.mark.django_db


def test_prices_get_a_past_once_and_keep_the_present():
    from marketplace.local import demo_offers  # noqa: PLC0415 - asks for DEBUG

    at = clock.now()
    loading.load(at=at)
    before = Price.objects.count()

    demo_offers.seed(at=at)
    demo_offers.seed(at=at)

    rows = Price.objects.filter(offer__slug="h100-sxm5-80gb-8x-fuzhou", meter="card_hour", currency="CNY")
    assert [(row.rate, row.valid_from, row.valid_to) for row in rows.order_by("valid_from")] == [
        (Decimal("26.0"), at - timedelta(days=210), at - timedelta(days=120)),
        (Decimal("24.2"), at - timedelta(days=120), at - timedelta(days=45)),
        (Decimal("22.9"), at - timedelta(days=45), at),
        (Decimal("22"), at, None),
    ]
    offers = Offer.objects.filter(gpu_model__slug__in=demo_offers.WITH_A_PAST, pool__isnull=False).count()
    assert Price.objects.count() == before + offers * 3 * 2 * 3
    tested = Offer.objects.exclude(fabric_tested_on=None)
    assert {offer.slug for offer in tested} == set(demo_offers.TESTED)
    assert all("a demonstration, no real test" in offer.fabric_report for offer in tested)
    assert loading.load(at=at).changes == []
