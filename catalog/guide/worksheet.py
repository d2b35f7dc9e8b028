"""What the arithmetic of one card is written on: its steps, warnings and doubts, and the cards found so far."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.guide.kinds import FULL_TRAINING, Card, Need, Step, Warn
from catalog.guide.texts import FIELDS
from catalog.texts import in_language

_NODE = 8


class DoesNotFit(Exception):
    """The card is left out; `sellable` where sales could still quote it."""

    def __init__(self, reason: str, rule: str, *, sellable: bool = False, cards: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.rule, self.sellable, self.cards = reason, rule, sellable, cards


class Worksheet:
    """One card and one need. `copy` cards hold one copy or the whole job, `copies` of it run."""

    def __init__(self, card: Card, need: Need) -> None:
        self.card, self.need = card, need
        self.precision = need.precision
        self.steps: list[Step] = []
        self.warnings: list[Warn] = []
        self.doubts: list[str] = []
        self.rules: list[str] = []
        self.memory_gb = 0
        self.copy = 0
        self.copies = 1
        self.gpu_hours: Decimal | None = None
        self.port_gbps: int | None = None

    @property
    def is_one_job(self) -> bool:
        """Every card works on the same step, so that more cards are no copies but a wider job."""
        return self.need.purpose in FULL_TRAINING

    @property
    def cards(self) -> int:
        return self.copy * self.copies

    @property
    def node(self) -> int:
        return self.card.cards_per_node or _NODE

    @property
    def spans_nodes(self) -> bool:
        return self.copy > self.node

    def note(self, *rules: str) -> None:
        self.rules += [rule for rule in rules if rule not in self.rules]

    def doubt(self, field: str) -> None:
        """Remember that the plan uses this figure of the card, should it be uncertain."""
        reason = self.card.doubt(field)
        if reason:
            self._doubt(_("%(figure)s: %(reason)s") % {"figure": FIELDS[field], "reason": in_language(reason)})

    def _doubt(self, text: str) -> None:
        if text not in self.doubts:
            self.doubts.append(text)

    def _step(self, title: str, formula: str, inserted: str, result: Decimal | int, unit: str, **origin: str) -> None:
        self.steps.append(Step(title, formula, inserted, result, unit, origin["rule"], origin.get("source", "policy")))
        self.note(origin["rule"])


# --- numbers as they are put in --------------------------------------------------------------------------------------
def rounded(value: Decimal, places: int = 2) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def up_to_tenth(hours: Decimal) -> Decimal:
    """Hours of a run as they are shown and paid: begun tenths."""
    return hours.quantize(Decimal("0.1"), ROUND_CEILING)


def cards_unit(count: int) -> str:
    return ngettext("card", "cards", count)
