"""Questions about the catalogue. Lists cost a fixed number of statements, whatever their length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from django.db import connection

from catalog.inventory import RESERVED
from catalog.models import Price
from marketplace.lib import prepared

PAGE_SIZE = 20
TERMS = ("hour", "month", "year")


class OfferRow(NamedTuple):
    """What the list shows of one offer, and nothing else: equal rows look the same.

    Prices are per card in the asked currency, None where there is none. `doubts` is the JSON text of the model's
    uncertain fields. `free_cards` and `free_units` are what may be sold now.
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


@dataclass(frozen=True, slots=True)
class OfferFilter:
    """What the list is narrowed to and how it is sorted; empty means everything."""

    family: str = ""
    vendor: str = ""
    region: str = ""
    memory: int | None = None
    domestic: bool = False
    available: bool = False
    size: int | None = None
    text: str = ""
    sort: str = ""
    term: str = "hour"


class OfferPage(NamedTuple):
    rows: list[OfferRow]
    total: int


class Facets(NamedTuple):
    """What the filters can be set to: values that at least one offer on sale has."""

    families: tuple[str, ...]
    vendors: tuple[str, ...]
    regions: tuple[tuple[str, str, str], ...]
    memories: tuple[int, ...]
    sizes: tuple[int, ...]


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


class Stock(NamedTuple):
    """Of one offer: what may be sold now."""

    cards: int
    units: int
    quote_only: bool


def offers(wanted: OfferFilter, *, currency: str, at: datetime, page: int = 1) -> OfferPage:
    """One page of the offers on sale that match, sorted, with prices, free stock and the total: one statement.

    A page past the end is empty, its total 0.
    """
    conditions, parameters = _conditions(wanted)
    parameters |= {"currency": currency, "at": at, "limit": PAGE_SIZE, "offset": (page - 1) * PAGE_SIZE}
    statement = f"""
        {_SELECT}
        WHERE {" AND ".join(["o.enabled", "r.enabled", *conditions])}
        ORDER BY {_order(wanted)}, o.slug LIMIT %(limit)s OFFSET %(offset)s"""
    rows = prepared.fetch_all(statement, parameters)
    return OfferPage([OfferRow._make(row[:-1]) for row in rows], rows[0][-1] if rows else 0)


def offer_rows(*, currency: str, at: datetime, gpu_model_id: int) -> list[OfferRow]:
    """Every offer on sale of one GPU model, smallest unit first."""
    statement = f"{_SELECT} WHERE o.enabled AND r.enabled AND o.gpu_model_id = %(model)s {_BY_SIZE}"
    rows = prepared.fetch_all(statement, {"currency": currency, "at": at, "model": gpu_model_id})
    return [OfferRow._make(row[:-1]) for row in rows]


def facets() -> Facets:
    """The choices of the list's filters: one statement."""
    ((families, vendors, memories, sizes, regions),) = prepared.fetch_all(_FACETS, {})
    return Facets(
        tuple(families or ()),
        tuple(vendors or ()),
        tuple(tuple(region) for region in regions or ()),
        tuple(memories or ()),
        tuple(sizes or ()),
    )


def stock(offer_ids: Iterable[int], *, at: datetime | None = None) -> dict[int, Stock]:
    """Free cards and units by offer, as of now; reservations that end after `at` (now) are kept back."""
    statement = (
        f"SELECT o.id, s.cards, s.units, o.quote_only FROM catalog_offer o {_STOCK} WHERE o.id = ANY(%(offers)s)"  # noqa: S608
    )
    rows = prepared.fetch_all(statement, {"offers": list(offer_ids), "at": at})
    return {offer: Stock(*counts) for offer, *counts in rows}


def free_units(pool_id: int, cards_per_unit: int, *, at: datetime | None = None) -> int:
    """Units of this many cards that one host each could take now, less what is reserved from `at` (now) on."""
    ((units,),) = prepared.fetch_all(
        f"SELECT s.units FROM (SELECT %(pool)s::bigint AS pool_id, %(cards)s::int AS cards_per_unit) o {_STOCK}",  # noqa: S608
        {"pool": pool_id, "cards": cards_per_unit, "at": at},
    )
    return int(units)


