"""The panel of facets, the chips of what is set, and what to let go of where nothing is left.

Counts change with every filter, so this is drawn anew for each; plain formatting is many times as fast as a form.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from html import escape
from typing import NamedTuple
from urllib.parse import urlencode

from django.utils.functional import Promise
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy

from catalog.forms import CHECKS, EXACT, FIXED, OPEN, WHOLE, ListQuery, pairs
from catalog.models import Offer
from catalog.presentation import TERM_LABELS
from catalog.queries import Facets
from marketplace.lib.digits import trimmed
from marketplace.lib.money import SYMBOLS
from marketplace.lib.spoken import in_chinese

TITLES: dict[str, str | Promise] = {
    "q": gettext_lazy("Search"),
    "family": gettext_lazy("Family"),
    "vendor": gettext_lazy("Vendor"),
    "region": gettext_lazy("Region"),
    "kind": gettext_lazy("Sold as"),
    "size": gettext_lazy("Cards per unit"),
    "link": gettext_lazy("In-node link"),
    "fabric": gettext_lazy("Network between hosts"),
    "isolation": gettext_lazy("Isolation"),
    "cooling": gettext_lazy("Cooling"),
    "precision": gettext_lazy("Precision with a published rate"),
    "priced": gettext_lazy("Has a price for"),
    "speed": gettext_lazy("Network per card"),
    "memory": gettext_lazy("Memory per card"),
    "price": gettext_lazy("Price per card-hour"),
    "free": gettext_lazy("Free now"),
    "domestic": gettext_lazy("Domestic"),
}
# The parameters of each facet of the statement, where they are not just its name.
_PARAMETERS = {
    "text": ("q",),
    "memory": ("memory", "memory_max"),
    "price": ("price_min", "price_max"),
    "precision": ("precision", "rate"),
    "free": ("available", "free"),
}
_LABELS: dict[str, dict[str, str | Promise]] = {
    "kind": dict(Offer.Kind.choices),
    "fabric": {value or "none": label for value, label in Offer.Fabric.choices},
    "isolation": dict(Offer.Isolation.choices),
    "cooling": dict(Offer.Cooling.choices),
    "priced": dict(TERM_LABELS),
    "link": {
        "nvlink": "NVLink",
        "hccs": "HCCS",
        "pcie": "PCIe",
        "other": gettext_lazy("Other link"),
        "none": gettext_lazy("Not published"),
    },
}
_SENTENCES: dict[str, Promise] = {
    "q": gettext_lazy("“%(value)s”"),
    "memory": gettext_lazy("From %(value)s GB"),
    "memory_max": gettext_lazy("Up to %(value)s GB"),
    "price_min": gettext_lazy("From %(value)s per card-hour"),
    "price_max": gettext_lazy("Up to %(value)s per card-hour"),
    "rate": gettext_lazy("At least %(value)s TFLOPS"),
    "speed": gettext_lazy("At least %(value)s Gb/s"),
    "free": gettext_lazy("At least %(value)s cards free"),
    "available": gettext_lazy("Available now"),
    "domestic": gettext_lazy("Domestic cards only"),
}
_WORDS: dict[str, Promise] = {
    "any": gettext_lazy("Any"),
    "from": gettext_lazy("At least"),
    "up to": gettext_lazy("At most"),
    "available": gettext_lazy("Available now"),
    "domestic": gettext_lazy("Domestic cards only"),
    "free": gettext_lazy("Cards free, at least"),
    "rate": gettext_lazy("At least, in TFLOPS (INT8: TOPS)"),
    "speed": gettext_lazy("Gb/s per card, at least"),
}
# What most visitors choose by stands open; the rest opens on a click, or by itself when it is set.
_STANDS_OPEN = {"free", "family", "region", "size", "memory", "price"}
_ORDER = (
    "free", "family", "vendor", "region", "size", "memory", "price", "precision", "kind", "link", "fabric", "isolation",
    "cooling", "priced",
)  # fmt: skip
# Shown with a zero where nothing on sale has it, so that a visitor sees that it was asked.
_ALWAYS = {"precision", "priced", "link"}
_RATED_LINKS = ("nvlink", "hccs", "pcie")


class Chip(NamedTuple):
    label: str
    href: str


class Suggestion(NamedTuple):
    """What to let go of, how many offers that brings, and the address without it."""

    label: str
    count: int
    href: str


def address(parts: Iterable[tuple[str, str]]) -> str:
    """This list with these parts of an address."""
    query = urlencode(list(parts))
    return f"?{query}" if query else "?"


def panel(query: ListQuery, facets: Facets, *, language: str, currency: str) -> SafeString:
    """Every facet with its values and counts, as the fields of the list's form."""
    drawer = _Drawer(query, facets, language=language, currency=currency)
    return mark_safe("".join([drawer.facet(name) for name in _ORDER]))  # noqa: S308 - every value is escaped


