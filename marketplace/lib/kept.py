"""Whole pages kept for visitors, by everything they show.

Rendering is what a page costs. For somebody without a session a page is made of what its view found, the address, the
language, the currency and the year in its footer: equal values make the equal page, so nothing can be stale and nothing
needs a lifetime. Only the token against forged forms is each visitor's own and put in afterwards.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import get_language

from marketplace.lib import visitor

# Pages a process keeps; the one that was asked for longest ago goes first.
MOST = 128
LONGEST_ADDRESS = 200
# Stands where the token will be; random, so that no address can name it.
TOKEN = secrets.token_hex(16)
MESSAGES_COOKIE = "messages"

_pages: OrderedDict[Hashable, str] = OrderedDict()


def render(
    request: HttpRequest, template: str, context: Callable[[], dict[str, Any]], *, shown: Hashable
) -> HttpResponse:
    """As Django's `render`. `shown` is everything that the view's part of the page depends on."""
    if not _is_a_stranger(request) or len(request.get_full_path()) > LONGEST_ADDRESS:
        return HttpResponse(render_to_string(template, context(), request))
    key = (
        template,
        request.get_host(),
        request.get_full_path(),
        get_language(),
        visitor.currency_of(request),
        timezone.localdate().year,
        shown,
    )
    # Taken out and put back at the end: each step is atomic, so threads need no lock.
    page = _pages.pop(key, None) or render_to_string(template, context() | {"csrf_token": TOKEN}, request)
    _pages[key] = page
    if len(_pages) > MOST:
        _pages.popitem(last=False)
    return HttpResponse(page.replace(TOKEN, get_token(request)))


def forget() -> None:
    """For tests that change what pages show beside their facts, such as settings."""
    _pages.clear()


def _is_a_stranger(request: HttpRequest) -> bool:
    """Nobody is signed in and no message waits: both travel in these cookies alone."""
    return not {settings.SESSION_COOKIE_NAME, MESSAGES_COOKIE} & request.COOKIES.keys()
