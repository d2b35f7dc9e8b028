"""Pages by which a customer judges whom they deal with: status, about us, service level, security."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog.models import Offer
from marketplace.lib import clock
from trust import presentation, queries
from trust.models import Page


@require_safe
def status(request: HttpRequest) -> HttpResponse:
    """How each region does now and did in the last 90 days, what is wrong, what is planned."""
    return render(request, "trust/status.html", status_context(at=clock.now()))


@require_safe
def about(request: HttpRequest) -> HttpResponse:
    """Who we are, with the source of every figure, and where our machines stand."""
    return render(request, "trust/about.html", page_context(Page.Slug.ABOUT) | {"regions": queries.places()})


@require_safe
def sla(request: HttpRequest) -> HttpResponse:
    """What is promised, and what the offers themselves state."""
    return render(request, "trust/sla.html", page_context(Page.Slug.SLA) | {"promises": promises()})


@require_safe
def security(request: HttpRequest) -> HttpResponse:
    """How customers are kept apart and where their data stays."""
    return render(request, "trust/security.html", page_context(Page.Slug.SECURITY))


def status_context(*, at: datetime) -> dict[str, Any]:
    """`status` is equal for equal pages and can be a key."""
    troubles = queries.incidents(since=presentation.window_start(at))
    return {"status": presentation.status_page(queries.places(), troubles, queries.maintenance(at=at), at=at)}


def page_context(slug: Page.Slug) -> dict[str, Any]:
    """The page (None while nobody has written it), its name, its blocks, and those of them that state a figure."""
    page, blocks = queries.page(slug)
    return {"page": page, "name": slug.label, "blocks": blocks, "facts": [block for block in blocks if block.figure]}


def promises() -> list[dict[str, Any]]:
    """What offers state, in words; empty while none states anything."""
    found = queries.promises()
    if not any(one.sla_percent is not None or one.response_minutes is not None for one in found):
        return []
    return [one._asdict() | {"label": Offer.Kind(one.kind).label} for one in found]
