"""The catalogue at a glance."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from catalog.queries.stock import STOCK_OF_ALL
from marketplace.lib import prepared


class Family(NamedTuple):
    name: str
    vendor: str
    models: list[str]
    from_rate: Decimal | None
    free_cards: int


@dataclass(frozen=True, slots=True)
class HomeSummary:
    """Cards free now, regions with an offer, and each family with its lowest card-hour rate in the asked currency."""

    free_cards: int
    regions: int
    families: list[Family]


def home_summary(currency: str, at: datetime) -> HomeSummary:
    """The catalogue at a glance: one statement over the pools and prices of what is on sale."""
    grouped: dict[str, Any] = defaultdict(lambda: {"vendor": "", "models": {}, "rates": [], "pools": {}})
    regions, pools = set(), {}
    for family, vendor, model, region, pool, cards, rate in prepared.fetch_all(_HOME, {"currency": currency, "at": at}):
        group = grouped[family]
        group["vendor"] = vendor
        group["models"][model] = None
        group["rates"].append(rate)
        group["pools"][pool] = pools[pool] = cards
        regions.add(region)
    families = [
        Family(
            name,
            group["vendor"],
            list(group["models"]),
            min((rate for rate in group["rates"] if rate is not None), default=None),
            sum(group["pools"].values()),
        )
        for name, group in grouped.items()
    ]
    return HomeSummary(sum(pools.values()), len(regions), families)


_HOME = f"""
SELECT m.family, m.vendor, m.name, o.region_id, coalesce(o.pool_id, 0), s.cards, p.rate
  FROM catalog_offer o
  JOIN catalog_region r ON r.id = o.region_id AND r.enabled
  JOIN catalog_gpumodel m ON m.id = o.gpu_model_id
  LEFT JOIN catalog_price p ON p.offer_id = o.id AND p.meter = 'card_hour' AND p.currency = %(currency)s
       AND p.valid_from <= %(at)s AND (p.valid_to IS NULL OR p.valid_to > %(at)s)
  {STOCK_OF_ALL}
 WHERE o.enabled
 ORDER BY o.quote_only, m.bf16_tflops DESC NULLS LAST, m.name, o.cards_per_unit"""  # noqa: S608 - fixed text only
