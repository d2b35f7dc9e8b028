"""Offers as a page shows them.

Rendering is what a list page costs, so its pieces are kept in the process, keyed by every value they show: equal values
make the equal piece, so nothing can be stale and nothing needs a lifetime.
"""

from __future__ import annotations

import json
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Offer, Price
from catalog.queries import OfferRow, Stock
from catalog.texts import in_language
from marketplace.lib.clock import HOURS_PER_MONTH
from marketplace.lib.money import SYMBOLS, format_rate
from marketplace.lib.spoken import in_chinese

TERM_LABELS = {"hour": gettext_lazy("Hourly"), "month": gettext_lazy("Monthly"), "year": gettext_lazy("Yearly")}
TERM_METERS = {"hour": Price.Meter.CARD_HOUR, "month": Price.Meter.MONTH, "year": Price.Meter.YEAR}
TERM_PER_CARD = {
    "hour": gettext_lazy("Per card-hour"),
    "month": gettext_lazy("Per card-month"),
    "year": gettext_lazy("Per card-year"),
}
VIEW_LABELS = {"cards": gettext_lazy("As cards"), "table": gettext_lazy("As a table")}
# A full server, which many offers are part of: its total stands beside the price of a card.
EIGHT = 8
TERM_HOURS = {"hour": 1, "month": HOURS_PER_MONTH, "year": 12 * HOURS_PER_MONTH}


# --- pieces of the list ----------------------------------------------------------------------------------------------
@lru_cache(maxsize=4096)
def offer_row(
    row: OfferRow,
    language: str,
    currency: str,
    term: str,
    *,
    sort: str = "",
    free_from: datetime | None = None,
    compare: bool = False,
) -> SafeString:
    """One offer as a row of the list's table; `term` is the price that stands out.

    `sort` adds the figure the list is sorted by, `free_from` when the first running term ends, `compare` the box that
    picks the offer for the comparison.
    """
    doubts = json.loads(row.doubts)
    whole = doubts.get("*", "")
    chinese = in_chinese(language)

    def doubt(field: str, value: Any) -> str:
        return in_language(doubts.get(field) or whole) if value is not None else ""

    return _render(
        "catalog/_row.html",
        row=row,
        region=row.region_zh if chinese else row.region_en,
        kind=Offer.Kind(row.kind).label if row.kind != Offer.Kind.GPU else "",
        cooling=Offer.Cooling(row.cooling).label,
        isolation=Offer.Isolation(row.isolation).label,
        currency=currency,
        term=term,
        prices=_row_prices(row, currency, term),
        derived=_derived(row, currency, term, sort),
        sort=sort,
        link=in_language(row.link) if row.link else None,
        fabric=fabric_name(row.fabric),
        fabric_doubt=fabric_doubt(row.fabric_basis) if row.fabric and not row.fabric_tested else "",
        memory_doubt=doubt("memory_gb", row.memory_gb),
        bandwidth_doubt=doubt("memory_bandwidth_gbps", row.bandwidth_gbps),
        bf16_doubt=doubt("bf16_tflops", row.bf16_tflops),
        link_doubt=doubt("interconnect_gbps", row.link_gbps),
        free=free_count(row.id, Stock(row.free_cards, row.free_units, row.quote_only), language),
        sold_out=not row.quote_only and not row.free_units,
        free_from=free_from,
        instead=[
            Nearest(slug, model, cards, zh if chinese else en, free)
            for slug, model, cards, zh, en, free in json.loads(row.instead or "[]")
        ],
        compare=compare,
    )


class Nearest(NamedTuple):
    """An offer that is free where another is sold out."""

    slug: str
    model: str
    cards: int
    region: str
    free: int


class RowPrice(NamedTuple):
    """One term's price of a row, ready to read; all texts, empty where there is nothing to say."""

    term: str
    label: str
    per_card: str
    eight_cards: str
    saving: str
    per_hour: str
    chosen: bool


def _row_prices(row: OfferRow, currency: str, term: str) -> list[RowPrice]:
    shown = []
    for name, label in TERM_PER_CARD.items():
        rate: Decimal | None = getattr(row, name)
        if rate is None:
            shown.append(RowPrice(name, str(label), "", "", "", "", name == term))
            continue
        saving = hourly_saving(rate, row.hour, name)
        shown.append(
            RowPrice(
                name,
                str(label),
                unit_rate(rate, currency) if name == "hour" else format_rate(rate, currency),
                format_rate(rate * EIGHT, currency),
                f"{saving}%" if saving is not None else "",
                unit_rate(rate / TERM_HOURS[name], currency) if name != "hour" else "",
                name == term,
            )
        )
    return shown


def hourly_saving(rate: Decimal, hourly: Decimal | None, term: str) -> Decimal | None:
    """Percent that a term saves against paying for every one of its 730 hours a month by the hour."""
    if term == "hour" or not hourly:
        return None
    return ((1 - rate / (hourly * TERM_HOURS[term])) * 100).quantize(Decimal("0.1"), ROUND_HALF_UP)


def unit_rate(rate: Decimal, currency: str) -> str:
    """A price of a card-hour or less, with four decimals; what is even finer keeps two figures that say something."""
    places = Decimal("0.0001") if rate >= Decimal("0.01") else Decimal("0.000001")
    return f"{SYMBOLS[currency]}{rate.quantize(places, ROUND_HALF_UP):,f}"


def _derived(row: OfferRow, currency: str, term: str, sort: str) -> str:
    """The figure a list is sorted by, where no column shows it: at the chosen term's price, every hour used."""
    rate: Decimal | None = getattr(row, term)
    if rate is None or sort not in {"tflops", "memory-value"}:
        return ""
    hourly = rate / TERM_HOURS[term]
    if sort == "tflops":
        if not row.bf16_tflops:
            return ""
        return _("%(rate)s per BF16 TFLOPS and hour") % {"rate": unit_rate(hourly / row.bf16_tflops, currency)}
    if not row.memory_gb or not hourly:
        return ""
    size = (row.memory_gb / hourly).quantize(Decimal("0.01"), ROUND_HALF_UP)
    return _("%(size)s GB per %(symbol)s1 an hour") % {"size": size, "symbol": SYMBOLS[currency]}


def as_of(answered_at: str, *, swap: bool = False) -> SafeString:
    """When the counts of a page were read, to the second; `swap` as for `free_count`."""
    return _render("catalog/_as_of.html", answered_at=answered_at, swap=swap)


@lru_cache(maxsize=8192)
def free_count(offer_id: int, stock: Stock, language: str, swap: bool = False) -> SafeString:
    """What is free of an offer; `swap` marks the piece for HTMX to put in the place of the one with its id."""
    return _render("catalog/_free.html", id=offer_id, stock=stock, swap=swap)


def fabric_name(fabric: str) -> str:
    return str(Offer.Fabric(fabric).label) if fabric else ""


def fabric_doubt(basis: str) -> str:
    """Why the fabric's figure is no measurement."""
    if not basis:
        return _("No acceptance test is recorded yet.")
    return _("Design value (%(basis)s); no acceptance test is recorded yet.") % {"basis": in_language(basis)}


def _render(template: str, **context: Any) -> SafeString:
    return mark_safe(render_to_string(template, context))  # noqa: S308 - the template escapes
