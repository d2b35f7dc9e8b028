"""From a need to three ranked plans: rules R1–R10 of `texts.RULES`, with real offers and their prices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import groupby
from typing import NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.guide import formulas
from catalog.guide.facts import DOMESTIC_FIRST_FAMILY, HOURS_PER_MONTH
from catalog.guide.formulas import TERMS, TermCost
from catalog.guide.kinds import Advice, Card, LeftOut, Need, OnQuote, Plan, Step, Unit, Warn, in_order
from catalog.guide.work import Work
from catalog.guide.worksheet import DoesNotFit, up_to_tenth
from marketplace.lib.digits import grouped

SHOWN = 3
# A run that takes longer deserves a thought about its deadline.
LONG_RUN_HOURS = 365 * 24


def recommend(need: Need, units: Iterable[Unit], *, currency: str, notes: tuple[Warn, ...] = ()) -> Advice:
    """Up to three plans for the need from these offers, best first (R9), and why every other card is not among them.

    `notes` go into the answer as they are.
    """
    plans: list[Plan] = []
    on_quote: list[OnQuote] = []
    left: list[tuple[str, str, str]] = []
    for card, offers in by_card(units):
        try:
            plans.append(_plan(Work(card, need).size(), offers, currency))
        except DoesNotFit as refusal:
            if refusal.sellable:
                on_quote.append(OnQuote(card, offers[0].slug, refusal.cards, refusal.reason, refusal.rule))
            else:
                left.append((refusal.rule, refusal.reason, card.name))
    ranked = rank(plans, domestic=need.domestic)
    others = max(0, len(ranked) - SHOWN)
    return Advice(tuple(ranked[:SHOWN]), tuple(on_quote), tuple(_grouped(left)), others, notes)


def rank(plans: Iterable[Plan], *, domestic: bool = False) -> list[Plan]:
    """R9 within R4: total, then fewer cards; what a rule warns of comes last. R1: the named family leads."""

    def key(plan: Plan) -> tuple:
        second = domestic and plan.card.family != DOMESTIC_FIRST_FAMILY
        return plan.ranks_last, second, plan.total.minor, plan.cards, plan.unit.slug

    return sorted(plans, key=key)


def by_card(units: Iterable[Unit]) -> Iterable[tuple[Card, list[Unit]]]:
    """Offers by GPU model, in the order of the models' names."""
    ordered = sorted(units, key=lambda unit: (unit.card.name, unit.card.slug, unit.cards, unit.slug))
    for _slug, group in groupby(ordered, key=lambda unit: unit.card.slug):
        offers = list(group)
        yield offers[0].card, offers


def _grouped(left: list[tuple[str, str, str]]) -> Iterable[LeftOut]:
    for (rule, reason), group in groupby(sorted(left), key=lambda entry: entry[:2]):
        yield LeftOut(tuple(name for _rule, _reason, name in group), reason, rule)


# --- one card's plan -------------------------------------------------------------------------------------------------
class Choice(NamedTuple):
    """Units of one offer that carry the work: `working` of their cards do it, for `hours` in `months` months."""

    unit: Unit
    units: int
    working: int
    hours: Decimal
    months: int
    costs: tuple[TermCost, ...]

    @property
    def cards(self) -> int:
        return self.units * self.unit.cards

    def is_slow(self, port_gbps: int | None) -> bool:
        return port_gbps is not None and (self.unit.fabric_gbps or 0) < port_gbps


def _plan(work: Work, offers: Sequence[Unit], currency: str) -> Plan:
    choices = [choice for unit in offers if unit.is_priced for choice in _choice(work, unit, currency)]
    if not choices:
        raise DoesNotFit(
            _without_offer(work, offers), "R5" if work.spans_nodes else "R9", sellable=True, cards=work.cards
        )
    best = min(
        choices,
        key=lambda one: (
            one.is_slow(work.port_gbps),
            one.costs[0].total.minor,
            one.cards,
            one.unit.free_units < one.units,
            one.units,
            one.unit.slug,
        ),
    )
    is_linked = work.check_link(best.working)
    is_slow = best.is_slow(work.port_gbps)
    _warn(work, best)
    work.note("F6", "R9")
    steps = (*work.steps, *_time_steps(work, best), *cost_steps(best.costs, best.cards))
    return Plan(
        unit=best.unit,
        units=best.units,
        precision=work.precision,
        hours=best.hours,
        months=best.months,
        costs=best.costs,
        steps=steps,
        warnings=(*work.warnings, *_estimates(work)),
        rules=in_order(work.rules),
        ranks_last=not is_linked or is_slow,
    )


def _without_offer(work: Work, offers: Sequence[Unit]) -> str:
    if not any(unit.is_priced for unit in offers):
        return _("On quote only: it has no list price in this currency.")
    if work.spans_nodes:
        text = _("No listed offer joins %(cards)d of these cards by RDMA.")
    else:
        text = _("No listed offer has %(cards)d of these cards on one server.")
    return text % {"cards": work.copy}


