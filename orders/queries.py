"""Questions about orders, and about what could be ordered instead."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from django.db.models import Prefetch, QuerySet

from accounts.models import Organization
from catalog.models import Offer
from catalog.queries import stock
from orders.actions.placing import SELLABLE_KINDS
from orders.models import Order, OrderLine, Quote, QuoteLine


@dataclass(frozen=True, slots=True)
class Alternative:
    """An offer that could be ordered now, and how many units of it are free."""

    offer: Offer
    free_units: int


def alternatives(offer: Offer, *, limit: int = 3) -> list[Alternative]:
    """The nearest offers that have a free unit: same model and region in another size first, then the same model
    elsewhere, the same family, and at last cards with at least as much memory on the same software stack."""
    candidates = sorted(_candidates(offer), key=lambda other: _distance(offer, other))
    free = stock([candidate.pk for candidate in candidates])
    found = (Alternative(candidate, free[candidate.pk].units) for candidate in candidates if candidate.pk in free)
    return list(islice((one for one in found if one.free_units), limit))


def _candidates(offer: Offer) -> list[Offer]:
    others = (
        Offer.objects.filter(
            enabled=True,
            quote_only=False,
            kind__in=SELLABLE_KINDS,
            pool__paused_reason="",
            region__enabled=True,
            gpu_model__software_stack=offer.gpu_model.software_stack,
        )
        .exclude(pk=offer.pk)
        .select_related("gpu_model", "region")
    )
    return [other for other in others if (other.gpu_model.memory_gb or 0) >= (offer.gpu_model.memory_gb or 0)]


def _distance(offer: Offer, other: Offer) -> tuple:
    return (
        other.gpu_model_id != offer.gpu_model_id,
        other.gpu_model.family != offer.gpu_model.family,
        other.region_id != offer.region_id,
        (other.gpu_model.memory_gb or 0) - (offer.gpu_model.memory_gb or 0),
        abs(other.cards_per_unit - offer.cards_per_unit),
        other.slug,
    )


def orders_of(organization: Organization) -> QuerySet[Order]:
    """An organization's orders with the lines and offers a page shows, newest first, in a fixed number of queries."""
    lines = OrderLine.objects.select_related("offer__gpu_model", "offer__region", "image").order_by("pk")
    return (
        Order.objects.filter(organization=organization)
        .select_related("project", "placed_by")
        .prefetch_related(Prefetch("lines", lines))
    )


def ordered_before(organization: Organization, request_key: str) -> Order | None:
    """The order that an earlier request with this key has made."""
    return Order.objects.filter(organization=organization, request_key=request_key).first()


def sent_quotes() -> QuerySet[Quote]:
    """Quotes that have left draft by being sent, with what their page shows. A version that was superseded before it
    was sent never had readers."""
    lines = QuoteLine.objects.select_related("offer__gpu_model", "offer__region", "image")
    return (
        Quote.objects.filter(events__status=Quote.Status.SENT)
        .select_related("organization", "salesperson", "order")
        .prefetch_related(Prefetch("lines", lines))
    )
