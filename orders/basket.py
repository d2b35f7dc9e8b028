"""A basket of wishes as it stands in an address: `item=SLUG:TERM:PERIODS:QUANTITY`, once for each line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.http import urlencode

from marketplace.lib.clock import HOURS_PER_MONTH
from orders.models import Term

MAX_LINES: Final = 20
MAX_UNITS: Final = 64
MAX_PERIODS: Final = {Term.HOUR: 1, Term.MONTH: 36, Term.YEAR: 5}
"""What one order takes; by the hour it has no end."""
MAX_ESTIMATED: Final = {Term.HOUR: 43_800, Term.MONTH: 36, Term.YEAR: 5}
"""What the calculator takes; hours up to five years."""

HOURS: Final = {Term.HOUR: 1, Term.MONTH: HOURS_PER_MONTH, Term.YEAR: 12 * HOURS_PER_MONTH}
"""About how long one period is, to carry a length of time from one term to another."""
LONGEST_SLUG: Final = 80
LONGEST_NUMBER: Final = 6


@dataclass(frozen=True, slots=True)
class Item:
    """One line: so many units of an offer for so many hours, months or years."""

    slug: str
    term: str
    periods: int
    quantity: int

    def __str__(self) -> str:
        return f"{self.slug}:{self.term}:{self.periods}:{self.quantity}"


@dataclass(frozen=True, slots=True)
class Basket:
    """The lines that could be read, and the texts that were left out: unreadable ones and those past the last line."""

    items: tuple[Item, ...] = ()
    unreadable: tuple[str, ...] = ()
    too_many: tuple[str, ...] = ()


def read(texts: Iterable[str]) -> Basket:
    """The basket of an address. Whether an offer with the slug is on sale is not asked here."""
    items: list[Item] = []
    unreadable: list[str] = []
    too_many: list[str] = []
    for text in texts:
        item = item_of(text)
        if item is None:
            unreadable.append(text)
        elif len(items) == MAX_LINES:
            too_many.append(str(item))
        else:
            items.append(item)
    return Basket(tuple(items), tuple(unreadable), tuple(too_many))


def item_of(text: str) -> Item | None:
    """The line that a text describes, None where a part is missing, unknown or out of its bounds."""
    slug, *rest = text.split(":")
    if len(rest) != 3 or not slug or len(slug) > LONGEST_SLUG or rest[0] not in Term.values:
        return None
    term, periods, quantity = rest[0], number(rest[1]), number(rest[2])
    if not 1 <= periods <= MAX_ESTIMATED[Term(term)] or not 1 <= quantity <= MAX_UNITS:
        return None
    return Item(slug, term, periods, quantity)


def number(text: str) -> int:
    """The whole number that a text is; zero, which no bound allows, where it is none."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER else 0


def query(items: Sequence[Item]) -> str:
    """The basket as the query of an address, colons readable."""
    return urlencode([("item", str(item)) for item in items]).replace("%3A", ":")


def carried_over(periods: int, old: str, new: str) -> int:
    """The same length of time in another term, rounded up to whole periods of it: 12 months → 1 year."""
    hours = periods * HOURS[Term(old)]
    return max(1, min(-(-hours // HOURS[Term(new)]), MAX_ESTIMATED[Term(new)]))
