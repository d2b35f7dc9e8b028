"""Offers side by side."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from catalog import comparison, presentation, queries, visitor_pages
from catalog.comparison import Compared
from catalog.models import Offer
from catalog.queries import TERMS
from marketplace.lib import visitor

FEWEST, MOST = 2, 4
# An address may name more than a page can show; what is far beyond that is not looked up.
MOST_NAMED = 20
LONGEST_SLUG = 80


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """Two to four offers, named by the address, with what differs and which value is best."""
    return visitor_pages.render(request, "catalog/compare.html", lambda at: _context(request, at))


class Column(NamedTuple):
    """The head of an offer's column."""

    offer: Offer
    can_be_ordered: bool
    without: str


def _context(request: HttpRequest, at: datetime) -> dict[str, Any]:
    currency = visitor.currency_of(request)
    term = request.GET.get("term", "")
    term = term if term in TERMS else "hour"
    only_differences = request.GET.get("only", "") == "differences"
    asked = _asked(request.GET)
    compared, messages = _find(asked, currency, at)
    slugs = [one.offer.slug for one in compared]
    kept = {"term": "" if term == "hour" else term, "only": "differences" if only_differences else ""}
    shown = comparison.sections(compared, term=term, currency=currency) if compared else []
    return {
        "columns": [
            Column(
                one.offer,
                bool(one.row.free_units) and any(one.rates.values()),
                _address([slug for slug in slugs if slug != one.offer.slug], **kept),
            )
            for one in compared
        ],
        "sections": _only_differences(shown) if only_differences else shown,
        "messages_about_it": messages,
        "terms": [
            (label, _address(slugs, **{**kept, "term": "" if key == "hour" else key}), key == term)
            for key, label in presentation.TERM_LABELS.items()
        ],
        "only_differences": only_differences,
        "toggle": _address(slugs, **{**kept, "only": "" if only_differences else "differences"}),
        "currency": currency,
    }


def _asked(data: QueryDict) -> list[str]:
    slugs = [slug for text in data.getlist("offer") if (slug := text.replace("\0", "").strip()[:LONGEST_SLUG])]
    return list(dict.fromkeys(slugs))[:MOST_NAMED]


def _find(asked: list[str], currency: str, at: datetime) -> tuple[list[Compared], list[str]]:
    """The first offers on sale among those asked for, in that order, and a word about every other: two statements."""
    if not asked:
        return [], []
    found = {
        offer.slug: offer
        for offer in Offer.objects.on_sale()
        .filter(slug__in=asked, gpu_model__isnull=False)
        .select_related("gpu_model", "region")
    }
    rows = queries.rows_of([offer.pk for offer in found.values()], currency=currency, at=at) if found else {}
    # An offer that was switched off between the two statements is as if it had never been there.
    known = [slug for slug in asked if slug in found and found[slug].pk in rows]
    messages = [_("%(slug)s is not on sale.") % {"slug": slug} for slug in asked if slug not in known]
    if len(known) > MOST:
        messages.append(
            ngettext(
                "%(most)d offers fit beside each other; %(left)d more was left out.",
                "%(most)d offers fit beside each other; %(left)d more were left out.",
                len(known) - MOST,
            )
            % {"most": MOST, "left": len(known) - MOST}
        )
    if len(known) == 1:
        messages.append(_("One offer alone has nothing to be compared with: tick another in the catalogue."))
    return [Compared(found[slug], rows[found[slug].pk]) for slug in known[:MOST]], messages


def _only_differences(sections: list[comparison.Section]) -> list[comparison.Section]:
    kept = [section._replace(lines=[line for line in section.lines if line.differs]) for section in sections]
    return [section for section in kept if section.lines]


def _address(slugs: list[str], *, term: str, only: str) -> str:
    parts = [("offer", slug) for slug in slugs]
    return "?" + urlencode(parts + [(name, value) for name, value in (("term", term), ("only", only)) if value])
