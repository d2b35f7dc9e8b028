"""What the guide is asked, what it is told of the catalogue, and what it answers: plain values, all hashable."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from catalog.guide.facts import HOURS_PER_MONTH, SOURCES, STEP_TOKENS, SourceNote
from catalog.guide.formulas import TermCost
from marketplace.lib.money import Money

FULL_TRAINING = frozenset({"pretrain", "full", "full_pure_bf16"})
ADAPTERS = frozenset({"lora", "qlora8", "qlora4"})
TRAINING = FULL_TRAINING | ADAPTERS
RDMA = frozenset({"infiniband", "rocev2"})


class Card(NamedTuple):
    """A GPU model as the catalogue publishes it; None is not published. `doubts`: JSON of uncertain fields and why."""

    slug: str
    name: str
    family: str
    memory_gb: int | None
    bf16_tflops: Decimal | None
    fp8_tflops: Decimal | None
    fp4_tflops: Decimal | None
    link: str | None
    cards_per_node: int | None
    rental_class: str
    domestic: bool
    doubts: str = "{}"

    def doubt(self, field: str) -> str:
        """Why this field (or the whole record) is uncertain, or an empty string."""
        reasons = json.loads(self.doubts)
        return str(reasons.get(field) or reasons.get("*") or "")


class Unit(NamedTuple):
    """An offer: a machine of `cards` cards, with rates per card in the asked currency and what is free now."""

    slug: str
    card: Card
    cards: int
    region_zh: str
    region_en: str
    quote_only: bool
    fabric: str
    fabric_gbps: Decimal | None
    fabric_tested: bool
    hour: Decimal | None
    month: Decimal | None
    year: Decimal | None
    free_units: int

    @property
    def rates(self) -> dict[str, Decimal | None]:
        return {"hour": self.hour, "month": self.month, "year": self.year}

    @property
    def is_priced(self) -> bool:
        return not self.quote_only and any(rate is not None for rate in (self.hour, self.month, self.year))

    @property
    def has_rdma(self) -> bool:
        return self.fabric in RDMA


@dataclass(frozen=True, slots=True)
class Need:
    """What is to be computed. Parameters and tokens in billions; `hours` are hours of use in each of the months.

    `purpose` is a training method of `STATE_BYTES`, `inference` or `aigc`; `params_b` may be 0 for rendering without a
    model. `sequence` is also the context of serving, `concurrency` also the number of parallel AIGC jobs. With tokens,
    hours follow from the run and months from hours.
    """

    purpose: str
    params_b: Decimal
    precision: str = "bf16"
    sequence: int = 4096
    batch: int = 1
    concurrency: int = 1
    tokens_b: Decimal | None = None
    deadline_days: Decimal | None = None
    step_tokens: int = STEP_TOKENS
    months: int = 1
    hours: int = HOURS_PER_MONTH
    domestic: bool = False


class Step(NamedTuple):
    """One line of arithmetic: the formula, the numbers put in, what comes out, and where it is from.

    A result in money has no unit of its own.
    """

    title: str
    formula: str
    inserted: str
    result: Decimal | int | Money
    unit: str
    rule: str
    source: str

    @property
    def money(self) -> Money | None:
        return self.result if isinstance(self.result, Money) else None

    @property
    def origin(self) -> SourceNote:
        return SOURCES[self.source]


class Warn(NamedTuple):
    """Something to know before renting. `code` is stable; `rule` is empty where no rule is behind it."""

    code: str
    text: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """One recommendation: so many units of an offer for so long, and why. `costs` are cheapest first."""

    unit: Unit
    units: int
    precision: str
    hours: Decimal
    months: int
    costs: tuple[TermCost, ...]
    steps: tuple[Step, ...]
    warnings: tuple[Warn, ...]
    rules: tuple[str, ...]
    ranks_last: bool = False

    @property
    def card(self) -> Card:
        return self.unit.card

    @property
    def cards(self) -> int:
        return self.units * self.unit.cards

    @property
    def cheapest(self) -> TermCost:
        return self.costs[0]

    @property
    def total(self) -> Money:
        return self.cheapest.total

    @property
    def is_estimate(self) -> bool:
        return any(warning.code == "estimate" for warning in self.warnings)

    @property
    def is_free_now(self) -> bool:
        return self.unit.free_units >= self.units

    @property
    def periods(self) -> int:
        """What an order of the cheapest term names: months or years, one by the hour."""
        return 1 if self.cheapest.term == "hour" else int(self.cheapest.periods)


class OnQuote(NamedTuple):
    """A card that may do but has no price or no figures to be sized by. `cards` is 0 where it cannot be said."""

    card: Card
    slug: str
    cards: int
    reason: str
    rule: str


class LeftOut(NamedTuple):
    """Cards that do not fit the need, by one reason."""

    cards: tuple[str, ...]
    reason: str
    rule: str


@dataclass(frozen=True, slots=True)
class Advice:
    """Up to three plans, best first; what can only be quoted; and what was left out, with the rule behind each."""

    plans: tuple[Plan, ...]
    on_quote: tuple[OnQuote, ...]
    left_out: tuple[LeftOut, ...]
    others: int = 0
    notes: tuple[Warn, ...] = ()

    @property
    def rules(self) -> tuple[str, ...]:
        """Every rule that the answer names, in the order of the rule book."""
        named = {rule for plan in self.plans for rule in plan.rules}
        named |= {entry.rule for entry in self.on_quote} | {entry.rule for entry in self.left_out}
        named |= {entry.rule for entry in self.notes}
        return in_order(named)


def in_order(rules: Iterable[str]) -> tuple[str, ...]:
    """As the rule book has them: rules of choice, formulas, sizes of companies, kinds of work."""
    return tuple(sorted(set(rules), key=lambda rule: ("RFSC".index(rule[0]), int(rule[1:]))))
