"""The prices in force at an instant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from catalog.models import Price

TERMS = ("hour", "month", "year")

# Of every offer, by term; `p` beside an offer `o`.
PRICES = """
LEFT JOIN (
  SELECT offer_id, max(rate) FILTER (WHERE meter = 'card_hour') AS hour,
         max(rate) FILTER (WHERE meter = 'month') AS month, max(rate) FILTER (WHERE meter = 'year') AS year
    FROM catalog_price
   WHERE currency = %(currency)s AND valid_from <= %(at)s AND (valid_to IS NULL OR valid_to > %(at)s)
   GROUP BY offer_id
) p ON p.offer_id = o.id"""


def current_prices(offer_ids: int | Sequence[int], currency: str, at: datetime) -> dict[int, dict[str, Price]]:
    """The prices in force at the instant, by offer and meter; an offer without any has an empty entry."""
    ids = [offer_ids] if isinstance(offer_ids, int) else list(offer_ids)
    prices: dict[int, dict[str, Price]] = {offer: {} for offer in ids}
    for price in Price.objects.filter(offer__in=ids, currency=currency).in_force(at):
        prices[price.offer_id][price.meter] = price
    return prices
