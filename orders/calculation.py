"""What a basket costs and whether its lines can be had now; calculator, order and quote request ask here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from accounts.models import Organization
from catalog.models import Offer
from catalog.queries import current_prices, stock
from orders.basket import HOURS, Item
from orders.models import Term
from orders.pricing import METER_OF_TERM, Estimate, estimate
from orders.queries import SELLABLE_KINDS

METERS = {**METER_OF_TERM, "disk": "disk_gb_hour"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a basket at its current price. Without a rate there is no estimate: it goes to a salesperson."""

    item: Item
    offer: Offer
    rates: Mapping[str, Decimal]
    """Per card, by term; per GB-hour of disk under "disk"."""
    free_units: int
    estimate: Estimate | None

    @property
    def rate(self) -> Decimal | None:
        return self.rates.get(self.item.term)

    @property
    def cards(self) -> int:
        return self.item.quantity * self.offer.cards_per_unit

    @property
    def is_hourly(self) -> bool:
        return self.item.term == Term.HOUR

    @property
    def on_quote(self) -> bool:
        """Sold by a salesperson only."""
        return not is_sold_online(self.offer)

    @property
    def orderable(self) -> bool:
        """Whether it can be ordered on the site; stock is another question."""
        return self.estimate is not None and not self.on_quote

    @property
    def is_short(self) -> bool:
        return self.orderable and self.item.quantity > self.free_units


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums of a basket in minor units of its currency; lines without a price are not in them."""

    total_minor: int
    tax_minor: int
    by_term: Mapping[str, int]
    advance_minor: int
    """Months and years: due before they begin."""
    saving_minor: int

    @property
    def hourly_minor(self) -> int:
        return self.by_term.get(Term.HOUR, 0)


def is_sold_online(offer: Offer) -> bool:
    """Whether customers order it themselves, as `orders.actions.check_line` demands; the pool may still be paused."""
    return (
        not offer.quote_only and offer.kind in SELLABLE_KINDS and offer.pool_id is not None and bool(offer.gpu_model_id)
    )


def price_basket(
    items: Sequence[Item],
    offers: Mapping[str, Offer],
    *,
    currency: str,
    tax_percent: Decimal,
    at: datetime,
    organization: Organization | None = None,
) -> list[Line]:
    """The lines whose offer is among `offers` (by slug), in order, with current prices (an organization's by its
    contract) and stock: two statements."""
    known = [item for item in items if item.slug in offers]
    ids = list({offers[item.slug].pk: None for item in known})
    if not ids:
        return []
    organization_id = organization.pk if organization else None
    prices, free = current_prices(ids, currency, at, organization_id=organization_id), stock(ids, at=at)
    lines = []
    for item in known:
        offer = offers[item.slug]
        rates = {term: prices[offer.pk][meter].rate for term, meter in METERS.items() if meter in prices[offer.pk]}
        lines.append(
            Line(
                item=item,
                offer=offer,
                rates=rates,
                free_units=free[offer.pk].units if offer.pk in free else 0,
                estimate=_estimate(item, offer, rates, currency, tax_percent),
            )
        )
    return lines


def _estimate(
    item: Item, offer: Offer, rates: Mapping[str, Decimal], currency: str, tax_percent: Decimal
) -> Estimate | None:
    if item.term not in rates or offer.quote_only:
        return None
    return estimate(
        term=item.term,
        quantity=item.quantity,
        cards_per_unit=offer.cards_per_unit,
        periods=item.periods,
        rate=rates[item.term],
        currency=currency,
        tax_percent=tax_percent,
        hourly_rate=rates.get(Term.HOUR),
        hours_per_month=HOURS[Term.MONTH],
    )


def totals(lines: Iterable[Line]) -> Totals:
    """Sums of the rounded lines, as the invoice's are."""
    priced = [(line.item.term, line.estimate) for line in lines if line.estimate is not None]
    by_term = {
        str(term): sum(one.total_minor for own, one in priced if own == term)
        for term in Term.values
        if any(own == term for own, _one in priced)
    }
    return Totals(
        total_minor=sum(by_term.values()),
        tax_minor=sum(one.tax_minor for _term, one in priced),
        by_term=by_term,
        advance_minor=sum(amount for term, amount in by_term.items() if term != Term.HOUR),
        saving_minor=sum(one.saving_minor for _term, one in priced),
    )
