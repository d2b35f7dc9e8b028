"""Pages by which a customer judges whom they deal with: status, about us, service level, security.

What is written is kept by the catalogue's version, which also counts changes of pages; the status page, which time
alone changes, by all that it shows.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from catalog import visitor_pages
from catalog.models import Offer
from marketplace.lib import clock, kept
from trust import presentation, queries
from trust.models import Page


@require_safe
def status(request: HttpRequest) -> HttpResponse:
    """How each region does now and did in the last 90 days, what is wrong, what is planned."""
    at = clock.now()
    shown = status_page(at=at)
    return kept.render(request, "trust/status.html", lambda: {"status": shown}, shown=shown, at=at)


@require_safe
def about(request: HttpRequest) -> HttpResponse:
    """Who we are, with the source of every figure, and where our machines stand."""
    return visitor_pages.render(
        request, "trust/about.html", lambda _at: _written(Page.Slug.ABOUT) | {"regions": queries.places()}
    )


@require_safe
def sla(request: HttpRequest) -> HttpResponse:
    """What is promised, and what the offers themselves state."""
    return visitor_pages.render(
        request, "trust/sla.html", lambda _at: _written(Page.Slug.SLA) | {"promises": promises()}
    )


@require_safe
def security(request: HttpRequest) -> HttpResponse:
    """How customers are kept apart and where their data stays."""
    return visitor_pages.render(
        request, "trust/security.html", lambda _at: _written(Page.Slug.SECURITY) | {"statements": statements()}
    )


def status_page(*, at: datetime) -> presentation.StatusPage:
    """Everything the status page shows at the instant `at`: three statements."""
    troubles = queries.incidents(since=presentation.window_start(at))
    return presentation.status_page(queries.places(), troubles, queries.maintenance(at=at), at=at)


def _written(slug: Page.Slug) -> dict[str, Any]:
    """The page (None while nobody has written it) and what it is called then."""
    return {"page": queries.page(slug), "name": slug.label}


def promises() -> list[dict[str, Any]]:
    """What offers state, in words; empty while none states anything."""
    found = queries.promises()
    if not any(one.sla_percent is not None or one.response_minutes is not None for one in found):
        return []
    return [one._asdict() | {"label": Offer.Kind(one.kind).label} for one in found]


def statements() -> list[dict[str, Any]]:
    """What is stated of data, once, with the regions it holds for; regions without a statement come last."""
    regions: dict[tuple[str, str], list[str]] = {}
    for place in queries.places():
        regions.setdefault((place.data_stays, place.crossing), []).append(place.name)
    found = [{"regions": names, "stays": stays, "crossing": crossing} for (stays, crossing), names in regions.items()]
    return sorted(found, key=lambda one: not (one["stays"] or one["crossing"]))
