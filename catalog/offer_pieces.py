"""The parts of an offer's own page: prices and their history, figures with their sources, what was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import GpuModel, Offer, Price
from catalog.offer_facts import DatedRate, OfferFacts, QuestionFact, SourceFact
from catalog.presentation import TERM_HOURS, TERM_LABELS, TERM_METERS, fabric_doubt, fabric_name, hourly_saving
from catalog.queries import OfferRow
from catalog.texts import in_language
from marketplace.lib.money import format_rate
from marketplace.lib.spoken import in_chinese

ISOLATION_MEANS = {
    Offer.Isolation.CONTAINER: gettext_lazy(
        "Your machine is a container of its own with root inside and whole cards; no card is shared or sliced. "
        "The kernel and the driver belong to the host, so kernel modules cannot be loaded."
    ),
    Offer.Isolation.VM: gettext_lazy(
        "Your machine is a virtual machine with a kernel of its own; whole cards are passed through to it."
    ),
    Offer.Isolation.BARE_METAL: gettext_lazy(
        "The whole server is yours, without a layer of ours below your operating system."
    ),
}

# Which figures of the card the page shows, in order, with their labels and units.
_FIGURES = (
    ("architecture", gettext_lazy("Architecture"), ""),
    ("memory_gb", gettext_lazy("Memory"), "GB"),
    ("memory_type", gettext_lazy("Memory type"), ""),
    ("memory_bandwidth_gbps", gettext_lazy("Memory bandwidth"), "GB/s"),
    ("bf16_tflops", "BF16", "TFLOPS"),
    ("measured_bf16_tflops", gettext_lazy("BF16, measured"), "TFLOPS"),
    ("fp16_tflops", "FP16", "TFLOPS"),
    ("tf32_tflops", "TF32", "TFLOPS"),
    ("fp32_tflops", "FP32", "TFLOPS"),
    ("fp64_tflops", "FP64", "TFLOPS"),
    ("fp8_tflops", "FP8", "TFLOPS"),
    ("fp4_tflops", "FP4", "TFLOPS"),
    ("int8_tops", "INT8", "TOPS"),
    ("interconnect_type", gettext_lazy("In-node link"), ""),
    ("interconnect_gbps", gettext_lazy("In-node link, both directions"), "GB/s"),
    ("host_bus", gettext_lazy("Host bus"), ""),
    ("host_bus_gbps", gettext_lazy("Host bus, both directions"), "GB/s"),
    ("tdp_watts", gettext_lazy("Power"), "W"),
    ("form_factor", gettext_lazy("Form factor"), ""),
    ("max_gpus_per_node", gettext_lazy("Cards per host at most"), ""),
    ("release_year", gettext_lazy("Release year"), ""),
    ("software_stack", gettext_lazy("Software stack"), ""),
)

_NAMES = tuple(name for name, _label, _unit in _FIGURES)

# Sources of our own, beside the catalogue's.
OWN_WORDS, OWN_MACHINE, OWN_PROMISE, OWN_PRICE = "own:words", "own:machine", "own:promise", "own:price"


class TermPrice(NamedTuple):
    """One term's rate per card and per unit, and what it saves against paying by the hour all the time."""

    term: str
    label: str
    per_card: Decimal
    per_unit: Decimal
    per_card_hour: Decimal
    saving_percent: Decimal | None


class Figure(NamedTuple):
    label: str
    value: Any
    unit: str
    doubt: str
    sources: list[int]


class NumberedSource(NamedTuple):
    number: int
    url: str
    what: str
    grade: str


class HistoryCell(NamedTuple):
    """A rate per card that held from an instant on, and what it comes to for an hour of the term."""

    rate: Decimal
    per_hour: Decimal


class HistoryRow(NamedTuple):
    at: datetime
    cells: list[HistoryCell | None]


class History(NamedTuple):
    """How the prices of each term changed; `changes` is at how many instants after the first any of them did."""

    labels: list[str]
    rows: list[HistoryRow]
    changes: int