def _choice(work: Work, unit: Unit, currency: str) -> Iterable[Choice]:
    """The offer as a way to do the work, or nothing where a unit is too small or has no RDMA."""
    if work.spans_nodes:
        if not unit.has_rdma or unit.cards < work.node:
            return
        units = -(-work.copy // unit.cards)
        working = units * unit.cards
    elif unit.cards < work.copy:
        return
    elif work.is_one_job:
        units, working = 1, unit.cards
    else:
        copies_each = unit.cards // work.copy
        units = -(-work.copies // copies_each)
        working = units * copies_each * work.copy
    hours, months = _use(work, working)
    costs = formulas.term_costs(unit.rates, cards=units * unit.cards, hours=hours, months=months, currency=currency)
    yield Choice(unit, units, working, hours, months, costs)


def _use(work: Work, working: int) -> tuple[Decimal, int]:
    """Hours of use and the months they lie in."""
    if work.gpu_hours is None:
        return Decimal(work.need.hours) * work.need.months, work.need.months
    hours = up_to_tenth(work.gpu_hours / working)
    return hours, formulas.months_of(hours, HOURS_PER_MONTH)


def _warn(work: Work, best: Choice) -> None:
    if best.cards > work.cards:
        text = ngettext(
            "The smallest units that carry it have %(cards)d card in all; the work needs %(least)d.",
            "The smallest units that carry it have %(cards)d cards in all; the work needs %(least)d.",
            best.cards,
        )
        work.warnings.append(Warn("larger", text % {"cards": best.cards, "least": work.cards}))
    if work.spans_nodes:
        _warn_of_network(work, best)
    if best.hours > LONG_RUN_HOURS and work.gpu_hours is not None:
        work.warnings.append(
            Warn("long", _("The run takes longer than a year. Give a deadline and the plan takes more cards."), "R8")
        )
    warn_of_stock(work.warnings, best.unit, best.units)


def _warn_of_network(work: Work, best: Choice) -> None:
    servers, unit = best.units, best.unit
    text = _(
        "One job over %(servers)d servers: it needs RDMA. The offer’s network is %(fabric)s, %(rate)s Gb/s per card."
    )
    names = {"infiniband": "InfiniBand", "rocev2": "RoCEv2"}
    rate = f"{unit.fabric_gbps.normalize():f}" if unit.fabric_gbps else "—"
    values = {"servers": servers, "fabric": names[unit.fabric], "rate": rate}
    work.warnings.append(Warn("rdma", text % values, "R5"))
    if best.is_slow(work.port_gbps):
        slow = _("The rule wants %(rate)s Gb/s per card, more than this network has: steps would wait for it.")
        work.warnings.append(Warn("slow", slow % {"rate": work.port_gbps}, "R5"))
    if not unit.fabric_tested:
        work.doubts.append(_("the network rate is a design value, no acceptance test is recorded"))


def warn_of_stock(warnings: list[Warn], unit: Unit, units: int) -> None:
    if unit.free_units < units:
        text = ngettext(
            "%(free)d of %(units)d unit is free now; ask for a quote with a date.",
            "%(free)d of %(units)d units are free now; ask for a quote with a date.",
            units,
        )
        warnings.append(Warn("stock", text % {"free": unit.free_units, "units": units}))


def _estimates(work: Work) -> list[Warn]:
    if work.doubts:
        work.note("R10")
    return [Warn("estimate", reason, "R10") for reason in work.doubts]


# --- the last lines of the arithmetic --------------------------------------------------------------------------------
def _time_steps(work: Work, best: Choice) -> list[Step]:
    if work.gpu_hours is None:
        need = work.need
        return [use_step(need.hours, need.months, best.hours)]
    exact = work.gpu_hours.quantize(Decimal("0.1"))
    hours = _("hours")
    return [
        Step(
            _("Duration"),
            _("card-hours / cards at work, begun tenths of an hour"),
            f"{exact:,f} / {best.working}",
            best.hours,
            hours,
            "F5",
            "policy",
        )
    ]


def use_step(hours: int, months: int, total: Decimal) -> Step:
    inserted = f"{hours} × {months}"
    return Step(_("Hours of use"), _("hours per month × months"), inserted, total, _("hours"), "F6", "policy")


def cost_steps(costs: Sequence[TermCost], cards: int) -> list[Step]:
    """One line per term that has a price, shortest first; the cheapest is what the plan takes."""
    titles = {"hour": _("By the hour"), "month": _("By the month"), "year": _("By the year")}
    formula = {
        "hour": _("cards × hours × rate per card-hour"),
        "month": _("cards × months × rate per card-month"),
        "year": _("cards × begun years × rate per card-year"),
    }
    return [
        Step(
            titles[cost.term],
            formula[cost.term],
            f"{cards} × {cost.periods.normalize():,f} × {grouped(cost.rate)}",
            cost.total,
            "",
            "F6",
            "policy",
        )
        for cost in sorted(costs, key=lambda cost: TERMS.index(cost.term))
    ]