def free_cards(pool_ids: Iterable[int]) -> dict[int, int]:
    """Free healthy cards on the active hosts of each pool; a paused pool has none to sell."""
    ids = list(pool_ids)
    statement = """
        SELECT p.id, coalesce(sum(h.cards_free), 0)::int FROM catalog_pool p
          LEFT JOIN catalog_host h ON h.pool_id = p.id AND h.state = 'active' AND p.paused_reason = ''
         WHERE p.id = ANY(%(pools)s) GROUP BY p.id"""
    return dict(_all(statement, {"pools": ids}))


def current_prices(offer_ids: int | Sequence[int], currency: str, at: datetime) -> dict[int, dict[str, Price]]:
    """The prices in force at the instant, by offer and meter; an offer without any has an empty entry."""
    ids = [offer_ids] if isinstance(offer_ids, int) else list(offer_ids)
    prices: dict[int, dict[str, Price]] = {offer: {} for offer in ids}
    for price in Price.objects.filter(offer__in=ids, currency=currency).in_force(at):
        prices[price.offer_id][price.meter] = price
    return prices


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


# --- parts of the statements -----------------------------------------------------------------------------------------
def _all(statement: str, parameters: dict[str, Any]) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall()


def _conditions(wanted: OfferFilter) -> tuple[list[str], dict[str, Any]]:
    """Fixed fragments for the filters that are set, and every value as a parameter."""
    conditions = [fragment for name, fragment in _WHERE.items() if getattr(wanted, name)]
    parameters: dict[str, Any] = {
        "family": wanted.family,
        "vendor": wanted.vendor,
        "region": wanted.region,
        "memory": wanted.memory,
        "size": wanted.size,
    }
    for number, word in enumerate(_words(wanted.text)):
        conditions.append(f"{_SEARCHED} LIKE %(word{number})s")
        parameters[f"word{number}"] = f"%{_literal(word)}%"
    return conditions, parameters


def _order(wanted: OfferFilter) -> str:
    price = f"p.{wanted.term if wanted.term in TERMS else 'hour'}"
    return {
        "price": f"{price} ASC NULLS LAST",
        "-price": f"{price} DESC NULLS LAST",
        "-memory": "m.memory_gb DESC NULLS LAST",
        "-bf16": "m.bf16_tflops DESC NULLS LAST",
        "-free": "s.cards DESC",
    }.get(wanted.sort, _USUAL_ORDER)


def _words(text: str) -> list[str]:
    """The search words as the index text knows them: lower case, without spaces inside a name (h 100, 昇腾 910b)."""
    plain = text.lower().replace("昇腾", " ascend ").replace("华为", " huawei ").replace("英伟达", " nvidia ")
    words: list[str] = []
    for word in plain.replace("-", " ").replace("_", " ").split():
        # A number that follows a lone letter belongs to it: “h 100” is H100.
        if words and len(words[-1]) == 1 and word[0].isdigit():
            words[-1] += word
        else:
            words.append(word)
    return words


def _literal(word: str) -> str:
    """The word with LIKE's own signs made ordinary."""
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


_USUAL_ORDER = "o.quote_only, (s.cards = 0), m.bf16_tflops DESC NULLS LAST, m.name, o.cards_per_unit"
_BY_SIZE = "ORDER BY o.cards_per_unit, r.is_default DESC, o.slug"

# Names, aliases, vendor and family without spaces and hyphens, so that “rtx4090” and “RTX 4090” are the same.
_SEARCHED = (
    "translate(lower(m.slug || ' ' || m.name || ' ' || m.vendor || ' ' || array_to_string(m.aliases, ',') || ','"
    " || coalesce(m.architecture, '') || ',' || r.name_zh || ',' || r.name_en), ' -', '')"
)

_WHERE = {
    "family": "m.family = %(family)s",
    "vendor": "m.vendor = %(vendor)s",
    "region": "r.code = %(region)s",
    "memory": "m.memory_gb >= %(memory)s",
    "domestic": "m.domestic",
    "available": "s.units > 0",
    "size": "o.cards_per_unit = %(size)s",
}

_AT = "coalesce(%(at)s, now())"

# Derived from the hosts’ counters, because offers of different size share hosts. For a list, one pass over the hosts;
# a subquery per offer costs twice as much.
_STOCK = f"""
LEFT JOIN LATERAL (
  SELECT greatest(0, coalesce(sum(h.cards_free), 0) - kept.cards)::int AS cards,
         greatest(0, least(coalesce(sum(h.cards_free / o.cards_per_unit), 0),
                           (coalesce(sum(h.cards_free), 0) - kept.cards) / o.cards_per_unit))::int AS units
    FROM (SELECT {RESERVED.format(pool="o.pool_id", at=_AT, until="NULL")} AS cards) kept
    LEFT JOIN catalog_pool p ON p.id = o.pool_id AND p.paused_reason = ''
    LEFT JOIN catalog_host h ON h.pool_id = p.id AND h.state = 'active'
   GROUP BY kept.cards
) s ON true"""  # noqa: S608 - fixed text only

