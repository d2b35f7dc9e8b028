"""Small pieces of the list's page, formatted plainly or kept by all they show: as loops of a template they cost more
than everything the database does for the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from html import escape
from typing import NamedTuple

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.forms import SORT_LABELS
from catalog.views.facets import Chip, Suggestion

CURRENT = ' aria-current="true"'


class Shape(NamedTuple):
    """Everything that the layout's own words depend on; `language` is the active one."""

    language: str
    currency: str
    view: str
    term: str
    filled: bool
    chosen: bool
    narrowed: bool
    problems: bool


def layout(shape: Shape, parts: Mapping[str, str]) -> SafeString:
    """The list's content with these finished parts in their places."""
    return mark_safe(_PLACE.sub(lambda found: parts[found[1]], _layout(shape)))  # noqa: S308 - the parts are escaped


@lru_cache(maxsize=256)
def _layout(shape: Shape) -> str:
    return render_to_string("catalog/_list.html", {"shape": shape, "place": _Places()})


class _Places:
    """Marks the place of a part by its name; no text of a template holds a NUL."""

    def __getitem__(self, name: str) -> SafeString:
        return mark_safe(f"\0{name}\0")  # noqa: S308 - a name from a template


_PLACE = re.compile("\0([a-z_]+)\0")


def total(count: int) -> str:
    return ngettext("%(n)s offer", "%(n)s offers", count) % {"n": count}


@lru_cache(maxsize=256)
def fields(language: str, text: str, sort: str) -> SafeString:
    """The search field and the choice of the order; `language` is the active one."""
    context = {"text": text, "sort": sort, "sorts": SORT_LABELS.items()}
    return mark_safe(render_to_string("catalog/_fields.html", context))  # noqa: S308 - the template escapes


def links(choices: Iterable[tuple[object, str, bool]]) -> SafeString:
    """Items of a list of links: label, address and whether it is the current one."""
    items = [
        f'<li><a href="{escape(href)}"{CURRENT if current else ""}>{escape(str(label))}</a></li>'
        for label, href, current in choices
    ]
    return mark_safe("".join(items))  # noqa: S308 - every value is escaped


def chips(shown: Iterable[Chip]) -> SafeString:
    """What is set, each as a link that takes it away."""
    remove = escape(_("(remove)"))
    items = [
        f'<li><a class="chip" href="{escape(href)}">{escape(label)}<span class="visually-hidden"> {remove}</span>'
        f'<span class="chip__mark" aria-hidden="true">×</span></a></li>'
        for label, href in shown
    ]
    return mark_safe("".join(items))  # noqa: S308 - every value is escaped


@lru_cache(maxsize=256)
def nothing(language: str, suggestions: tuple[Suggestion, ...]) -> SafeString:
    """What stands where the offers would; `language` is the active one."""
    context = {"suggestions": suggestions}
    return mark_safe(render_to_string("catalog/_nothing.html", context))  # noqa: S308 - the template escapes
