"""The list's address, which is its state, read into a filter.

No Django form: with some twenty facets, building and drawing one costs more than everything else on the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Offer
from catalog.queries import LINKS, PRECISIONS, TERMS, Facets, OfferFilter

LONGEST_TEXT = 60
MOST_VALUES = 50
# What the address may hold besides filters.
VIEWS = ("cards", "table")

SORT_LABELS: dict[str, Promise] = {
    "": gettext_lazy("Recommended"),
    "price": gettext_lazy("Price per card-hour, lowest first"),
    "-price": gettext_lazy("Price per card-hour, highest first"),
    "tflops": gettext_lazy("Price per BF16 TFLOPS, lowest first"),
    "memory-value": gettext_lazy("Memory for the money, most first"),
    "-free": gettext_lazy("Free cards, most first"),
    "-memory": gettext_lazy("Memory, largest first"),
    "-bf16": gettext_lazy("BF16 rate, highest first"),
}

# Facets whose values are known beforehand, and those whose values are what is on sale.
FIXED = {
    "kind": tuple(Offer.Kind.values),
    "link": LINKS,
    "fabric": tuple(value or "none" for value in Offer.Fabric.values),
    "isolation": tuple(Offer.Isolation.values),
    "cooling": tuple(Offer.Cooling.values),
    "precision": tuple(PRECISIONS),
    "priced": TERMS,
}
OPEN = ("family", "vendor", "region", "size")
WHOLE = ("memory", "memory_max", "free")
EXACT = ("rate", "speed", "price_min", "price_max")
CHECKS = ("available", "domestic")

_WHOLE = re.compile(r"\d{1,6}", re.ASCII)
_EXACT = re.compile(r"\d{1,9}(\.\d{1,6})?", re.ASCII)


@dataclass(slots=True)
class ListQuery:
    """What an address asks for; `problems` says by parameter what could not be read, which narrows nothing."""

    wanted: OfferFilter
    view: str = "cards"
    page: int = 1
    problems: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, data: QueryDict) -> ListQuery:
        query = cls(OfferFilter())
        if not data:
            return query
        read: dict[str, Any] = {"text": data.get("q", "").replace("\0", "").strip()[:LONGEST_TEXT]}
        read |= {name: query._known(name, _texts(data, name), known) for name, known in FIXED.items()}
        read |= {name: tuple(dict.fromkeys(_texts(data, name)))[:MOST_VALUES] for name in OPEN[:-1]}
        sizes = [query._number("size", text, _WHOLE, int) for text in data.getlist("size")]
        read["size"] = tuple(dict.fromkeys(size for size in sizes if size is not None))
        read |= {name: query._number(name, data.get(name, ""), _WHOLE, int) for name in WHOLE}
        read |= {name: query._number(name, data.get(name, ""), _EXACT, Decimal) for name in EXACT}
        read |= {name: data.get(name, "") not in {"", "0", "off"} for name in CHECKS}
        read["sort"] = _one_of(data.get("sort", ""), tuple(SORT_LABELS))
        read["term"] = _one_of(data.get("term", ""), TERMS)
        query.wanted = OfferFilter(**read)
        query.view = _one_of(data.get("view", ""), VIEWS)
        query.page = _page_number(data.get("page", ""))
        return query

    def drop_unknown(self, facets: Facets) -> bool:
        """Take out what no offer on sale has, with a word about each; whether there was any."""
        unknown = {}
        for name in OPEN:
            asked = getattr(self.wanted, name)
            known = facets.counts.get(name, {})
            kept = tuple([value for value in asked if str(value) in known])
            if kept != asked:
                unknown[name] = kept
                missing = next(value for value in asked if value not in kept)
                self.problems[name] = _("%(value)s is not one of the available choices.") % {"value": missing}
        self.wanted = replace(self.wanted, **unknown)
        return bool(unknown)

    def _known(self, name: str, asked: list[str], known: tuple[str, ...]) -> tuple[str, ...]:
        values = list(dict.fromkeys(asked))
        for value in values:
            if value not in known:
                self.problems[name] = _("%(value)s is not one of the available choices.") % {"value": value[:40]}
        return tuple([value for value in values if value in known])

    def _number(self, name: str, text: str, shape: re.Pattern[str], make: Callable[[str], Any]) -> Any:
        text = text.strip()
        if not text:
            return None
        if not shape.fullmatch(text):
            self.problems[name] = _("%(value)s is not a number that can be used here.") % {"value": text[:40]}
            return None
        return make(text)


def pairs(query: ListQuery) -> list[tuple[str, str]]:
    """The address's parts that were understood, without the page: every link of the list starts from these."""
    wanted = query.wanted
    found: list[tuple[str, str]] = [("q", wanted.text)] if wanted.text else []
    for name in (*OPEN, *FIXED):
        found += [(name, str(value)) for value in getattr(wanted, name)]
    found += [(name, f"{value}") for name in (*WHOLE, *EXACT) if (value := getattr(wanted, name)) is not None]
    found += [(name, "on") for name in CHECKS if getattr(wanted, name)]
    usual: Mapping[str, str] = {"sort": "", "term": TERMS[0], "view": VIEWS[0]}
    chosen = {"sort": wanted.sort, "term": wanted.term, "view": query.view}
    return found + [(name, value) for name, value in chosen.items() if value != usual[name]]


def _texts(data: QueryDict, name: str) -> list[str]:
    """The values of a repeated parameter as the database can compare them."""
    return [text for value in data.getlist(name) if (text := value.replace("\0", "").strip())]


def _one_of(text: str, known: tuple[str, ...]) -> str:
    return text if text in known else known[0]


def _page_number(text: str) -> int:
    """Page one for anything that is no page number."""
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 6 else 1