_STOCK_OF_ALL = f"""
LEFT JOIN (
  SELECT o.id AS offer_id, sum(h.cards_free) AS cards, sum(h.cards_free / o.cards_per_unit) AS units
    FROM catalog_offer o
    JOIN catalog_pool p ON p.id = o.pool_id AND p.paused_reason = ''
    JOIN catalog_host h ON h.pool_id = p.id AND h.state = 'active'
   WHERE o.enabled GROUP BY o.id
) f ON f.offer_id = o.id
LEFT JOIN (
  SELECT pool_id, {RESERVED.format(pool="promised.pool_id", at=_AT, until="NULL")} AS cards
    FROM (SELECT DISTINCT pool_id FROM catalog_reservation WHERE period && tstzrange({_AT}, NULL)) promised
) k ON k.pool_id = o.pool_id
CROSS JOIN LATERAL (
  SELECT greatest(0, coalesce(f.cards, 0) - coalesce(k.cards, 0))::int AS cards,
         greatest(0, least(coalesce(f.units, 0),
                           (coalesce(f.cards, 0) - coalesce(k.cards, 0)) / o.cards_per_unit))::int AS units
) s"""  # noqa: S608 - fixed text only

_SELECT = f"""
SELECT o.id, o.slug, o.kind, o.cards_per_unit, o.quote_only, o.fabric, o.fabric_gbps, o.fabric_basis,
       o.fabric_tested_on IS NOT NULL, r.code, r.name_zh, r.name_en, m.name, m.vendor, m.memory_gb, m.memory_type,
       m.memory_bandwidth_gbps, m.bf16_tflops, m.interconnect_type, m.interconnect_gbps, m.domestic, m.uncertain::text,
       p.hour, p.month, p.year, s.cards, s.units, count(*) OVER ()
  FROM catalog_offer o
  JOIN catalog_region r ON r.id = o.region_id
  JOIN catalog_gpumodel m ON m.id = o.gpu_model_id
  LEFT JOIN (
    SELECT offer_id, max(rate) FILTER (WHERE meter = 'card_hour') AS hour,
           max(rate) FILTER (WHERE meter = 'month') AS month, max(rate) FILTER (WHERE meter = 'year') AS year
      FROM catalog_price
     WHERE currency = %(currency)s AND valid_from <= %(at)s AND (valid_to IS NULL OR valid_to > %(at)s)
     GROUP BY offer_id
  ) p ON p.offer_id = o.id
  {_STOCK_OF_ALL}"""  # noqa: S608 - fixed text only

_FACETS = """
SELECT array_agg(DISTINCT m.family), array_agg(DISTINCT m.vendor),
       array_agg(DISTINCT m.memory_gb) FILTER (WHERE m.memory_gb IS NOT NULL), array_agg(DISTINCT o.cards_per_unit),
       array_agg(DISTINCT ARRAY[r.code, r.name_zh, r.name_en])
  FROM catalog_offer o
  JOIN catalog_region r ON r.id = o.region_id AND r.enabled
  JOIN catalog_gpumodel m ON m.id = o.gpu_model_id
 WHERE o.enabled"""

_HOME = f"""
SELECT m.family, m.vendor, m.name, o.region_id, coalesce(o.pool_id, 0), s.cards, p.rate
  FROM catalog_offer o
  JOIN catalog_region r ON r.id = o.region_id AND r.enabled
  JOIN catalog_gpumodel m ON m.id = o.gpu_model_id
  LEFT JOIN catalog_price p ON p.offer_id = o.id AND p.meter = 'card_hour' AND p.currency = %(currency)s
       AND p.valid_from <= %(at)s AND (p.valid_to IS NULL OR p.valid_to > %(at)s)
  {_STOCK_OF_ALL}
 WHERE o.enabled
 ORDER BY o.quote_only, m.bf16_tflops DESC NULLS LAST, m.name, o.cards_per_unit"""  # noqa: S608 - fixed text only
