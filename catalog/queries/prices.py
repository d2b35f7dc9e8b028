"""The prices in force at an instant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import DecimalField, F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, Round

from catalog.models import ContractPrice, Price

RATE = DecimalField(max_digits=20, decimal_places=10)
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


def current_prices(
    offer_ids: int | Sequence[int], currency: str, at: datetime, *, organization_id: int | None = None
) -> dict[int, dict[str, Price]]:
    """The prices in force at the instant, by offer and meter; an offer without any has an empty entry.

    With an organization, its contract price stands in `rate` and the list price in `listed`. One statement. The
    prices are for reading: saving one would write the contract's rate into the list.
    """
    ids = [offer_ids] if isinstance(offer_ids, int) else list(offer_ids)
    prices: dict[int, dict[str, Price]] = {offer: {} for offer in ids}
    found = Price.objects.filter(offer__in=ids, currency=currency).in_force(at)
    if organization_id is not None:
        found = found.annotate(agreed=_agreed(organization_id, at))
    for price in found:
        price.listed = price.rate
        price.rate = getattr(price, "agreed", price.rate)
        prices[price.offer_id][price.meter] = price
    return prices


def _agreed(organization_id: int, at: datetime) -> Coalesce:
    """Beside a price: what the organization pays instead of it; the same arithmetic as AGREED."""
    less = Round(OuterRef("rate") * (100 - F("discount_percent")) / 100, precision=10)
    contracts = (
        ContractPrice.objects.filter(
            Q(offer=OuterRef("offer")) | Q(gpu_model=OuterRef("offer__gpu_model")),
            organization=organization_id,
            meter=OuterRef("meter"),
            currency=OuterRef("currency"),
        )
        .in_force(at)
        .order_by(F("offer").asc(nulls_last=True))
        .annotate(pays=Coalesce("rate", less, output_field=RATE))
    )
    return Coalesce(Subquery(contracts.values("pays")[:1]), "rate", output_field=RATE)


# Beside a price `p` of an offer `o`, with parameters organization and at: what the organization pays on the meter.
AGREED = """coalesce((
  SELECT coalesce(c.rate, round(p.rate * (100 - c.discount_percent) / 100, 10)) FROM catalog_contractprice c
   WHERE c.organization_id = %(organization)s AND c.meter = p.meter AND c.currency = p.currency
     AND (c.offer_id = p.offer_id OR c.gpu_model_id = o.gpu_model_id)
     AND c.valid_from <= %(at)s AND (c.valid_to IS NULL OR c.valid_to > %(at)s)
   ORDER BY c.offer_id NULLS LAST LIMIT 1), p.rate)"""
