"""Help me choose: one form whose address is its state, and up to three plans with their arithmetic."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from catalog import guide, visitor_pages
from catalog.guide.facts import SOURCES
from catalog.guide.texts import PRECISIONS, PURPOSES, RULES
from catalog.guide_forms import GuideForm, Question
from catalog.presentation import TERM_LABELS
from catalog.queries.guide import guide_units
from marketplace.lib import visitor
from marketplace.lib.spoken import either
from orders import basket
from orders.models import Term

# Worked examples: a title, what it shows, and the form's state.
EXAMPLES = (
    (
        gettext_lazy("Fully fine-tune a 7B model"),
        gettext_lazy("1 billion tokens, done in 3 days"),
        {"purpose": "full", "params": "7", "tokens": "1", "deadline": "3"},
    ),
    (
        gettext_lazy("Pre-train a 70B model"),
        gettext_lazy("10 billion tokens, done in 7 days, over several servers"),
        {"purpose": "pretrain", "params": "70", "tokens": "10", "deadline": "7"},
    ),
    (
        gettext_lazy("LoRA on a 14B model"),
        gettext_lazy("sequences of 2,048 tokens, 200 hours"),
        {"purpose": "lora", "params": "14", "sequence": "2048", "hours": "200"},
    ),
    (
        gettext_lazy("Serve a 70B model in FP8"),
        gettext_lazy("8 requests at once, around the clock for 3 months"),
        {"purpose": "inference", "params": "70", "precision": "fp8", "concurrency": "8", "months": "3"},
    ),
    (
        gettext_lazy("Serve a 32B model on domestic cards"),
        gettext_lazy("INT8, 16 requests at once, for a year"),
        {
            "purpose": "inference",
            "scenario": "government",
            "params": "32",
            "precision": "int8",
            "concurrency": "16",
            "months": "12",
        },
    ),
    (
        gettext_lazy("A start-up with AIGC in mind"),
        gettext_lazy("nothing decided yet: a place to start"),
        {"stage": "startup", "scenario": "aigc"},
    ),
)


class PlanLinks(NamedTuple):
    """A plan as the page shows it, and where its buttons lead; `rent` is empty where it cannot be ordered."""

    rank: int
    plan: guide.Plan
    region: str
    term: str
    rent: str
    items: str


@require_safe
def guide_page(request: HttpRequest) -> HttpResponse:
    """The form, and for a need that can be read the plans for it in the visitor's currency."""
    return visitor_pages.render(request, "catalog/guide.html", lambda at: _context(request, at))


def _context(request: HttpRequest, at: datetime) -> dict[str, Any]:
    form = GuideForm(request.GET)
    context: dict[str, Any] = {"form": form, "currency": visitor.currency_of(request)}
    if not form.is_bound:
        return context | {"examples": [(title, text, f"?{urlencode(state)}") for title, text, state in EXAMPLES]}
    if not form.is_valid():
        return context
    question = form.question()
    advice = _advice(question, context["currency"], at)
    return context | {
        "need": question.need,
        "asked": _asked(form, question),
        "advice": advice,
        "plans": [_links(rank, plan) for rank, plan in enumerate(advice.plans, start=1)],
        "rules": [(rule, RULES[rule]) for rule in advice.rules],
        "sources": _sources(advice),
    }


def _advice(question: Question, currency: str, at: datetime) -> guide.Advice:
    units = guide_units(currency=currency, at=at)
    if question.need:
        notes = guide.notes(question.stage, question.scenario)
        return guide.recommend(question.need, units, currency=currency, notes=notes)
    return guide.starting_points(
        units,
        stage=question.stage,
        scenario=question.scenario,
        months=question.months,
        hours=question.hours,
        domestic=question.domestic,
        currency=currency,
    )


def _links(rank: int, plan: guide.Plan) -> PlanLinks:
    term, periods, slug = plan.cheapest.term, plan.periods, plan.unit.slug
    may_order = plan.is_free_now and plan.units <= basket.MAX_UNITS and periods <= basket.MAX_PERIODS[Term(term)]
    wanted = urlencode({"term": term, "quantity": plan.units, "periods": periods})
    return PlanLinks(
        rank=rank,
        plan=plan,
        region=either(plan.unit.region_zh, plan.unit.region_en),
        term=str(TERM_LABELS[term]),
        rent=f"{reverse('orders:new', args=[slug])}?{wanted}" if may_order else "",
        items=basket.query(_items(plan)),
    )


def _items(plan: guide.Plan) -> list[basket.Item]:
    """The plan as lines of a basket, each within what one line may be; a longer need is talked over with sales."""
    term = Term(plan.cheapest.term)
    periods = min(math.ceil(plan.cheapest.periods), basket.MAX_ESTIMATED[term])
    full, rest = divmod(plan.units, basket.MAX_UNITS)
    quantities = [basket.MAX_UNITS] * full + [rest] * (rest > 0)
    return [basket.Item(plan.unit.slug, term.value, periods, quantity) for quantity in quantities]


def _asked(form: GuideForm, question: Question) -> list[tuple[str, Any, str]]:
    """What the answer rests on, usual values included: label, value, unit."""
    label, need = {name: str(field.label) for name, field in form.fields.items()}, question.need
    rows: list[tuple[str, Any, str]] = []
    if need:
        rows.append((label["purpose"], str(PURPOSES[need.purpose]), ""))
        if need.params_b:
            rows.append((_("Model size"), need.params_b, "B"))
        rows += _asked_of_training(label, need) if need.purpose in guide.TRAINING else _asked_of_serving(label, need)
    if need is None or need.tokens_b is None:
        rows += [(label["months"], question.months, ""), (label["hours"], question.hours, "h")]
    return rows


def _asked_of_serving(label: dict[str, str], need: guide.Need) -> list[tuple[str, Any, str]]:
    rows: list[tuple[str, Any, str]] = [
        (label["precision"], PRECISIONS[need.precision], ""),
        (label["concurrency"], need.concurrency, ""),
    ]
    if need.purpose == "inference":
        rows.append((_("Context"), need.sequence, _("tokens")))
    return rows


def _asked_of_training(label: dict[str, str], need: guide.Need) -> list[tuple[str, Any, str]]:
    rows: list[tuple[str, Any, str]] = [
        (_("Sequence"), need.sequence, _("tokens")),
        (label["batch"], need.batch, ""),
    ]
    if need.tokens_b:
        rows.append((_("Tokens to train on"), need.tokens_b, "B"))
    if need.deadline_days:
        rows.append((_("Deadline"), need.deadline_days, _("days")))
    return rows


def _sources(advice: guide.Advice) -> list[tuple[str, str]]:
    """(name, address) of every page that the arithmetic rests on."""
    named = dict.fromkeys(step.source for plan in advice.plans for step in plan.steps)
    return list(dict.fromkeys((SOURCES[key].name, SOURCES[key].url) for key in named if SOURCES[key].url))
