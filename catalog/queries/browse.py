"""The list of what is on sale: narrowed, counted, sorted and paged in one statement.

The statement is the same text for every filter, so that PostgreSQL plans it once per connection and a filter that
nobody asked before costs no more than one that everybody asks. It goes over the offers once: each carries in `fails` a
bit for every facet it does not fit, so an offer counts for a facet when it fails at most that one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from catalog.queries import search
from catalog.queries.offers import COLUMNS, STORED, OfferRow
from catalog.queries.prices import PRICES
from catalog.queries.stock import STOCK_OF_ALL
from marketplace.lib import prepared

PAGE_SIZE = 20
PRECISIONS = {
    "fp64": "fp64_tflops", "tf32": "tf32_tflops", "bf16": "bf16_tflops", "fp16": "fp16_tflops", "fp8": "fp8_tflops",
    "fp4": "fp4_tflops", "int8": "int8_tops",
}  # fmt: skip
LINKS = ("nvlink", "hccs", "pcie", "other", "none")


@dataclass(frozen=True, slots=True)
class OfferFilter:
    """What the list is narrowed to and how it is sorted; empty means everything.

    Several values of one facet widen it, but `precision` and `priced` want all of theirs. Prices are per card-hour in
    the asked currency; `rate` is the least TFLOPS (INT8: TOPS) of every asked precision, of BF16 where none is asked.
    """

    text: str = ""
    family: tuple[str, ...] = ()
    vendor: tuple[str, ...] = ()
    region: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    size: tuple[int, ...] = ()
    link: tuple[str, ...] = ()
    fabric: tuple[str, ...] = ()
    isolation: tuple[str, ...] = ()
    cooling: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    priced: tuple[str, ...] = ()
    rate: Decimal | None = None
    speed: Decimal | None = None
    memory: int | None = None
    memory_max: int | None = None
    price_min: Decimal | None = None
    price_max: Decimal | None = None
    free: int | None = None
    available: bool = False
    domestic: bool = False
    sort: str = ""
    term: str = "hour"


class OfferPage(NamedTuple):
    """One page of the offers that match, how many match in all, and the JSON text that `Facets.read` understands."""

    rows: tuple[OfferRow, ...]
    total: int
    facets: str


@dataclass(frozen=True, slots=True)
class Facets:
    """What the filters can be set to: every value that an offer on sale has, and how many offers it would leave.

    The count of a value is taken under all other facets. `without` has the number of offers that dropping one facet
    would bring, for those that bring any.
    """

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    regions: dict[str, tuple[str, str]] = field(default_factory=dict)
    without: dict[str, int] = field(default_factory=dict)
    lowest: Decimal | None = None
    highest: Decimal | None = None

    @classmethod
    def read(cls, text: str) -> Facets:
        found = json.loads(text, parse_float=Decimal)
        counts: dict[str, dict[str, int]] = {}
        fails = found["fails"] or {}
        for place, value, count in found["counts"] or ():
            counts.setdefault(_VALUE_NAMES[place - 1], {})[value] = count
        return cls(
            counts,
            {code: (chinese, english) for code, chinese, english in found["regions"] or ()},
            {name: fails[bit] for name, bit in _BIT_TEXTS.items() if bit in fails},
            None if found["lowest"] is None else Decimal(found["lowest"]),
            None if found["highest"] is None else Decimal(found["highest"]),
        )


def offers(wanted: OfferFilter, *, currency: str, at: datetime, page: int = 1) -> OfferPage:
    """One page of the offers on sale that match, with prices, free stock, the total and all facets: one statement."""
    rows = prepared.fetch_all(
        _BROWSE,
        _parameters(wanted) | {"currency": currency, "at": at, "limit": PAGE_SIZE, "offset": (page - 1) * PAGE_SIZE},
        first=_ONE_PLAN,
    )
    facets, total = rows[0][:2]
    return OfferPage(tuple([OfferRow._make(row[2:]) for row in rows if row[2] is not None]), total, facets)


def _parameters(wanted: OfferFilter) -> dict[str, Any]:
    found = search.read(wanted.text)
    words = list(found.patterns)
    return {
        **{name: list(getattr(wanted, name)) or None for name in _LISTS},
        **{f"said_{name}": list(found.facts[name]) if name in found.facts else None for name in _SAID},
        "said_size": list(found.sizes) or None,
        "words": words,
        "all_words": (1 << len(words)) - 1,
        "rate": wanted.rate,
        "least_rate": 0 if wanted.rate is None else wanted.rate,
        "speed": wanted.speed,
        "memory": wanted.memory,
        "memory_max": wanted.memory_max,
        "price_min": wanted.price_min,
        "price_max": wanted.price_max,
        "free": wanted.free,
        "available": wanted.available,
        "domestic": wanted.domestic,
        "sort": wanted.sort,
        "term": wanted.term,
    }


# --- parts of the statement ------------------------------------------------------------------------------------------
# Planned with the parameters left open; to plan it anew for each filter would cost more than to run it.
_ONE_PLAN = "SET LOCAL plan_cache_mode = force_generic_plan"

_LISTS = ("family", "vendor", "region", "kind", "size", "link", "fabric", "isolation", "cooling", "precision", "priced")
_SAID = ("kind", "link", "fabric", "isolation", "cooling", "domestic")

_LINK = """CASE WHEN m.interconnect_type IS NULL THEN 'none' WHEN m.interconnect_type ILIKE 'nvlink%%' THEN 'nvlink'
  WHEN m.interconnect_type ILIKE 'hccs%%' THEN 'hccs' WHEN m.interconnect_type ILIKE 'pcie%%' THEN 'pcie'
  ELSE 'other' END"""
_FABRIC = "coalesce(nullif(o.fabric, ''), 'none')"
_PUBLISHED = ", ".join(
    f"CASE WHEN m.{column} >= %(least_rate)s::numeric THEN '{name}' END" for name, column in PRECISIONS.items()
)
_PRICED = ", ".join(f"CASE WHEN p.{term} IS NOT NULL THEN '{term}' END" for term in ("hour", "month", "year"))


_MODEL_TEXT = (
    "lower(concat_ws(', ', m.slug, m.name, m.vendor, m.family, array_to_string(m.aliases, ', '), m.architecture))"
)
_REGION_TEXT = "lower(concat_ws(', ', r.code, r.name_zh, r.name_en))"


def _among(name: str, value: str, kind: str = "text") -> str:
    return f"(%({name})s::{kind}[] IS NULL OR {value} = ANY(%({name})s::{kind}[]))"


def _hits(text: str) -> str:
    """A bit for every search word found in the text."""
    words = "unnest(%(words)s::text[]) WITH ORDINALITY word(pattern, place)"
    found = f"SELECT coalesce(bit_or(1 << (place::int - 1)), 0) FROM {words} WHERE {text} ~ pattern"  # noqa: S608
    return f"CASE WHEN %(all_words)s::int = 0 THEN 0 ELSE ({found}) END"


_TEXT = " AND ".join(
    [
        "(m.hits | r.hits) = %(all_words)s::int",
        _among("said_size", "o.cards_per_unit", "int"),
        _among("said_kind", "o.kind"),
        _among("said_link", "m.link_class"),
        _among("said_fabric", "o.fabric"),
        _among("said_isolation", "o.isolation"),
        _among("said_cooling", "o.cooling"),
        _among("said_domestic", "m.domestic::text"),
    ]
)

# Each facet with what an offer has to fulfil; the order gives the bits.
_CONDITIONS = {
    "text": _TEXT,
    "family": _among("family", "m.family"),
    "vendor": _among("vendor", "m.vendor"),
    "region": _among("region", "r.code"),
    "kind": _among("kind", "o.kind"),
    "size": _among("size", "o.cards_per_unit", "int"),
    "link": _among("link", "m.link_class"),
    "fabric": _among("fabric", _FABRIC),
    "isolation": _among("isolation", "o.isolation"),
    "cooling": _among("cooling", "o.cooling"),
    "precision": "(%(precision)s::text[] IS NULL OR m.published @> %(precision)s::text[])"
    " AND (%(rate)s::numeric IS NULL OR %(precision)s::text[] IS NOT NULL OR m.bf16_tflops >= %(rate)s::numeric)",
    "priced": f"(%(priced)s::text[] IS NULL OR ARRAY[{_PRICED}] @> %(priced)s::text[])",
    "speed": "(%(speed)s::numeric IS NULL OR o.fabric_gbps >= %(speed)s::numeric)",
    "memory": "(%(memory)s::int IS NULL OR m.memory_gb >= %(memory)s::int)"
    " AND (%(memory_max)s::int IS NULL OR m.memory_gb <= %(memory_max)s::int)",
    "price": "(%(price_min)s::numeric IS NULL OR p.hour >= %(price_min)s::numeric)"
    " AND (%(price_max)s::numeric IS NULL OR p.hour <= %(price_max)s::numeric)",
    "free": "(NOT %(available)s::boolean OR s.units > 0)"
    " AND (%(free)s::int IS NULL OR s.units * o.cards_per_unit >= %(free)s::int)",
    "domestic": "(NOT %(domestic)s::boolean OR m.domestic)",
}
_BITS = {name: 1 << place for place, name in enumerate(_CONDITIONS)}
_BIT_TEXTS = {name: str(bit) for name, bit in _BITS.items()}
_FAILS = " + ".join(f"CASE WHEN {condition} THEN 0 ELSE {_BITS[name]} END" for name, condition in _CONDITIONS.items())

# Every value an offer counts for, by facet; NULL is none.
_VALUES = [
    *((name, f"b.{name}") for name in ("family", "vendor", "kind", "isolation", "cooling")),
    ("link", "b.link_class"),
    ("region", "b.region_code"),
    ("fabric", "b.fabric_key"),
    ("size", "b.cards_per_unit::text"),
    ("memory", "b.memory_gb::text"),
    ("speed", "b.fabric_gbps::text"),
    *(("precision", f"b.published[{place}]") for place, _name in enumerate(PRECISIONS, start=1)),
    *(("priced", f"CASE WHEN b.has_{term} THEN '{term}' END") for term in ("hour", "month", "year")),
    ("free", "CASE WHEN b.available THEN 'available' END"),
    ("domestic", "CASE WHEN b.domestic THEN 'domestic' END"),
]
# Offers alike in all of this count as one with their number: a thousand offers are of a few dozen kinds.
_ALIKE = (
    "b.family, b.vendor, b.kind, b.isolation, b.cooling, b.link_class, b.region_code, b.fabric_key, b.cards_per_unit,"
    " b.memory_gb, b.fabric_gbps, b.published, b.domestic, b.fails, b.hour IS NOT NULL, b.month IS NOT NULL,"
    " b.year IS NOT NULL, b.free_units > 0"
)
_VALUE_NAMES = [name for name, _value in _VALUES]
# As arrays: a row constructor per value would be set up anew for every offer.
_VALUE_ARRAY = f"ARRAY[{', '.join(value for _name, value in _VALUES)}]::text[]"
_OTHERS_ARRAY = f"'{{{', '.join(str(~_BITS[name]) for name in _VALUE_NAMES)}}}'::int[]"

_KEY = """CASE %(sort)s::text
  WHEN 'price' THEN b.price WHEN '-price' THEN -b.price
  WHEN 'tflops' THEN b.price / nullif(b.bf16_tflops, 0) WHEN 'memory-value' THEN -b.memory_gb / nullif(b.price, 0)
  WHEN '-free' THEN -b.free_cards WHEN '-memory' THEN -b.memory_gb WHEN '-bf16' THEN -b.bf16_tflops END"""

_ORDER = "sort_key NULLS LAST, quote_only, free_cards = 0, bf16_tflops DESC NULLS LAST, model, cards_per_unit, b.slug"
_STORED = ", ".join(f"page.{name}" for name in STORED)
_BROWSE = f"""
WITH m AS MATERIALIZED (
  SELECT m.id, m.name, m.vendor, m.family, m.memory_gb, m.memory_type, m.memory_bandwidth_gbps, m.bf16_tflops,
         m.interconnect_type, m.interconnect_gbps, m.domestic, m.uncertain,
         {_LINK} AS link_class, ARRAY[{_PUBLISHED}] AS published, {_hits(_MODEL_TEXT)} AS hits
    FROM catalog_gpumodel m
), r AS MATERIALIZED (
  SELECT r.id, r.code, r.name_zh, r.name_en, r.is_default, {_hits(_REGION_TEXT)} AS hits
    FROM catalog_region r WHERE r.enabled
), b AS MATERIALIZED (
  SELECT {COLUMNS},
         o.gpu_model_id, o.region_id, m.family, m.link_class, m.published, {_FABRIC} AS fabric_key,
         CASE %(term)s::text WHEN 'month' THEN p.month WHEN 'year' THEN p.year ELSE p.hour END AS price,
         {_FAILS} AS fails
    FROM catalog_offer o
    JOIN r ON r.id = o.region_id
    JOIN m ON m.id = o.gpu_model_id
    {PRICES}
    {STOCK_OF_ALL}
   WHERE o.enabled
), facets AS (
  SELECT json_build_object(
    'fails', (SELECT json_object_agg(fails, n) FROM (
        SELECT fails, count(*) AS n FROM b WHERE fails & (fails - 1) = 0 GROUP BY fails) single),
    'counts', (SELECT json_agg(json_build_array(place, value, n)) FROM (
        SELECT v.place, v.value, coalesce(sum(b.n) FILTER (WHERE b.fails & v.others = 0), 0)::int AS n
          FROM (SELECT {_ALIKE}, count(*) FROM b GROUP BY {_ALIKE})
               b (family, vendor, kind, isolation, cooling, link_class, region_code, fabric_key, cards_per_unit,
                  memory_gb, fabric_gbps, published, domestic, fails, has_hour, has_month, has_year, available, n),
               unnest({_VALUE_ARRAY}, {_OTHERS_ARRAY}) WITH ORDINALITY v(value, others, place)
         WHERE v.value IS NOT NULL GROUP BY v.place, v.value) counted),
    'regions', (SELECT json_agg(json_build_array(code, name_zh, name_en) ORDER BY is_default DESC, code) FROM r),
    'lowest', whole.lowest, 'highest', whole.highest
  )::text AS facets, whole.total
  FROM (SELECT count(*) FILTER (WHERE fails = 0) AS total,
               min(hour) FILTER (WHERE fails & {~_BITS["price"]} = 0)::text AS lowest,
               max(hour) FILTER (WHERE fails & {~_BITS["price"]} = 0)::text AS highest FROM b) whole
), page AS (
  SELECT b.*, row_number() OVER (ORDER BY {_ORDER}) AS place FROM (
    SELECT b.*, {_KEY} AS sort_key FROM b WHERE b.fails = 0 ORDER BY {_ORDER} LIMIT %(limit)s OFFSET %(offset)s) b
)
SELECT CASE WHEN page.place IS NULL OR page.place = 1 THEN facets.facets END, facets.total,
       {_STORED}, coalesce(other.nearest, '')
  FROM facets LEFT JOIN page ON true
  LEFT JOIN LATERAL (
    SELECT json_agg(json_build_array(slug, model, cards_per_unit, region_zh, region_en, free_cards))::text AS nearest
      FROM (
      SELECT b.* FROM b
       WHERE page.free_units = 0 AND NOT page.quote_only AND b.free_units > 0 AND NOT b.quote_only
         AND (b.gpu_model_id = page.gpu_model_id OR b.memory_gb = page.memory_gb)
       ORDER BY b.gpu_model_id = page.gpu_model_id DESC, abs(b.cards_per_unit - page.cards_per_unit), b.hour, b.slug
       LIMIT 2) near
  ) other ON true
 ORDER BY page.place"""  # noqa: S608 - fixed text only
