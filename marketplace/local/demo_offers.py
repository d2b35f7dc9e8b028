"""What a local installation shows on offers' pages and nobody has: older prices and a network's acceptance test.

Invented, and called a demonstration wherever it is words. Deliveries are never invented: they are measured on the demo
machines that really were made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

from django.db import transaction
from django.utils import timezone

from catalog.models import Offer, Price

# Days before the first real price, and what the price was then against it.
STEPS = ((210, Decimal("1.18")), (120, Decimal("1.10")), (45, Decimal("1.04")))
# Models whose prices have a past here, and the offers whose network was “tested”.
WITH_A_PAST = ("h100-sxm5-80gb", "h200-sxm-141gb", "rtx-4090-24gb", "ascend-910b3-64gb")
TESTED = ("h100-sxm5-80gb-8x-fuzhou", "h200-sxm-141gb-8x-fuzhou")
# Its Chinese is in catalog/data/texts.json.
REPORT = "DEMO-2026-11: a demonstration, no real test took place"


@transaction.atomic
def seed(*, at: datetime) -> None:
    """Add what is missing. Safe to repeat."""
    day = timezone.localdate(at - timedelta(days=10), timezone.get_default_timezone())
    Offer.objects.filter(slug__in=TESTED, fabric_report="", fabric_tested_on=None).update(
        fabric_report=REPORT, fabric_tested_on=day
    )
    Price.objects.bulk_create(_older_prices())


def _older_prices() -> list[Price]:
    """The steps that led to the only price of a meter; where it has more than one, it has a past already."""
    meters = [Price.Meter.CARD_HOUR, Price.Meter.MONTH, Price.Meter.YEAR]
    known = defaultdict(list)
    for price in Price.objects.filter(offer__gpu_model__slug__in=WITH_A_PAST, meter__in=meters):
        known[price.offer_id, price.meter, price.currency].append(price)
    return [older for prices in known.values() if len(prices) == 1 for older in _steps_to(prices[0])]


def _steps_to(price: Price) -> Iterator[Price]:
    begins = [price.valid_from - timedelta(days=days) for days, _factor in STEPS]
    ends = [*begins[1:], price.valid_from]
    for (_days, factor), start, end in zip(STEPS, begins, ends, strict=True):
        yield Price(
            offer_id=price.offer_id,
            meter=price.meter,
            currency=price.currency,
            rate=_rounded(price.rate * factor),
            valid_from=start,
            valid_to=end,
        )


def _rounded(rate: Decimal) -> Decimal:
    """As a price list would: to tens above a thousand, else to a tenth."""
    step = Decimal(10) if rate > 1000 else Decimal("0.1")
    return (rate / step).quantize(Decimal(1), ROUND_HALF_UP) * step
