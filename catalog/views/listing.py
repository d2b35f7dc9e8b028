"""The list of what is on sale, and what is free of it now."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from types import SimpleNamespace
from typing import NamedTuple

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, QueryDict
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from catalog import presentation, queries, visitor_pages
from catalog.forms import OfferFilterForm
from catalog.queries import PAGE_SIZE, Facets, OfferFilter, OfferRow
from marketplace.lib import visitor

# More than a page ever shows; a longer list of ids is cut.
MOST_COUNTS = 100
# Digits that always fit the database's bigint.
LONGEST_ID = 18


@require_safe
def offer_list(request: HttpRequest) -> HttpResponse:
    """What is on sale. The address carries every filter, so a view of the list can be kept and shared."""
    return visitor_pages.render(request, "catalog/list.html", lambda at: {"content": _content(request, at)})


def _content(request: HttpRequest, at: datetime) -> SafeString:
    currency, query = visitor.currency_of(request), request.GET.urlencode()
    facets = queries.facets()
    wanted = OfferFilterForm(request.GET, facets).wanted() if query else OfferFilter()
    number = _page_number(request.GET)
    found = queries.offers(wanted, currency=currency, at=at, page=number)
    if not found.rows and number > 1:
        raise Http404
    return _list(
        ListContent(tuple(found.rows), found.total, number, facets, query, wanted.term, currency, get_language() or "")
    )


@never_cache
@require_safe
def offer_counts(request: HttpRequest) -> HttpResponse:
    """The free counts of the asked offers, as fragments that HTMX puts in their places."""
    asked = [part for part in request.GET.get("offers", "").split(",") if part][:MOST_COUNTS]
    if not all(part.isascii() and part.isdigit() and len(part) <= LONGEST_ID for part in asked):
        return HttpResponseBadRequest(_("Unknown offer."), content_type="text/plain; charset=utf-8")
    language = get_language() or ""
    counts = queries.stock([int(part) for part in asked])
    return HttpResponse(
        "".join(presentation.free_count(offer, stock, language, swap=True) for offer, stock in counts.items())
    )


class ListContent(NamedTuple):
    """Everything a page of the list shows."""

    rows: tuple[OfferRow, ...]
    total: int
    number: int
    facets: Facets
    query: str
    term: str
    currency: str
    language: str


# The list and its form are kept by everything they show, as `presentation` keeps its pieces: a changed price or count
# is another key.
@lru_cache(maxsize=128)
def _list(shown: ListContent) -> SafeString:
    data = QueryDict(shown.query)
    term, language = shown.term, shown.language
    context = {
        # All that the links of other pages need of a request.
        "request": SimpleNamespace(GET=data),
        "rows": [presentation.offer_row(row, language, shown.currency, term) for row in shown.rows],
        "total": shown.total,
        "page": Paginator(range(shown.total), PAGE_SIZE).get_page(shown.number),
        "filters": _filters(shown.facets, shown.query, language),
        "terms": [(label, _address(data, key), key == term) for key, label in presentation.TERM_LABELS.items()],
        "ids": ",".join([str(row.id) for row in shown.rows]),
        "term": term,
    }
    return mark_safe(render_to_string("catalog/_list.html", context))  # noqa: S308 - the template escapes


@lru_cache(maxsize=512)
def _filters(facets: Facets, query: str, language: str) -> SafeString:
    data = QueryDict(query)
    form = OfferFilterForm(data or None, facets)
    narrowed = sum(1 for name in form.fields if name not in {"sort", "term"} and data.get(name))
    html = render_to_string("catalog/_filters.html", {"form": form, "narrowed": narrowed, "term": data.get("term")})
    return mark_safe(html)  # noqa: S308 - the template escapes


def _page_number(data: QueryDict) -> int:
    """Page one for anything that is no page number."""
    text = data.get("page", "")
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 6 else 1


def _address(data: QueryDict, term: str) -> str:
    """This list under another term, from its first page."""
    query = data.copy()
    query["term"] = term
    query.pop("page", None)
    return f"?{query.urlencode()}"
