"""What every paper is made of, as the data that `document.typ` takes.

A paper is bilingual: each label stands in the language it was asked for, smaller in the other one beside it. Sentences
about one line (its arithmetic) stand in the first alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils.functional import lazy
from django.utils.translation import gettext_lazy as _
from django.utils.translation import override

from billing.paper import qr
from billing.paper.glyphs import exactly, spelled
from marketplace.lib.digits import trimmed
from marketplace.lib.money import format_minor
from marketplace.lib.product import PRODUCT_NAME
from marketplace.lib.refusals import Text

LANGUAGES = ("zh-hans", "en")
Pair = list[str]
Cell = str | dict[str, str]

# A translatable text with its values filled in, in whatever language it is read.
filled = lazy(lambda text, facts: str(text) % facts, str)


@dataclass(frozen=True, slots=True)
class Words:
    """Labels in the paper's first language and, where it differs, the other."""

    language: str

    def pair(self, label: Text) -> Pair:
        other = next(code for code in LANGUAGES if code != self.language)
        first, second = self.text(label), self.text(label, other)
        return [first, "" if second == first else second]

    def text(self, label: Text, language: str = "") -> str:
        with override(language or self.language):
            return str(label)


@dataclass(frozen=True, slots=True)
class Party:
    """Seller or buyer: a name and what stands below it, in order; empty values are left out."""

    title: Text
    name: str
    rows: Sequence[tuple[Text, str]] = ()

    def data(self, words: Words) -> dict[str, Any]:
        return {
            "title": words.pair(self.title),
            "name": exactly(self.name, where=self.title),
            "rows": [[words.pair(label), exactly(value, where=label)] for label, value in self.rows if value],
        }


@dataclass(frozen=True, slots=True)
class Column:
    label: Text
    right: bool = False
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under labelled columns; a cell may have small print under its text."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]

    def data(self, words: Words) -> dict[str, Any]:
        return {
            "columns": [{"label": words.pair(c.label), "right": c.right, "wide": c.wide} for c in self.columns],
            "rows": [[_cell(cell) for cell in row] for row in self.rows],
        }


def _cell(cell: Cell) -> Cell:
    if isinstance(cell, str):
        return spelled(cell)
    return {name: spelled(text) for name, text in cell.items()}


@dataclass(frozen=True, slots=True)
class Payment:
    """Where the money goes, and the page on which it can be paid at once."""

    rows: Sequence[tuple[Text, str]]
    link: str = ""

    def data(self, words: Words) -> dict[str, Any]:
        return {
            "title": words.pair(_("Payment")),
            "rows": [[words.pair(label), exactly(value, where=label)] for label, value in self.rows if value],
            "link": self.link,
            "qr": qr.svg(self.link) if self.link else None,
            "caption": words.pair(_("Pay online")),
            "alt": self.link,
        }


@dataclass(frozen=True, slots=True)
class Paper:
    """One paper, all of it. `document.typ` prints these and nothing else."""

    title: Text
    number: str
    parties: Sequence[Party]
    facts: Sequence[tuple[Text, str]]
    table: Table
    totals: Sequence[tuple[Text, str, bool]]
    taxes: Table | None = None
    words: str = ""
    payment: Payment | None = None
    notes: Sequence[Text] = ()
    note: str = ""
    annex: Table | None = None
    void: bool = False
    foot: Text = field(default="")

    def data(self, language: str) -> dict[str, Any]:
        """As JSON takes it. Raises Unprintable for a party or number that the font cannot print."""
        words = Words(language)
        return {
            "lang": "zh" if language == "zh-hans" else "en",
            "title": words.pair(self.title),
            "number": exactly(self.number, where=_("Number")),
            "seller": exactly(seller_name(language), where=_("Seller")),
            "marks": [words.pair(_("Demo"))] if settings.DEBUG else [],
            "void": words.pair(_("Void")) if self.void else None,
            "parties": [party.data(words) for party in self.parties],
            "facts": [[words.pair(label), spelled(value)] for label, value in self.facts if value],
            "table": self.table.data(words),
            "taxes": self._taxes(words),
            "totals": [[words.pair(label), value, strong] for label, value, strong in self.totals],
            "words": [words.pair(_("Amount in capitals")), self.words] if self.words else None,
            "payment": self.payment.data(words) if self.payment else None,
            "note": spelled(self.note),
            "notes": [words.pair(note) for note in self._all_notes()],
            "annex": self._annex(words),
            "page": words.pair(_("Page {page} of {pages}")),
            "foot": words.pair(self.foot) if self.foot else [],
        }

    def _taxes(self, words: Words) -> dict[str, Any] | None:
        if self.taxes is None:
            return None
        return {"columns": [words.pair(column.label) for column in self.taxes.columns], "rows": self.taxes.rows}

    def _annex(self, words: Words) -> dict[str, Any] | None:
        if self.annex is None:
            return None
        return {"title": words.pair(_("Annex: all lines")), "table": self.annex.data(words)}

    def _all_notes(self) -> Iterable[Text]:
        yield from self.notes
        if settings.DEBUG:
            yield _("Demo environment: machines carry no GPU and payments move no money.")


def seller_name(language: str) -> str:
    """Who sells; without a setting the product's name."""
    return settings.SELLER["name"] or Words(language).text(PRODUCT_NAME)


def seller(language: str) -> Party:
    """The block of the provider, from the settings."""
    told = settings.SELLER
    rows = [
        (_("Tax number"), told["tax_number"]),
        (_("Registered address"), told["address"]),
        (_("Phone"), settings.SUPPORT_PHONE),
    ]
    return Party(_("Seller"), seller_name(language), rows)


def local_day(at: datetime | None, zone: str) -> str:
    """The calendar day in the zone (2026-11-30); empty for none."""
    return f"{at.astimezone(ZoneInfo(zone)):%Y-%m-%d}" if at else ""


def local_second(at: datetime | None, zone: str) -> str:
    return f"{at.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S}" if at else ""


def percent(rate: Any) -> str:
    return f"{trimmed(f'{rate:f}')}%"


def tax_table(lines: Iterable[Any], currency: str) -> Table:
    """Net, tax and gross by rate, the lowest rate first; lines carry `tax_percent`, `tax_minor` and `amount_minor`."""
    sums: dict[Any, list[int]] = {}
    for line in lines:
        tax, gross = sums.setdefault(line.tax_percent, [0, 0])
        sums[line.tax_percent] = [tax + line.tax_minor, gross + line.amount_minor]
    columns = [
        Column(_("Tax rate")), Column(_("Net")), Column(_("Tax")), Column(_("Gross")),
    ]  # fmt: skip
    rows = [
        [percent(rate), *(format_minor(amount, currency) for amount in (gross - tax, tax, gross))]
        for rate, (tax, gross) in sorted(sums.items())
    ]
    return Table(columns, rows)
