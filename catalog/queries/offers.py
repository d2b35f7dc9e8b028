"""Rows of offers: what the pages show of each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from catalog.queries.prices import PRICES
from catalog.queries.stock import STOCK, STOCK_OF_ALL
from marketplace.lib import prepared

MOST_RELATED = 40


class OfferRow(NamedTuple):
    """What the list shows of one offer, and nothing else: equal rows look the same.

    Prices are per card in the asked currency, None where there is none. `doubts` is the JSON text of the model's
    uncertain fields. `free_cards` and `free_units` are what may be sold now. `instead` is JSON text: of an offer that
    is sold out the nearest ones that are not, `[slug, model, cards per unit, region zh, region en, free cards]` each.
    """

    id: int
    slug: str
    kind: str
    cards_per_unit: int
    quote_only: bool
    fabric: str
    fabric_gbps: Decimal | None
    fabric_basis: str
    fabric_tested: bool
    region_code: str
    region_zh: str
    region_en: str
    model: str
    vendor: str
    memory_gb: int | None
    memory_type: str | None
    bandwidth_gbps: Decimal | None
    bf16_tflops: Decimal | None
    link: str | None
    link_gbps: Decimal | None
    domestic: bool
    doubts: str
    hour: Decimal | None
    month: Decimal | None
    year: Decimal | None
    free_cards: int
    free_units: int
    cooling: str
    isolation: str
    pool_id: int | None
    instead: str = ""


# Each field of an OfferRow from an offer `o`, its region `r`, model `m`, prices `p` and stock `s`.
_EXPRESSIONS = {
    "fabric_tested": "o.fabric_tested_on IS NOT NULL", "region_code": "r.code", "region_zh": "r.name_zh",
    "region_en": "r.name_en", "model": "m.name", "bandwidth_gbps": "m.memory_bandwidth_gbps",
    "link": "m.interconnect_type", "link_gbps": "m.interconnect_gbps", "doubts": "m.uncertain::text",
    "free_cards": "s.cards", "free_units": "s.units",
    **{name: f"m.{name}" for name in ("vendor", "memory_gb", "memory_type", "bf16_tflops", "domestic")},
    **{name: f"p.{name}" for name in ("hour", "month", "year")},
}  # fmt: skip
STORED = OfferRow._fields[:-1]
COLUMNS = ", ".join(f"{_EXPRESSIONS.get(name, f'o.{name}')} AS {name}" for name in STORED)


def rows_of(offer_ids: Sequence[int], *, currency: str, at: datetime) -> dict[int, OfferRow]:
    """These offers, as far as they are on sale: one statement."""
    rows = prepared.fetch_all(_OF_OFFERS, {"currency": currency, "at": at, "offers": list(offer_ids)})
    return {row[0]: OfferRow._make((*row, "")) for row in rows}


def related_rows(offer_id: int, *, currency: str, at: datetime) -> list[OfferRow]:
    """Offers on sale to choose from beside one: the same model's (it is among them), then units of as many cards whose
    memory is within a third of its; nearest memory first. One statement, at most MOST_RELATED rows.
    """
    rows = prepared.fetch_all(_RELATED, {"currency": currency, "at": at, "offer": offer_id})
    return [OfferRow._make((*row, "")) for row in rows]


_OF_OFFERS = f"""
SELECT {COLUMNS}
  FROM catalog_offer o
  JOIN catalog_region r ON r.id = o.region_id
  JOIN catalog_gpumodel m ON m.id = o.gpu_model_id
  {PRICES}
  {STOCK}
 WHERE o.enabled AND r.enabled AND o.id = ANY(%(offers)s::bigint[])"""  # noqa: S608 - fixed text only

_RELATED = f"""
SELECT {COLUMNS}
  FROM catalog_offer o
  JOIN catalog_region r ON r.id = o.region_id
  JOIN catalog_gpumodel m ON m.id = o.gpu_model_id
  {PRICES}
  {STOCK_OF_ALL}
  JOIN catalog_offer own ON own.id = %(offer)s
  JOIN catalog_gpumodel model ON model.id = own.gpu_model_id
 WHERE o.enabled AND r.enabled AND (o.gpu_model_id = own.gpu_model_id OR (
       o.cards_per_unit = own.cards_per_unit AND NOT o.quote_only
       AND m.memory_gb * 4 BETWEEN model.memory_gb * 3 AND model.memory_gb * 16 / 3))
 ORDER BY o.id <> own.id, o.gpu_model_id <> own.gpu_model_id, abs(m.memory_gb - model.memory_gb),
          s.units = 0, o.cards_per_unit, r.is_default DESC, o.slug
 LIMIT {MOST_RELATED}"""  # noqa: S608 - fixed text only
