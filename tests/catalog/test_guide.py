"""The guide's rules: what is chosen, what is left out and why, and that every answer names its rule."""

import json
from decimal import Decimal

import pytest
from django.utils import translation

from catalog.guide import Need, recommend, starting_points
from catalog.guide.facts import SCENARIOS, SOURCES, STAGES
from catalog.guide.texts import PURPOSES, RULES
from marketplace.lib.money import Money
from tests.catalog.guide_world import RATES, card, unit, units


@pytest.fixture(autouse=True)
def english():
    with translation.override("en"):
        yield


def advise(need, offers=None):
    return recommend(need, units() if offers is None else offers, currency="CNY")


def full(**fields):
    return Need(**{"purpose": "full", "params_b": Decimal(7)} | fields)


def serve(**fields):
    return Need(**{"purpose": "inference", "params_b": Decimal(70), "concurrency": 8} | fields)


def only(slug, need, **sizes):
    (plan,) = advise(need, units(slug, **sizes)).plans
    return plan


def step(plan, rule, title=""):
    return next(one for one in plan.steps if one.rule == rule and title in one.title)


def codes(plan):
    return [warning.code for warning in plan.warnings]


# --- the answer ------------------------------------------------------------------------------------------------------
def test_three_plans_come_cheapest_first():
    advice = advise(serve())

    totals = [plan.total.minor for plan in advice.plans]
    assert len(totals) == 3
    assert totals == sorted(totals)
    assert advice.others == 5


def test_a_plan_unfolds_its_arithmetic():
    plan = only("h100-sxm5-80gb", full(tokens_b=Decimal(1), deadline_days=Decimal(3)))

    assert [(one.rule, one.inserted, one.result) for one in plan.steps] == [
        ("F1", "18 × 7", Decimal(126)),
        ("F2", "(2·28·1·4096·3584 + 56·1·4096·3584 + 6·1·4096·152064) / 10⁹", Decimal("5.38")),
        ("F3", "126 / 2 + 5.38 = 68.38 ≤ 0.9 × 80 = 72", 2),
        ("F5", "8 × 7·10⁹ × 1·10⁹ / (989.4·10¹² × 0.40 × 3600)", Decimal("39.3")),
        ("R8", "max(2, 39.3 / (3 × 24) = 0.55)", 2),
        ("F5", "39.3 / 2", Decimal("19.7")),
        ("F6", "2 × 19.7 × 22", Money(86680, "CNY")),
        ("F6", "2 × 1 × 12,000", Money(2400000, "CNY")),
        ("F6", "2 × 1 × 122,400", Money(24480000, "CNY")),
    ]
    assert (plan.unit.slug, plan.units, plan.cards) == ("h100-sxm5-80gb-2x-fuzhou", 1, 2)
    assert (plan.cheapest.term, plan.total, plan.periods) == ("hour", Money(86680, "CNY"), 1)


@pytest.mark.parametrize("purpose", PURPOSES)
def test_every_answer_names_its_rules_and_sources(purpose):
    need = Need(purpose, Decimal(7), tokens_b=Decimal(1), deadline_days=Decimal(10), concurrency=2)
    advice = advise(need, [*units(), unit("ascend-920", of=card("ascend-920"))])

    assert advice.plans
    for plan in advice.plans:
        assert {"F6", "R9"} <= set(plan.rules)
        assert {one.rule for one in plan.steps} <= set(plan.rules)
        assert {warning.rule for warning in plan.warnings if warning.rule} <= set(plan.rules)
    assert set(advice.rules) <= set(RULES)
    assert {one.source for plan in advice.plans for one in plan.steps} <= set(SOURCES)


def test_an_empty_catalogue_gives_no_plan():
    advice = advise(serve(), [])
    assert (advice.plans, advice.on_quote, advice.left_out, advice.others) == ((), (), (), 0)


# --- R1, R2, R3 ------------------------------------------------------------------------------------------------------
def test_a_domestic_need_gets_domestic_cards_only_and_the_910b_first():
    offers = [*units(), unit("mlu370-x8-48gb", 8, hour=Decimal("0.01"), month=None, year=None)]
    advice = advise(serve(domestic=True), offers)

    assert [plan.card.family for plan in advice.plans] == ["Ascend 910B", "MLU370"]
    assert all("R1" in plan.rules for plan in advice.plans)
    assert [(entry.rule, len(entry.cards)) for entry in advice.left_out] == [("R1", 7)]


