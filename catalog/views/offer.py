"""One offer in full."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from catalog import presentation, queries, visitor_pages
from catalog.models import Offer, Price
from catalog.queries import TERMS, Stock
from catalog.texts import in_language
from marketplace.lib import visitor


@require_safe
def offer_detail(request: HttpRequest, slug: str) -> HttpResponse:
    """One offer: every sourced figure, every price, what is free, and its other sizes and regions."""
    return visitor_pages.render(request, "catalog/offer.html", lambda at: _context(request, slug, at))


def _context(request: HttpRequest, slug: str, at: datetime) -> dict[str, Any]:
    currency, language = visitor.currency_of(request), get_language() or ""
    offer = (
        Offer.objects.on_sale().filter(slug=slug, gpu_model__isnull=False).select_related("gpu_model", "region").first()
    )
    if offer is None:
        raise Http404
    prices = queries.current_prices(offer.pk, currency, at)[offer.pk]
    rows = queries.offer_rows(currency=currency, at=at, gpu_model_id=offer.gpu_model_id)
    own = next(row for row in rows if row.id == offer.pk)
    sources = presentation.numbered_sources(offer.gpu_model)
    term = request.GET.get("term", "")
    return {
        "offer": offer,
        "gpu": offer.gpu_model,
        "currency": currency,
        "term": term if term in TERMS else "hour",
        "free": presentation.free_count(offer.pk, Stock(own.free_cards, own.free_units, own.quote_only), language),
        "sold_out": not own.quote_only and not own.free_units,
        "terms": presentation.term_prices(offer, prices),
        "disk": prices.get(Price.Meter.DISK_GB_HOUR),
        "machine": presentation.machine(offer),
        "figures": presentation.figures(offer.gpu_model, sources),
        "doubt": in_language(offer.gpu_model.uncertain.get("*", "")),
        "notes": in_language(offer.gpu_model.notes),
        "sources": sources.values(),
        "siblings": [presentation.offer_row(row, language, currency, "hour") for row in rows if row.id != offer.pk],
        "isolation": presentation.ISOLATION_MEANS[Offer.Isolation(offer.isolation)],
        "hours_in_month": presentation.HOURS_IN_MONTH,
    }