def chips(query: ListQuery, facets: Facets, *, language: str, currency: str) -> list[Chip]:
    """What is set, each with the address that takes it away."""
    parts, chinese = pairs(query), in_chinese(language)
    return [
        Chip(_chip(name, value, facets, chinese, currency), address(p for p in parts if p != (name, value)))
        for name, value in parts
        if name not in {"sort", "term", "view"}
    ]


def suggestions(query: ListQuery, facets: Facets, *, language: str, currency: str) -> list[Suggestion]:
    """The nearest filters to drop, those that bring most first."""
    parts, chinese = pairs(query), in_chinese(language)
    found = []
    for facet, count in sorted(facets.without.items(), key=lambda pair: (-pair[1], pair[0])):
        dropped = _PARAMETERS.get(facet, (facet,))
        words = [_chip(name, value, facets, chinese, currency) for name, value in parts if name in dropped]
        found.append(Suggestion(", ".join(words), count, address(p for p in parts if p[0] not in dropped)))
    return found[:3]


def _chip(name: str, value: str, facets: Facets, chinese: bool, currency: str) -> str:
    if name in _SENTENCES:
        shown = f"{SYMBOLS[currency]}{value}" if name.startswith("price") else trimmed(value)
        return str(_SENTENCES[name]) % {"value": value if name == "q" else shown}
    return f"{TITLES[name]}: {value_label(name, value, facets, chinese)}"


def value_label(name: str, value: str, facets: Facets, chinese: bool) -> str:
    """A facet's value as people read it."""
    if name == "region":
        names = facets.regions.get(value)
        return names[0 if chinese else 1] if names else value
    if name == "precision":
        return value.upper()
    return str(_LABELS.get(name, {}).get(value, value))


@lru_cache(maxsize=16)
def _said(language: str) -> dict[str, str]:
    """The panel's titles and words, escaped; `language` is the active one. To look each up anew would cost a third."""
    return {
        name: escape(str(word)) for name, word in [*_WORDS.items(), *((f"title {n}", t) for n, t in TITLES.items())]
    }


