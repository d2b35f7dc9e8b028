"""Pages that show the catalogue to visitors: made once for every version of it, and never older than the question."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse

from catalog import changes
from marketplace.lib import clock, kept


def render(request: HttpRequest, template: str, context: Callable[[datetime], dict[str, Any]]) -> HttpResponse:
    """The page whose context is made as of the instant it is given; one statement where the page is still true."""
    at = clock.now()
    return kept.render(request, template, lambda: context(at), shown=changes.version(at=at), at=at)
