"""One offer in full."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import OuterRef
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from accounts.permissions import can
from catalog import offer_pieces, presentation, queries, visitor_pages, waitlist
from catalog.models import Offer, Price
from catalog.offer_facts import OfferFacts, offer_facts
from catalog.queries import TERMS, OfferRow, Stock
from catalog.texts import in_language
from catalog.views.waitlist import WaitlistForm
from marketplace.lib import visitor
from marketplace.lib.clock import HOURS_PER_MONTH
from marketplace.lib.money import SYMBOLS
from orders.supply import first_term_end

# Offers of other models of similar memory that the page names.
MOST_SIMILAR = 4


@require_safe
def offer_detail(request: HttpRequest, slug: str) -> HttpResponse:
    """One offer: every sourced figure, every price and how it changed, what was measured, and what else there is."""
    return visitor_pages.render(request, "catalog/offer.html", lambda at: _context(request, slug, at))


def _context(request: HttpRequest, slug: str, at: datetime) -> dict[str, Any]:
    currency = visitor.currency_of(request)
    ends = first_term_end(OuterRef("pool"), at=at)
    facts = offer_facts(slug, currency=currency, at=at, first_end=ends)
    rows = queries.related_rows(facts.offer.pk, currency=currency, at=at) if facts else []
    # Switched off between the two statements: the same as never there.
    if facts is None or not rows or rows[0].id != facts.offer.pk:
        raise Http404
    term = request.GET.get("term", "")
    return {
        **_offered(request, facts, rows[0], currency, at),
        **_figures(facts.offer, facts, priced=bool(facts.rates)),
        **_related(facts.offer, rows[1:], currency),
        **_waiting(request, facts.offer, at),
        "agreed": _agreed(request, facts.offer, currency, at),
        "term": term if term in TERMS else "hour",
        "record": facts.record,
        "questions": offer_pieces.questions(facts.questions, get_language() or ""),
    }


def _offered(request: HttpRequest, facts: OfferFacts, own: OfferRow, currency: str, at: datetime) -> dict[str, Any]:
    """Price and stock."""
    offer, current = facts.offer, facts.current(at)
    terms = offer_pieces.term_prices(offer, current)
    address = request.build_absolute_uri(reverse("catalog:offer", args=[offer.slug]))
    stock = Stock(own.free_cards, own.free_units, own.quote_only)
    return {
        "offer": offer,
        "gpu": offer.gpu_model,
        "currency": currency,
        "currency_sign": SYMBOLS[currency],
        "free": presentation.free_count(offer.pk, stock, get_language() or ""),
        "sold_out": not own.quote_only and not own.free_units,
        "first_end": facts.first_end,
        "terms": terms,
        "disk": current.get(Price.Meter.DISK_GB_HOUR),
        "history": offer_pieces.history(facts.rates, at),
        "hours_in_month": HOURS_PER_MONTH,
        "summary": offer_pieces.summary(offer, terms, currency),
        "structured_data": offer_pieces.structured_data(facts, own, terms, currency=currency, address=address),
    }


def _agreed(request: HttpRequest, offer: Offer, currency: str, at: datetime) -> list[Price]:
    """For members: what their organization pays by its contract, where that is not the list price."""
    if not request.organization:
        return []
    prices = queries.current_prices([offer.pk], currency, at, organization_id=request.organization.pk)[offer.pk]
    return [price for price in prices.values() if price.rate != price.listed]


def _figures(offer: Offer, facts: OfferFacts, *, priced: bool) -> dict[str, Any]:
    """What the card, the machine and the network are, with their sources."""
    sources = offer_pieces.numbered_sources(offer, offer.gpu_model, facts.sources, priced=priced)
    return {
        "figures": offer_pieces.figures(offer.gpu_model, sources),
        "machine": offer_pieces.machine(offer, sources),
        "fabric": offer_pieces.fabric(offer, sources),
        "report": in_language(offer.fabric_report),
        "report_url": offer.fabric_report if offer.fabric_report.startswith("https://") else "",
        "promises": offer_pieces.promises(offer, sources),
        "isolation": offer_pieces.ISOLATION_MEANS[Offer.Isolation(offer.isolation)],
        "doubt": in_language(offer.gpu_model.uncertain.get("*", "")),
        "notes": in_language(offer.gpu_model.notes),
        "sources": sources.values(),
        "price_source": sources.get(offer_pieces.OWN_PRICE),
    }


def _related(offer: Offer, rows: list[OfferRow], currency: str) -> dict[str, Any]:
    """Other sizes and regions of the model, and other models of similar memory, as rows of the list."""
    language = get_language() or ""
    same = [row for row in rows if row.model == offer.gpu_model.name]
    similar = [row for row in rows if row.model != offer.gpu_model.name][:MOST_SIMILAR]
    beside = QueryDict(mutable=True)
    beside.setlist("offer", [offer.slug, *(row.slug for row in similar[:3])])
    return {
        "compare_with": beside.urlencode() if similar else "",
        "siblings": [presentation.offer_row(row, language, currency, "hour") for row in same],
        "similar": [presentation.offer_row(row, language, currency, "hour") for row in similar],
    }


def _waiting(request: HttpRequest, offer: Offer, at: datetime) -> dict[str, Any]:
    """For members: their organization's place on the waitlist, or the form to join."""
    if not request.organization:
        return {}
    return {
        "entries": waitlist.entries_of(request.organization, offer.pk, at=at),
        "waitlist_form": WaitlistForm(),
        "may_only_look": not can(request.membership, "order"),
        "turn_minutes": waitlist.turn().seconds // 60,
    }