class _Drawer:
    """Draws the facets of one answer."""

    def __init__(self, query: ListQuery, facets: Facets, *, language: str, currency: str) -> None:
        self.query = query
        self.wanted = query.wanted
        self.facets = facets
        self.chinese = in_chinese(language)
        self.said = _said(language)
        self.currency = currency

    def facet(self, name: str) -> str:
        draw = {"free": self._free, "memory": self._memory, "price": self._price}.get(name)
        body = draw() if draw else self._values(name)
        if name == "precision":
            body += self._number("rate", self.said["rate"])
        if name == "fabric":
            body += self._speed()
        if name == "vendor":
            body += self._check("domestic", self.said["domestic"], self._count("domestic", "domestic"))
        if not body:
            return ""
        names = {*_PARAMETERS.get(name, (name,)), *({"speed"} if name == "fabric" else ())}
        names |= {"domestic"} if name == "vendor" else set()
        is_set = any(getattr(self.wanted, one) not in ((), None, False) for one in names)
        wrong = "".join([self._problem(one) for one in sorted(names)])
        stands = name in _STANDS_OPEN or is_set or wrong
        title = self.said[f"title {name}"]
        return (
            f'<details class="facet" data-facet="{name}"{" open" if stands else ""}><summary>{title}</summary>'
            f'<div class="facet__body" role="group" aria-label="{title}">{body}{wrong}</div></details>'
        )

    def _values(self, name: str) -> str:
        counts = self.facets.counts.get(name, {})
        chosen = [str(value) for value in getattr(self.wanted, name)]
        if name in _ALWAYS:
            known = [v for v in FIXED[name] if v in counts or v in chosen or name != "link" or v in _RATED_LINKS]
        elif name in FIXED:
            known = [value for value in FIXED[name] if value in counts or value in chosen]
        elif name == "size":
            known = sorted(counts, key=int)
        elif name == "region":
            known = [code for code in self.facets.regions if code in counts]
        else:
            known = sorted(counts)
        if name in OPEN:
            known = [value for value in known if counts[value] or value in chosen]
        elif len(known) < 2 and not chosen:
            return ""
        return "".join(
            [
                self._choice(name, value, value_label(name, value, self.facets, self.chinese), counts.get(value, 0),
                             value in chosen)
                for value in known
            ]
        )  # fmt: skip

    def _choice(self, name: str, value: str, label: str, count: int, chosen: bool, *, kind: str = "") -> str:
        state = " checked" if chosen else "" if count else " disabled"
        return (
            f'<label class="facet__value"><input type="checkbox" id="f-{escape(name)}-{escape(value)}" name="{name}" '
            f'value="{escape(kind or value)}"{state}><span>{escape(label)}</span>'
            f'<span class="facet__count">{count}</span></label>'
        )

    def _check(self, name: str, label: str, count: int) -> str:
        return self._choice(name, name, label, count, getattr(self.wanted, name), kind="on")

    def _number(self, name: str, label: str, placeholder: str = "") -> str:
        value = getattr(self.wanted, name)
        invalid = f' aria-invalid="true" aria-describedby="f-{name}-error"' if name in self.query.problems else ""
        return (
            f'<label class="facet__number"><span>{label}</span>'
            f'<input class="input" id="f-{name}" name="{name}" inputmode="decimal" autocomplete="off" '
            f'value="{"" if value is None else trimmed(str(value))}" '
            f'placeholder="{escape(placeholder)}"{invalid}></label>'
        )

    def _select(self, name: str, label: str, options: Iterable[tuple[str, str]]) -> str:
        value = getattr(self.wanted, name)
        chosen = "" if value is None else trimmed(str(value))
        drawn = "".join(
            [
                f'<option value="{escape(v)}"{" selected" if v == chosen else ""}>{escape(text)}</option>'
                for v, text in options
            ]
        )
        return (
            f'<label class="facet__number"><span>{label}</span><select class="input" id="f-{name}" '
            f'name="{name}"><option value="">{self.said["any"]}</option>{drawn}</select></label>'
        )

    def _free(self) -> str:
        return self._check("available", self.said["available"], self._count("free", "available")) + self._number(
            "free", self.said["free"]
        )

    def _memory(self) -> str:
        counts = {int(size): count for size, count in self.facets.counts.get("memory", {}).items()}
        sizes = sorted({*counts, *(m for m in (self.wanted.memory, self.wanted.memory_max) if m is not None)})
        least = [(str(s), f"{s} GB ({sum(n for size, n in counts.items() if size >= s)})") for s in sizes]
        most = [(str(s), f"{s} GB ({sum(n for size, n in counts.items() if size <= s)})") for s in sizes]
        pair = self._select("memory", self.said["from"], least) + self._select("memory_max", self.said["up to"], most)
        return f'<div class="facet__pair">{pair}</div>'

    def _price(self) -> str:
        low, high = (trimmed(str(v)) if v is not None else "" for v in (self.facets.lowest, self.facets.highest))
        symbol = SYMBOLS[self.currency]
        pair = self._number("price_min", f"{self.said['from']} ({symbol})", low) + self._number(
            "price_max", f"{self.said['up to']} ({symbol})", high
        )
        return f'<div class="facet__pair">{pair}</div>'

    def _speed(self) -> str:
        counts = {Decimal(speed): count for speed, count in self.facets.counts.get("speed", {}).items()}
        speeds = sorted({*counts, *([self.wanted.speed] if self.wanted.speed is not None else [])})
        options = [
            (trimmed(str(s)), f"{trimmed(str(s))} Gb/s ({sum(n for v, n in counts.items() if v >= s)})") for s in speeds
        ]
        return self._select("speed", self.said["speed"], options) if options else ""

    def _count(self, facet: str, value: str) -> int:
        return self.facets.counts.get(facet, {}).get(value, 0)

    def _problem(self, name: str) -> str:
        text = self.query.problems.get(name)
        return f'<p class="facet__problem" id="f-{name}-error">{escape(text)}</p>' if text else ""


def narrowed(query: ListQuery) -> int:
    """How many facets are set, the search not counted."""
    names = (*OPEN, *FIXED, *WHOLE, *EXACT, *CHECKS)
    return sum(1 for name in names if getattr(query.wanted, name) not in ((), None, False))
