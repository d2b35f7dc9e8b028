"""What is free now. Counters live on the hosts, because offers of different size share them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from catalog.inventory import RESERVED
from marketplace.lib import prepared


class Stock(NamedTuple):
    """Of one offer: what may be sold now."""

    cards: int
    units: int
    quote_only: bool


def stock(offer_ids: Iterable[int], *, at: datetime | None = None) -> dict[int, Stock]:
    """Free cards and units by offer, as of now; reservations that end after `at` (now) are kept back."""
    statement = f"SELECT o.id, s.cards, s.units, o.quote_only FROM catalog_offer o {STOCK} WHERE o.id = ANY(%(offers)s)"  # noqa: S608
    rows = prepared.fetch_all(statement, {"offers": list(offer_ids), "at": at})
    return {offer: Stock(*counts) for offer, *counts in rows}


def free_units(pool_id: int, cards_per_unit: int, *, at: datetime | None = None) -> int:
    """Units of this many cards that one host each could take now, less what is reserved from `at` (now) on."""
    ((units,),) = prepared.fetch_all(
        f"SELECT s.units FROM (SELECT %(pool)s::bigint AS pool_id, %(cards)s::int AS cards_per_unit) o {STOCK}",  # noqa: S608
        {"pool": pool_id, "cards": cards_per_unit, "at": at},
    )
    return int(units)


def free_cards(pool_ids: Iterable[int]) -> dict[int, int]:
    """Free healthy cards on the active hosts of each pool; a paused pool has none to sell."""
    ids = list(pool_ids)
    statement = """
        SELECT p.id, coalesce(sum(h.cards_free), 0)::int FROM catalog_pool p
          LEFT JOIN catalog_host h ON h.pool_id = p.id AND h.state = 'active' AND p.paused_reason = ''
         WHERE p.id = ANY(%(pools)s::bigint[]) GROUP BY p.id"""
    return dict(prepared.fetch_all(statement, {"pools": ids}))


# --- parts of the statements -----------------------------------------------------------------------------------------
_AT = "coalesce(%(at)s, now())"

# For a few offers `o`: each looks at the hosts of its own pool.
STOCK = f"""
LEFT JOIN LATERAL (
  SELECT greatest(0, coalesce(sum(h.cards_free), 0) - kept.cards)::int AS cards,
         greatest(0, least(coalesce(sum(h.cards_free / o.cards_per_unit), 0),
                           (coalesce(sum(h.cards_free), 0) - kept.cards) / o.cards_per_unit))::int AS units
    FROM (SELECT {RESERVED.format(pool="o.pool_id", at=_AT, until="NULL")} AS cards) kept
    LEFT JOIN catalog_pool p ON p.id = o.pool_id AND p.paused_reason = ''
    LEFT JOIN catalog_host h ON h.pool_id = p.id AND h.state = 'active'
   GROUP BY kept.cards
) s ON true"""  # noqa: S608 - fixed text only

# For a list of offers `o`: one pass over the hosts, told apart only by how many cards are free on them, so that a pool
# of a thousand hosts is at most nine rows to its offers.
STOCK_OF_ALL = f"""
LEFT JOIN (
  SELECT u.pool_id, u.cards_per_unit, sum(h.hosts * h.cards_free) AS cards,
         sum(h.hosts * (h.cards_free / u.cards_per_unit)) AS units
    FROM (SELECT DISTINCT pool_id, cards_per_unit FROM catalog_offer WHERE enabled AND cards_per_unit > 0) u
    JOIN (
      SELECT h.pool_id, h.cards_free, count(*) AS hosts
        FROM catalog_host h JOIN catalog_pool p ON p.id = h.pool_id AND p.paused_reason = ''
       WHERE h.state = 'active' AND h.cards_free > 0 GROUP BY h.pool_id, h.cards_free
    ) h ON h.pool_id = u.pool_id
   GROUP BY u.pool_id, u.cards_per_unit
) f ON f.pool_id = o.pool_id AND f.cards_per_unit = o.cards_per_unit
LEFT JOIN (
  SELECT pool_id, {RESERVED.format(pool="promised.pool_id", at=_AT, until="NULL")} AS cards
    FROM (SELECT DISTINCT pool_id FROM catalog_reservation WHERE period && tstzrange({_AT}, NULL)) promised
) k ON k.pool_id = o.pool_id
CROSS JOIN LATERAL (
  SELECT greatest(0, coalesce(f.cards, 0) - coalesce(k.cards, 0))::int AS cards,
         greatest(0, least(coalesce(f.units, 0), div(coalesce(f.cards, 0) - coalesce(k.cards, 0),
                                                     greatest(o.cards_per_unit, 1))))::int AS units
) s"""  # noqa: S608 - fixed text only