def test_fp8_is_planned_where_published_and_int8_elsewhere():
    assert only("h100-sxm5-80gb", serve(precision="fp8")).precision == "fp8"
    plan = only("a100-sxm4-80gb", serve(precision="fp8"))

    assert plan.precision == "int8"
    assert [(one.code, one.rule) for one in plan.warnings] == [("int8", "R2")]
    assert step(plan, "F4").inserted == "1 × 70"


def test_fp4_counts_half_a_byte_where_published():
    assert step(only("b300-sxm-288gb", serve(precision="fp4")), "F4").inserted == "0.5 × 70"
    assert only("h100-sxm5-80gb", serve(precision="fp4")).precision == "int8"


def test_a_card_without_published_memory_is_on_quote_only():
    advice = advise(serve(), [unit("ascend-920", of=card("ascend-920"))])

    assert advice.plans == ()
    (entry,) = advice.on_quote
    assert (entry.card.slug, entry.slug, entry.rule) == ("ascend-920", "ascend-920-8x-fuzhou", "R3")


def test_a_card_without_a_published_rate_has_no_time():
    advice = advise(full(tokens_b=Decimal(1)), units("v100-sxm2-32gb"))
    assert [(entry.card.slug, entry.rule) for entry in advice.on_quote] == [("v100-sxm2-32gb", "R3")]


# --- R4, R5, R6, R7 --------------------------------------------------------------------------------------------------
def test_training_over_pcie_is_warned_of_and_ranks_last():
    advice = advise(full(), units("rtx-4090-24gb", "h200-sxm-141gb"))

    assert [plan.card.slug for plan in advice.plans] == ["h200-sxm-141gb", "rtx-4090-24gb"]
    assert advice.plans[1].total.minor < advice.plans[0].total.minor
    assert codes(advice.plans[1])[0] == "pcie"
    assert "R4" in advice.plans[1].rules
    assert not advice.plans[0].ranks_last


@pytest.mark.parametrize(("cards", "warned"), [(2, False), (4, True)])
def test_a_sharded_job_needs_the_link_from_four_cards_on(cards, warned):
    # 2 cards of 48 GB hold 70 B in FP8; a longer context takes 4.
    need = serve(precision="fp8", concurrency=8 if cards == 2 else 40)
    plan = only("l40s-48gb", need)

    assert plan.cards == cards
    assert ("pcie" in codes(plan)) is warned


def test_one_job_over_several_servers_needs_rdma():
    need = full(purpose="pretrain", params_b=Decimal(70), tokens_b=Decimal(10), deadline_days=Decimal(7))
    advice = advise(need)

    assert [(entry.cards, entry.rule) for entry in advice.left_out] == [
        (("NVIDIA GeForce RTX 4090 24GB", "NVIDIA GeForce RTX 5090 32GB", "NVIDIA L40S 48GB"), "R5")
    ]
    plan = next(one for one in advice.plans if one.card.slug == "h100-sxm5-80gb")
    assert (plan.cards, plan.units, plan.unit.cards) == (24, 3, 8)
    assert step(plan, "R5").inserted == "10⁴ × 989.4 × 0.40 / 16384 = 242"
    assert step(plan, "R5").result == 400
    assert "rdma" in codes(plan)


def test_without_an_rdma_offer_a_cluster_is_quoted():
    need = full(params_b=Decimal(70))
    advice = advise(need, [unit("h100-sxm5-80gb", fabric="ethernet")])

    assert advice.plans == ()
    assert [(entry.cards, entry.rule) for entry in advice.on_quote] == [(24, "R5")]


def test_a_network_slower_than_the_rule_is_warned_of_and_ranks_last():
    need = full(params_b=Decimal(70), step_tokens=8192)
    slow = unit("h100-sxm5-80gb", hour=Decimal(1))
    fast = unit("h200-sxm-141gb", fabric_gbps=Decimal(800))
    advice = advise(need, [slow, fast])

    assert [plan.card.slug for plan in advice.plans] == ["h200-sxm-141gb", "h100-sxm5-80gb"]
    assert codes(advice.plans[1]) == ["rdma", "slow"]


def test_lora_grows_by_copies_without_rdma():
    need = Need("lora", Decimal(14), sequence=2048, tokens_b=Decimal(1), deadline_days=Decimal(1))
    plan = only("rtx-4090-24gb", need)

    assert plan.cards == 32
    assert step(plan, "R6").inserted == "26.16 / 2 → 16 × 2"
    assert "R5" not in plan.rules
    assert "pcie" not in codes(plan)


