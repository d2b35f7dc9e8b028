"""Whole pages kept for visitors, by everything they show.

Rendering is what a page costs. For somebody without a session a page is made of what its view found, the address, the
language, the currency and the year in its footer: equal values make the equal page, so nothing can be stale and nothing
needs a lifetime. Only the token against forged forms, each visitor's own, and the time of the answer are put in
afterwards.
"""

from __future__ import annotations

import secrets
import zoneinfo
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.template import Context, Engine
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import conditional_escape
from django.utils.translation import get_language

from marketplace.lib import visitor

# Pages a process keeps; the one that was asked for longest ago goes first.
MOST = 128
LONGEST_ADDRESS = 200
# Stand where the token, the time and the address will be; random, so that no address can name them.
TOKEN = secrets.token_hex(16)
ANSWERED_AT = secrets.token_hex(16)
ADDRESS = secrets.token_hex(16)
MESSAGES_COOKIE = "messages"

_pages: OrderedDict[Hashable, str] = OrderedDict()
_parts: dict[Hashable, str] = {}


def render(
    request: HttpRequest, template: str, context: Callable[[], dict[str, Any]], *, shown: Hashable, at: datetime
) -> HttpResponse:
    """As Django's `render`, with the context made only when it is needed.

    `shown` is everything that the view's part of the page depends on, read before the context is made. The template may
    say when it answered: `answered_at`, hours to seconds in the reader's zone.
    """
    answered = timezone.localtime(at, zoneinfo.ZoneInfo(_zone(request))).strftime("%H:%M:%S")
    if not _is_a_stranger(request) or len(request.get_full_path()) > LONGEST_ADDRESS:
        own = render_to_string(template, context() | {"answered_at": ANSWERED_AT}, request)
        return HttpResponse(own.replace(ANSWERED_AT, answered))
    key = (
        template,
        _site(request),
        request.get_full_path(),
        get_language(),
        visitor.currency_of(request),
        timezone.localdate(at).year,
        shown,
    )
    # Taken out and put back at the end: each step is atomic, so threads need no lock.
    page: str = _pages.pop(key, "") or _page(request, template, context())
    _pages[key] = page
    if len(_pages) > MOST:
        _pages.popitem(last=False)
    return HttpResponse(page.replace(TOKEN, get_token(request)).replace(ANSWERED_AT, answered))


def _page(request: HttpRequest, template: str, context: dict[str, Any]) -> str:
    page = render_to_string(template, context | {"csrf_token": TOKEN, "answered_at": ANSWERED_AT}, request)
    return str(page).replace(ADDRESS, conditional_escape(request.get_full_path()))


def part(context: Context, template: str) -> str:
    """A part of a page that depends on nothing the view found, made once for every path while pages are kept.

    Where it names the page's whole address it must ask `address`.
    """
    if not _is_kept(context):
        return Engine.get_default().get_template(template).render(context)
    request = context["request"]
    place = (_site(request), request.path, get_language(), visitor.currency_of(request), timezone.localdate().year)
    key = (template, *place)
    if key not in _parts:
        if len(_parts) >= MOST:
            _parts.clear()
        _parts[key] = Engine.get_default().get_template(template).render(context)
    return _parts[key]


def address(context: Context) -> str:
    """The page's whole address; in a part that is kept, what stands for it."""
    return ADDRESS if _is_kept(context) else context["request"].get_full_path()


def _is_kept(context: Context) -> bool:
    return context.get("csrf_token") == TOKEN


def forget() -> None:
    """For tests that change what pages show beside their facts, such as settings."""
    _pages.clear()
    _parts.clear()


def _is_a_stranger(request: HttpRequest) -> bool:
    """Nobody is signed in and no message waits: both travel in these cookies alone."""
    return not {settings.SESSION_COOKIE_NAME, MESSAGES_COOKIE} & request.COOKIES.keys()


def _site(request: HttpRequest) -> str:
    """What the page's absolute addresses begin with."""
    return f"{request.scheme}://{request.get_host()}"


def _zone(request: HttpRequest) -> str:
    organization = getattr(request, "organization", None)
    return organization.zone if organization else settings.TIME_ZONE
