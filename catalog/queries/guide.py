"""What the guide and the cost model are told of the catalogue: one statement, whatever the number of offers."""

from __future__ import annotations

from datetime import datetime

from catalog.guide import Card, Unit
from catalog.queries.prices import PRICES
from catalog.queries.stock import STOCK_OF_ALL
from marketplace.lib import prepared


def guide_units(*, currency: str, at: datetime) -> list[Unit]:
    """The offers on sale that have cards, with their rates in the currency and what is free now.

    Of offers that differ in nothing but place and stock there is one: that with the most free units.
    """
    rows = prepared.fetch_all(_UNITS, {"currency": currency, "at": at})
    split = len(Card._fields)
    return [_unit(row[:split], row[split:]) for row in rows]


def _unit(card: tuple, offer: tuple) -> Unit:
    slug, *rest = offer
    return Unit(slug, Card._make(card), *rest)


_UNITS = f"""
SELECT DISTINCT ON (m.id, o.cards_per_unit, o.quote_only, o.fabric, o.fabric_gbps, o.fabric_tested_on IS NULL,
                    p.hour, p.month, p.year)
       m.slug, m.name, m.family, m.memory_gb, m.bf16_tflops, m.fp8_tflops, m.fp4_tflops, m.interconnect_type,
       m.max_gpus_per_node, m.rental_class, m.domestic, m.uncertain::text,
       o.slug, o.cards_per_unit, r.name_zh, r.name_en, o.quote_only OR m.quote_only, o.fabric, o.fabric_gbps,
       o.fabric_tested_on IS NOT NULL, p.hour, p.month, p.year, s.units
  FROM catalog_offer o
  JOIN catalog_region r ON r.id = o.region_id AND r.enabled
  JOIN catalog_gpumodel m ON m.id = o.gpu_model_id
  {PRICES}
  {STOCK_OF_ALL}
 WHERE o.enabled AND o.cards_per_unit > 0
 ORDER BY m.id, o.cards_per_unit, o.quote_only, o.fabric, o.fabric_gbps, o.fabric_tested_on IS NULL,
          p.hour, p.month, p.year, s.units DESC, r.is_default DESC, o.slug"""  # noqa: S608 - fixed text only