def test_serving_more_requests_than_a_server_holds_takes_copies():
    plan = only("h100-sxm5-80gb", serve(precision="fp8", concurrency=2000, sequence=8192))

    copies = step(plan, "R6")
    # (0.9 × 80 − 2) × 8 − 70 GB beside the weights, 2.684 GB a request.
    assert (copies.inserted, copies.result) == ("2000 / 182", 11)
    assert plan.cards == 88
    assert "R5" not in plan.rules


@pytest.mark.parametrize(("size", "cards"), [(Decimal(14), 1), (Decimal(40), 8), (Decimal(60), 8)])
def test_a_sharded_910b_takes_the_whole_server(size, cards):
    plan = only("ascend-910b3-64gb", serve(params_b=size, concurrency=1))

    assert plan.cards == cards
    assert ("R7" in plan.rules) is (cards == 8)


def test_rendering_runs_a_copy_for_every_parallel_job():
    plan = only("rtx-4090-24gb", Need("aigc", Decimal(9), concurrency=3), sizes=(1, 2))

    assert (plan.cards, plan.unit.cards, plan.units) == (3, 1, 3)
    assert {"C1", "R6", "R10"} <= set(plan.rules)
    assert only("rtx-4090-24gb", Need("aigc", Decimal(0), concurrency=2), sizes=(1,)).cards == 2


# --- R8, R9, R10 -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("days", "cards"), [(100, 1), (30, 4), (10, 8)])
def test_a_deadline_raises_the_number_of_cards_only(days, cards):
    assert only("b300-sxm-288gb", full(tokens_b=Decimal(100), deadline_days=Decimal(days))).cards == cards


def test_the_910b_meets_14_days_with_56_cards():
    need = full(params_b=Decimal(70), tokens_b=Decimal(10), deadline_days=Decimal(14))
    plan = only("ascend-910b3-64gb", need)

    assert plan.cards == 56
    assert step(plan, "F5").result == Decimal("17582.9")
    assert plan.hours == Decimal("314.0")


def test_too_short_a_deadline_leaves_the_card_out():
    advice = advise(
        full(params_b=Decimal(70), tokens_b=Decimal(1000), deadline_days=Decimal(1)), units("a100-sxm4-80gb")
    )
    assert [(entry.rule, entry.cards) for entry in advice.left_out] == [("R8", (card("a100-sxm4-80gb").name,))]


def test_a_run_of_more_than_a_year_is_warned_of():
    plan = only("a100-sxm4-80gb", full(tokens_b=Decimal(1000)))
    assert "long" in codes(plan)
    assert (plan.cheapest.term, plan.periods) == ("year", 8)


def test_equal_totals_go_to_fewer_cards():
    one = unit("h100-sxm5-80gb", 1, hour=Decimal(20), month=None, year=None)
    two = unit("a100-sxm4-80gb", 2, hour=Decimal(10), month=None, year=None)
    advice = advise(serve(params_b=Decimal(8), concurrency=1), [two, one])

    assert advice.plans[0].total == advice.plans[1].total
    assert [plan.cards for plan in advice.plans] == [1, 2]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"doubts": json.dumps({"memory_gb": "some list 76"})}, "memory: some list 76"),
        ({"doubts": json.dumps({"*": "one page only"})}, "memory: one page only"),
    ],
)
def test_an_uncertain_figure_makes_an_estimate_with_its_reason(fields, reason):
    (plan,) = advise(serve(precision="int8"), [unit(cards=2, of=card(**fields))]).plans

    assert plan.is_estimate
    assert [(one.text, one.rule) for one in plan.warnings] == [(reason, "R10")]


def test_an_uncertain_figure_that_is_not_used_does_not_matter():
    doubts = json.dumps({"tdp_watts": "unknown", "bf16_tflops": "derived"})
    (plan,) = advise(serve(precision="int8"), [unit(cards=2, of=card(doubts=doubts))]).plans
    assert not plan.is_estimate


def test_a_network_that_was_never_tested_makes_an_estimate():
    (plan,) = advise(full(params_b=Decimal(70)), [unit(fabric_tested=False)]).plans
    assert plan.is_estimate


def test_a_model_larger_than_any_on_file_makes_an_estimate():
    plan = only("b300-sxm-288gb", serve(params_b=Decimal(400)))
    assert "no model above 72 billion" in plan.warnings[0].text


