"""The list of what is on sale, and what is free of it now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from html import escape
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from catalog import presentation, queries, visitor_pages
from catalog.forms import ListQuery, pairs
from catalog.queries import PAGE_SIZE, Facets, OfferPage
from catalog.views import facets, pieces
from marketplace.lib import clock, kept, visitor
from marketplace.lib.templatetags.components import pagination
from orders.supply import earliest_term_ends

# More than a page ever shows; a longer list of ids is cut.
MOST_COUNTS = 100
# Digits that always fit the database's bigint.
LONGEST_ID = 18


@require_safe
def offer_list(request: HttpRequest) -> HttpResponse:
    """What is on sale. The address carries every filter, so a view of the list can be kept and shared."""
    return visitor_pages.render(request, "catalog/list.html", lambda at: {"content": _content(request, at)})


@never_cache
@require_safe
def offer_counts(request: HttpRequest) -> HttpResponse:
    """The free counts of the asked offers, as fragments that HTMX puts in their places."""
    asked = [part for part in request.GET.get("offers", "").split(",") if part][:MOST_COUNTS]
    if not all(part.isascii() and part.isdigit() and len(part) <= LONGEST_ID for part in asked):
        return HttpResponseBadRequest(_("Unknown offer."), content_type="text/plain; charset=utf-8")
    language, at = get_language() or "", clock.now()
    counts = queries.stock([int(part) for part in asked])
    pieces = [presentation.free_count(offer, stock, language, swap=True) for offer, stock in counts.items()]
    if pieces:
        pieces.append(presentation.as_of(timezone.localtime(at, _zone(request)).strftime("%H:%M:%S"), swap=True))
    return HttpResponse("".join(pieces))


def _zone(request: HttpRequest) -> ZoneInfo:
    organization = getattr(request, "organization", None)
    return ZoneInfo(organization.zone if organization else settings.TIME_ZONE)


def _content(request: HttpRequest, at: datetime) -> SafeString:
    currency, language = visitor.currency_of(request), get_language() or ""
    query = ListQuery.read(request.GET)
    found = _find(query, currency, at)
    if not found.rows and query.page > 1:
        raise Http404
    wanted, counted, parts = query.wanted, Facets.read(found.facets), pairs(query)
    told = {"language": language, "currency": currency}
    narrowed, chips = facets.narrowed(query), facets.chips(query, counted, **told)
    suggested = () if found.total else tuple(facets.suggestions(query, counted, **told))
    page = Paginator(range(found.total), PAGE_SIZE).page(query.page)
    return pieces.layout(
        pieces.Shape(
            language,
            currency,
            query.view,
            wanted.term,
            filled=bool(found.rows),
            chosen=bool(chips),
            narrowed=bool(narrowed),
            problems=bool(query.problems),
        ),
        {
            "fields": pieces.fields(language, wanted.text, wanted.sort),
            "narrowed": str(narrowed),
            "panel": facets.panel(query, counted, **told),
            "chips": pieces.chips(chips),
            "everything": escape(facets.address(part for part in parts if part[0] in {"sort", "term", "view"})),
            "total": pieces.total(found.total),
            "answered_at": kept.ANSWERED_AT,
            "terms": pieces.links(_choices(parts, "term", presentation.TERM_LABELS, wanted.term)),
            "views": pieces.links(_choices(parts, "view", presentation.VIEW_LABELS, query.view)),
            "ids": ",".join([str(row.id) for row in found.rows]),
            "rows": "".join(_rows(query, found, at, **told)),
            "pagination": pagination({"request": request}, page),
            "nothing": "" if found.total else pieces.nothing(language, suggested),
        },
    )


def _find(query: ListQuery, currency: str, at: datetime) -> OfferPage:
    """What the list shows; a value that nothing on sale has is taken out with a message, and the rest asked again."""
    found = queries.offers(query.wanted, currency=currency, at=at, page=query.page)
    if not found.total and query.drop_unknown(Facets.read(found.facets)):
        found = queries.offers(query.wanted, currency=currency, at=at, page=query.page)
    return found


def _rows(query: ListQuery, found: OfferPage, at: datetime, *, language: str, currency: str) -> list[str]:
    sold_out = {row.pool_id for row in found.rows if row.pool_id and not row.free_units and not row.quote_only}
    ends = earliest_term_ends(sold_out, at=at) if sold_out else {}
    return [
        presentation.offer_row(
            row,
            language,
            currency,
            query.wanted.term,
            sort=query.wanted.sort,
            free_from=None if row.free_units or row.pool_id is None else ends.get(row.pool_id),
            compare=True,
        )
        for row in found.rows
    ]


def _choices(
    parts: list[tuple[str, str]], name: str, labels: Mapping[str, object], chosen: str
) -> Iterator[tuple[object, str, bool]]:
    """This list with one part of its address set to each of its values, from the first page; the first is the usual."""
    others = [part for part in parts if part[0] != name]
    usual = next(iter(labels))
    for value, label in labels.items():
        yield label, facets.address(others if value == usual else [*others, (name, value)]), value == chosen
