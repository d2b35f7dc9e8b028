"""A place to start when only the company's size and the kind of work are known: rules S1–S5 and C1–C6."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.guide import formulas
from catalog.guide.facts import SCENARIOS, STAGES, Scenario, Stage
from catalog.guide.kinds import Advice, OnQuote, Plan, Step, Unit, Warn, in_order
from catalog.guide.plans import SHOWN, by_card, cost_steps, rank, use_step, warn_of_stock
from catalog.guide.texts import RULES

_NO_STAGE = Stage("", "", ("hour", "month", "year"), 1, 8, (), False, False, 1, 730, "")
_NO_SCENARIO = Scenario("", "", (), (), False, False, "")


def starting_points(
    units: Iterable[Unit], *, stage: str, scenario: str, months: int, hours: int, domestic: bool, currency: str
) -> Advice:
    """Up to three offers that companies like this usually rent for this work, ranked as R9 ranks plans.

    `stage` and `scenario` are keys of STAGES and SCENARIOS, or empty; `hours` are hours of use in each month.
    """
    size, work = STAGES.get(stage, _NO_STAGE), SCENARIOS.get(scenario, _NO_SCENARIO)
    domestic = domestic or work.domestic
    units = list(units)
    wanted = _products(size, work, {unit.card.slug for unit in units})
    plans, on_quote = [], []
    for card, offers in by_card(units):
        if (wanted and card.slug not in wanted) or (domestic and not card.domestic):
            continue
        if (size.needs_link or work.needs_link) and not formulas.has_scale_up_link(card.link) and not wanted:
            continue
        plan = _plan(offers, size, work, months=months, hours=hours, domestic=domestic, currency=currency)
        if plan:
            plans.append(plan)
        else:
            reason = _("No listed offer of this size; our sales will quote it.")
            on_quote.append(OnQuote(card, offers[-1].slug, size.least_cards, reason, size.rule or work.rule or "R9"))
    ranked = rank(plans, domestic=domestic)
    others = max(0, len(ranked) - SHOWN)
    return Advice(tuple(ranked[:SHOWN]), tuple(on_quote[:SHOWN]), (), others, notes(stage, scenario))


def notes(stage: str, scenario: str) -> tuple[Warn, ...]:
    """What the brief says about this size of company and this kind of work."""
    rules = (STAGES.get(stage, _NO_STAGE).rule, SCENARIOS.get(scenario, _NO_SCENARIO).rule)
    return tuple(Warn(rule, str(RULES[rule]), rule) for rule in rules if rule)


def _products(size: Stage, work: Scenario, sold: set[str]) -> set[str]:
    """Models both name, else those the work names, else those the size names, as far as they are in the catalogue."""
    both = set(size.products) & set(work.first) & sold
    return both or set(work.first) & sold or set(size.products) & sold


def _terms(size: Stage, work: Scenario) -> tuple[str, ...]:
    """Terms that both name, else those of the size."""
    both = tuple(term for term in size.terms if not work.terms or term in work.terms)
    return both or size.terms


def _plan(
    offers: list[Unit], size: Stage, work: Scenario, *, months: int, hours: int, domestic: bool, currency: str
) -> Plan | None:
    """The smallest offer of the size's cards at its cheapest usual term; None where nothing is listed."""
    fitting = [unit for unit in offers if unit.is_priced and (unit.has_rdma or not size.needs_rdma)]
    choices = []
    for unit in fitting:
        units = -(-size.least_cards // unit.cards)
        cards = units * unit.cards
        if cards > size.most_cards or (units > 1 and unit.cards < (unit.card.cards_per_node or 8)):
            continue
        use = Decimal(hours) * months
        costs = formulas.term_costs(
            unit.rates, cards=cards, hours=use, months=months, currency=currency, terms=_terms(size, work)
        )
        if costs:
            choices.append((costs[0].total.minor, cards, unit.free_units < units, unit.slug, unit, units, costs))
    if not choices:
        return None
    *_key, unit, units, costs = min(choices, key=lambda choice: choice[:4])
    return _as_plan(unit, units, costs, size, work, months=months, hours=hours, domestic=domestic)


def _as_plan(unit: Unit, units: int, costs: tuple, size: Stage, work: Scenario, **use: int) -> Plan:
    cards = units * unit.cards
    warnings: list[Warn] = []
    if cards > unit.cards:
        text = _(
            "A cluster over %(servers)d servers needs RDMA that is switched on and tested: sales plan it with you."
        )
        warnings.append(Warn("rdma", text % {"servers": units}, "R5"))
    if size.needs_link and not formulas.has_scale_up_link(unit.card.link):
        warnings.append(Warn("pcie", _("This card has no NVLink or HCCS; the rule for this size wants one."), "S4"))
    doubt = unit.card.doubt("*")
    warn_of_stock(warnings, unit, units)
    total = Decimal(use["hours"]) * use["months"]
    step = Step(
        _("Usual size"),
        _("units × cards per unit"),
        f"{units} × {unit.cards}",
        cards,
        ngettext("card", "cards", cards),
        size.rule or work.rule or "R9",
        "brief",
    )
    rules = [size.rule, work.rule, "R1" if use["domestic"] else "", "R5" if cards > unit.cards else "", "F6", "R9"]
    rules += ["R10"] if doubt else []
    return Plan(
        unit=unit,
        units=units,
        precision="",
        hours=total,
        months=use["months"],
        costs=costs,
        steps=(step, use_step(use["hours"], use["months"], total), *cost_steps(costs, cards)),
        warnings=(*warnings, *([Warn("estimate", doubt, "R10")] if doubt else [])),
        rules=in_order(rule for rule in rules if rule),
        ranks_last=any(warning.code == "pcie" for warning in warnings),
    )