# --- prices ----------------------------------------------------------------------------------------------------------
def term_prices(offer: Offer, rates: Mapping[str, DatedRate]) -> list[TermPrice]:
    """Every term that has a price, shortest first."""
    hourly = rates.get(Price.Meter.CARD_HOUR)
    shown = []
    for term, meter in TERM_METERS.items():
        if meter in rates:
            rate = rates[meter].rate
            saving = hourly_saving(rate, hourly.rate if hourly else None, term)
            shown.append(
                TermPrice(
                    term, str(TERM_LABELS[term]), rate, rate * offer.cards_per_unit, _per_hour(rate, term), saving
                )
            )
    return shown


def history(rates: Sequence[DatedRate], at: datetime) -> History:
    """A row for every instant up to `at` at which a price of a term began or ended, oldest first."""
    terms = [term for term, meter in TERM_METERS.items() if any(rate.meter == meter for rate in rates)]
    of_terms = [rate for rate in rates if rate.meter in {TERM_METERS[term] for term in terms}]
    ends = {rate.end for rate in of_terms if rate.end is not None}
    instants = sorted({rate.start for rate in of_terms} | {end for end in ends if end <= at})
    rows = [HistoryRow(instant, [_cell(of_terms, term, instant) for term in terms]) for instant in instants]
    return History([str(TERM_LABELS[term]) for term in terms], rows, max(0, len(rows) - 1))


def _cell(rates: Sequence[DatedRate], term: str, at: datetime) -> HistoryCell | None:
    held = next((rate for rate in rates if rate.meter == TERM_METERS[term] and rate.holds(at)), None)
    return HistoryCell(held.rate, _per_hour(held.rate, term)) if held else None


def _per_hour(rate: Decimal, term: str) -> Decimal:
    return (rate / TERM_HOURS[term]).quantize(Decimal("0.01"), ROUND_HALF_UP)


# --- figures and where they come from --------------------------------------------------------------------------------
def numbered_sources(
    offer: Offer, gpu_model: GpuModel, known: Mapping[str, SourceFact], *, priced: bool
) -> dict[str, NumberedSource]:
    """The sources that the page's figures name, numbered in the order in which the page meets them."""
    order: dict[str, None] = {}
    for name in _NAMES:
        order.update(dict.fromkeys(gpu_model.sources.get(name, ())))
    texts = {
        key: (known[key].url, in_language(known[key].what), in_language(known[key].grade))
        for key in order
        if key in known
    }
    if any(_value(gpu_model, name) is not None and not _named(gpu_model, name, known) for name in _NAMES):
        texts[OWN_WORDS] = ("", _("Our own classification"), _("provider"))
    demo = offer.pool is not None and offer.pool.is_demo
    texts[OWN_MACHINE] = ("", _("Our configuration of this offer"), _("demonstration") if demo else _("provider"))
    if offer.sla_percent is not None or offer.response_minutes is not None:
        texts[OWN_PROMISE] = ("", _("Our promise for this offer; your contract decides"), _("provider"))
    if priced:
        texts[OWN_PRICE] = ("", _("Our price list; an order keeps the price it was placed at"), _("provider"))
    return {key: NumberedSource(number, *text) for number, (key, text) in enumerate(texts.items(), start=1)}


def figures(gpu_model: GpuModel, sources: Mapping[str, NumberedSource]) -> list[Figure]:
    """Every figure of the model with its doubt and the numbers of its sources; None where nothing is published."""
    return [
        Figure(
            label=str(label),
            value=_value(gpu_model, name),
            unit=unit,
            doubt=in_language(gpu_model.uncertain.get(name, "")),
            sources=[sources[key].number for key in _named(gpu_model, name, sources) or [OWN_WORDS] if key in sources],
        )
        for name, label, unit in _FIGURES
    ]


def _named(gpu_model: GpuModel, name: str, known: Mapping[str, Any]) -> list[str]:
    """The sources of one figure among those that are known."""
    return [key for key in gpu_model.sources.get(name, ()) if key in known]


def _value(gpu_model: GpuModel, name: str) -> Any:
    """The figure as it is read: years and counts are no quantities, words are in the reader's language."""
    value = getattr(gpu_model, name)
    if isinstance(value, str):
        return in_language(value)
    return str(value) if name == "release_year" and value is not None else value


