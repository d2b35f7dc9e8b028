"""Two to four offers side by side: every row with what differs and which value is best. Formatting only, no query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Offer
from catalog.presentation import (
    EIGHT,
    TERM_HOURS,
    TERM_PER_CARD,
    fabric_doubt,
    fabric_name,
    hourly_saving,
    unit_rate,
)
from catalog.queries import OfferRow
from catalog.texts import in_language
from marketplace.lib.money import SYMBOLS, format_rate
from marketplace.lib.templatetags.values import unit

MORE, LESS = 1, -1


@dataclass(frozen=True, slots=True)
class Compared:
    """An offer with its prices and stock."""

    offer: Offer
    row: OfferRow

    @property
    def rates(self) -> dict[str, Decimal | None]:
        return {"hour": self.row.hour, "month": self.row.month, "year": self.row.year}


class Cell(NamedTuple):
    """A value as it is read, or empty with the reason in `note`; why it is doubtful; whether it is the best."""

    text: str | SafeString
    note: str = ""
    doubt: str = ""
    best: bool = False


class Line(NamedTuple):
    label: str
    cells: list[Cell]
    differs: bool


class Section(NamedTuple):
    title: str
    note: str
    lines: list[Line]


def sections(compared: Sequence[Compared], *, term: str, currency: str) -> list[Section]:
    """Everything the page shows of the offers; per-yuan rows are at the term's price, as if every hour were used."""
    return [
        Section(_("Price per card"), _("prices include tax") if currency == "CNY" else "", _prices(compared, currency)),
        Section(
            _("For the money"),
            _("per %(symbol)s1 of the hourly price of the chosen term") % {"symbol": SYMBOLS[currency]},
            _values(compared, term, currency),
        ),
        Section(_("Free now"), "", _stock(compared)),
        Section(_("Card"), _("per card; rates are dense"), _figures(compared)),
        Section(_("Machine"), _("per unit, on one host"), _machine(compared)),
    ]


# --- sections --------------------------------------------------------------------------------------------------------
def _prices(compared: Sequence[Compared], currency: str) -> list[Line]:
    lines = []
    for term, label in TERM_PER_CARD.items():
        show = unit_rate if term == "hour" else format_rate
        values = [one.rates[term] for one in compared]
        cells = [
            Cell(show(rate, currency), _eight_and_saving(rate, one.rates["hour"], term, currency))
            if rate is not None
            else Cell("", _no_price(one))
            for one, rate in zip(compared, values, strict=True)
        ]
        lines.append(_line(label, values, cells, LESS))
    return lines


def _eight_and_saving(rate: Decimal, hourly: Decimal | None, term: str, currency: str) -> str:
    words = [_("8 cards: %(total)s") % {"total": format_rate(rate * EIGHT, currency)}]
    saving = hourly_saving(rate, hourly, term)
    if saving is not None:
        words.append(_("saves %(percent)s%%") % {"percent": saving})
    return " · ".join(words)


def _no_price(one: Compared) -> str:
    return _("on quote") if one.row.quote_only else _("no price in this currency")


def _values(compared: Sequence[Compared], term: str, currency: str) -> list[Line]:
    symbol = SYMBOLS[currency]
    figures: list[tuple[str, str, str]] = [
        (_("BF16 per %(symbol)s/h") % {"symbol": symbol}, "bf16_tflops", "TFLOPS"),
        (_("Memory per %(symbol)s/h") % {"symbol": symbol}, "memory_gb", "GB"),
        (_("Memory bandwidth per %(symbol)s/h") % {"symbol": symbol}, "memory_bandwidth_gbps", "GB/s"),
    ]
    lines = []
    for label, name, unit_name in figures:
        values, cells = [], []
        for one in compared:
            rate, figure = one.rates[term], getattr(one.offer.gpu_model, name)
            value = None
            if rate and figure is not None:
                value = (Decimal(figure) * TERM_HOURS[term] / rate).quantize(Decimal("0.01"), ROUND_HALF_UP)
            values.append(value)
            cells.append(_figure(value, unit_name, _doubt(one, name), _no_price(one) if rate is None else ""))
        lines.append(_line(label, values, cells, MORE))
    return lines


def _stock(compared: Sequence[Compared]) -> list[Line]:
    cards = [None if one.row.quote_only else one.row.free_cards for one in compared]
    units = [None if one.row.quote_only else one.row.free_units for one in compared]
    return [
        _line(
            label, values, [Cell("" if v is None else str(v), _("on quote") if v is None else "") for v in values], MORE
        )
        for label, values in ((_("Free cards"), cards), (_("Free units"), units))
    ]