# --- offers ----------------------------------------------------------------------------------------------------------
def test_a_larger_unit_is_taken_and_said_where_no_smaller_is_sold():
    plan = only("b300-sxm-288gb", full(), sizes=(4, 8))
    assert (plan.cards, codes(plan)[0]) == (4, "larger")


def test_no_unit_on_one_server_leads_to_sales():
    advice = advise(full(), units("h100-sxm5-80gb", sizes=(1,)))
    assert [(entry.cards, entry.rule) for entry in advice.on_quote] == [(2, "R9")]


def test_of_equal_offers_the_one_with_free_units_is_taken():
    sold_out = unit(slug="h100-sxm5-80gb", cards=2)._replace(slug="a-beijing", free_units=0)
    free = unit(slug="h100-sxm5-80gb", cards=2)._replace(slug="b-fuzhou", free_units=1)
    (plan,) = advise(full(), [sold_out, free]).plans

    assert plan.unit.slug == "b-fuzhou"
    assert plan.is_free_now


def test_too_few_free_units_are_said():
    (plan,) = advise(full(), [unit("h100-sxm5-80gb", 2, free_units=0)]).plans
    assert codes(plan)[0] == "stock"
    assert not plan.is_free_now


def test_what_has_no_price_in_the_currency_is_quoted():
    advice = advise(serve(), [unit(hour=None, month=None, year=None)])
    assert [(entry.rule, entry.cards) for entry in advice.on_quote] == [("R9", 4)]


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize("size", ["0.1", "7", "72", "10000"])
def test_no_need_is_too_large_to_answer(purpose, size):
    need = Need(
        purpose,
        Decimal(size),
        sequence=10_000_000,
        batch=1024,
        concurrency=1_000_000,
        tokens_b=Decimal(1_000_000),
        deadline_days=Decimal("0.1"),
        step_tokens=1,
        months=60,
    )
    advice = advise(need)
    assert len(advice.plans) + len(advice.on_quote) + len(advice.left_out) > 0


# --- size of company, kind of work -----------------------------------------------------------------------------------
def start(stage="", scenario="", **fields):
    use = {"months": 1, "hours": 730, "domestic": False, "currency": "CNY"} | fields
    return starting_points(units(), stage=stage, scenario=scenario, **use)


def shown(advice):
    return ", ".join(f"{plan.card.slug} {plan.cards} {plan.cheapest.term}" for plan in advice.plans)


@pytest.mark.parametrize(
    ("stage", "scenario", "plans", "rules"),
    [
        ("startup", "aigc", "rtx-4090-24gb 1 hour, rtx-5090-32gb 1 hour", ("S1", "C1")),
        ("startup", "", "rtx-4090-24gb 1 hour, rtx-5090-32gb 1 hour, l40s-48gb 1 hour", ("S1",)),
        ("university", "research", "rtx-4090-24gb 1 hour, a100-sxm4-80gb 1 hour", ("S2", "C5")),
        ("growing", "training", "h200-sxm-141gb 8 month, b300-sxm-288gb 8 month", ("S3", "C2")),
        ("midsize", "", "ascend-910b3-64gb 8 month, a100-sxm4-80gb 8 month, h100-sxm5-80gb 8 month", ("S4",)),
        ("large", "government", "ascend-910b3-64gb 16 year", ("S5", "C3")),
        ("", "traditional", "l40s-48gb 1 month", ("C6",)),
    ],
)
def test_the_size_and_the_work_point_to_offers(stage, scenario, plans, rules):
    advice = start(stage, scenario)

    assert shown(advice) == plans
    assert tuple(note.rule for note in advice.notes) == rules
    assert set(rules) <= set(advice.plans[0].rules)


def test_a_mid_size_company_with_pcie_cards_in_mind_is_warned():
    (first, *_rest) = start("midsize", "aigc").plans
    assert codes(first) == ["pcie"]
    assert first.ranks_last


def test_every_size_and_every_work_gets_an_answer():
    for stage in ("", *STAGES):
        for scenario in ("", *SCENARIOS):
            advice = start(stage, scenario)
            assert advice.plans or advice.on_quote
            assert set(advice.rules) <= set(RULES)


def test_the_prices_are_those_of_the_offers():
    (plan, *_rest) = start("startup", "aigc", hours=200).plans
    assert plan.total == Money.rounded(Decimal(RATES["rtx-4090-24gb"][0]) * 200, "CNY")