def machine(offer: Offer, sources: Mapping[str, NumberedSource]) -> list[Figure]:
    """What a unit of the offer is made of."""
    own = [sources[OWN_MACHINE].number]
    rows = (
        (_("Cards"), offer.cards_per_unit, ""),
        (_("vCPUs"), offer.vcpus, ""),
        (_("RAM"), offer.memory_gb, "GB"),
        (_("NVMe disk"), offer.disk_gb, "GB"),
        (_("Cooling"), offer.get_cooling_display(), ""),
    )
    return [Figure(label, value, unit, "", own) for label, value, unit in rows]


def fabric(offer: Offer, sources: Mapping[str, NumberedSource]) -> list[Figure]:
    """What joins the hosts; nothing where no such network is stated. A speed that nobody tested says so."""
    if not offer.fabric:
        return []
    own = [sources[OWN_MACHINE].number]
    doubt = "" if offer.fabric_tested_on else fabric_doubt(offer.fabric_basis)
    return [
        Figure(_("Network between hosts"), fabric_name(offer.fabric), "", "", own),
        Figure(_("Network per card"), offer.fabric_gbps, "Gb/s", doubt, own),
    ]


def promises(offer: Offer, sources: Mapping[str, NumberedSource]) -> list[Figure]:
    """What is promised of availability and answers; nothing where neither is."""
    if OWN_PROMISE not in sources:
        return []
    own = [sources[OWN_PROMISE].number]
    return [
        Figure(_("Availability promised"), offer.sla_percent, "%", "", own),
        Figure(_("First answer promised within"), offer.response_minutes, _("min"), "", own),
    ]


def in_words(language: str, zh: str, en: str) -> str:
    return zh if in_chinese(language) else en


def questions(facts: Sequence[QuestionFact], language: str) -> list[tuple[str, str, list[str]]]:
    """An id for the address, the question and the paragraphs of its answer, in the reader's language."""
    return [
        (
            f"question-{fact.id}",
            in_words(language, fact.question_zh, fact.question_en),
            [part for part in in_words(language, fact.answer_zh, fact.answer_en).split("\n\n") if part.strip()],
        )
        for fact in facts
    ]


# --- for machines ----------------------------------------------------------------------------------------------------
_SCRIPT_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def structured_data(
    facts: OfferFacts, own: OfferRow, prices: Sequence[TermPrice], *, currency: str, address: str
) -> SafeString:
    """The page's offer in schema.org's words, as the text of a JSON-LD block: the same prices and stock as it shows."""
    offer = facts.offer
    data: dict[str, Any] = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": f"{offer.title} · {offer.region.name}",
        "sku": offer.slug,
        "category": str(offer.get_kind_display()),
        "brand": {"@type": "Brand", "name": own.vendor},
        "url": address,
    }
    if prices:
        availability = "InStock" if own.free_units else "SoldOut"
        data["offers"] = [_offered(price, offer, currency, availability, address) for price in prices]
    return mark_safe(json.dumps(data, ensure_ascii=False).translate(_SCRIPT_ESCAPES))  # noqa: S308 - escaped here


_UNIT_CODES = {"hour": "HUR", "month": "MON", "year": "ANN"}


def _offered(price: TermPrice, offer: Offer, currency: str, availability: str, address: str) -> dict[str, Any]:
    amount = _plain(price.per_unit)
    return {
        "@type": "Offer",
        "name": f"{offer.title} · {price.label}",
        "url": address,
        "price": amount,
        "priceCurrency": currency,
        "availability": f"https://schema.org/{availability}",
        "priceSpecification": {
            "@type": "UnitPriceSpecification",
            "price": amount,
            "priceCurrency": currency,
            "unitCode": _UNIT_CODES[price.term],
            "valueAddedTaxIncluded": currency == "CNY",
        },
    }


def _plain(rate: Decimal) -> str:
    """At least two decimals, no more than the rate has."""
    text = f"{rate.normalize():f}"
    return text if len(text.partition(".")[2]) > 2 else f"{rate:.2f}"


def summary(offer: Offer, prices: Sequence[TermPrice], currency: str) -> str:
    """One sentence for a search engine's list."""
    what = f"{offer.title} · {offer.region.name}"
    if not prices:
        return _("%(what)s: figures with sources, on quote.") % {"what": what}
    first = prices[0]
    return _("%(what)s: %(price)s per card (%(term)s), figures with sources, what is free now.") % {
        "what": what,
        "price": format_rate(first.per_card, currency),
        "term": first.label,
    }