# Figures of a card with unit and which way is better; 0 where neither is.
_CARD: tuple[tuple[str, str | Promise, str, int], ...] = (
    ("vendor", gettext_lazy("Vendor"), "", 0),
    ("domestic", gettext_lazy("Domestic"), "", 0),
    ("architecture", gettext_lazy("Architecture"), "", 0),
    ("memory_gb", gettext_lazy("Memory"), "GB", MORE),
    ("memory_type", gettext_lazy("Memory type"), "", 0),
    ("memory_bandwidth_gbps", gettext_lazy("Memory bandwidth"), "GB/s", MORE),
    ("bf16_tflops", "BF16", "TFLOPS", MORE),
    ("fp16_tflops", "FP16", "TFLOPS", MORE),
    ("tf32_tflops", "TF32", "TFLOPS", MORE),
    ("fp64_tflops", "FP64", "TFLOPS", MORE),
    ("fp8_tflops", "FP8", "TFLOPS", MORE),
    ("fp4_tflops", "FP4", "TFLOPS", MORE),
    ("int8_tops", "INT8", "TOPS", MORE),
    ("interconnect_type", gettext_lazy("In-node link"), "", 0),
    ("interconnect_gbps", gettext_lazy("In-node link, both directions"), "GB/s", MORE),
    ("tdp_watts", gettext_lazy("Power"), "W", LESS),
    ("software_stack", gettext_lazy("Software stack"), "", 0),
)


def _figures(compared: Sequence[Compared]) -> list[Line]:
    lines = []
    for name, label, unit_name, better in _CARD:
        values = [getattr(one.offer.gpu_model, name) for one in compared]
        cells = [
            _figure(_word(value), unit_name, _doubt(one, name)) for one, value in zip(compared, values, strict=True)
        ]
        lines.append(_line(label, values, cells, better))
    return lines


def _machine(compared: Sequence[Compared]) -> list[Line]:
    def line(
        label: str, value: Callable[[Offer], Any], unit_name: str = "", better: int = 0, missing: str = ""
    ) -> Line:
        values = [value(one.offer) for one in compared]
        return _line(
            label, values, [_figure(v or None, unit_name, "", missing or _not_stated()) for v in values], better
        )

    speeds = [one.offer.fabric_gbps for one in compared]
    fabric = [
        _figure(
            speed,
            "Gb/s",
            fabric_doubt(one.offer.fabric_basis) if one.offer.fabric and not one.row.fabric_tested else "",
            _not_stated(),
        )
        for one, speed in zip(compared, speeds, strict=True)
    ]
    return [
        line(_("Region"), lambda offer: offer.region.name),
        line(_("Sold as"), lambda offer: offer.get_kind_display()),
        line(_("Cards"), lambda offer: offer.cards_per_unit),
        line(_("vCPUs"), lambda offer: offer.vcpus, "", MORE),
        line(_("RAM"), lambda offer: offer.memory_gb, "GB", MORE),
        line(_("NVMe disk"), lambda offer: offer.disk_gb, "GB", MORE),
        line(_("Network between hosts"), lambda offer: fabric_name(offer.fabric), missing=_("none")),
        _line(_("Network per card"), speeds, fabric, MORE),
        line(_("Isolation"), lambda offer: offer.get_isolation_display()),
        line(_("Cooling"), lambda offer: offer.get_cooling_display()),
        line(_("Availability promised"), lambda offer: offer.sla_percent, "%", MORE),
        line(_("Response time"), lambda offer: offer.response_minutes, "min", LESS),
    ]


# --- parts -----------------------------------------------------------------------------------------------------------
def _line(label: str | Promise, values: Sequence[Any], cells: Iterable[Cell], better: int) -> Line:
    """Marks the best values, unless only one is known or all are the same."""
    known = [value for value in values if value is not None and value != ""]
    best = None
    if better and len(known) > 1 and len(set(known)) > 1:
        best = max(known) if better == MORE else min(known)
    marked = [cell._replace(best=best is not None and value == best) for value, cell in zip(values, cells, strict=True)]
    return Line(str(label), marked, len({"" if value is None else value for value in values}) > 1)


def _figure(value: Any, unit_name: str, doubt: str = "", missing: str = "") -> Cell:
    if value is None or value == "":
        return Cell("", missing or _("not published"))
    return Cell(unit(value, unit_name) if unit_name else str(value), "", doubt)


def _word(value: Any) -> Any:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return in_language(value) if isinstance(value, str) else value


def _doubt(one: Compared, name: str) -> str:
    model = one.offer.gpu_model
    return in_language(model.doubt(name)) if model is not None and model.doubt(name) else ""


def _not_stated() -> str:
    return _("not stated")
