"""Every published, sizing, network, hours and term example of the rule book, with its exact figures."""

import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest

from catalog.guide import formulas
from catalog.guide.facts import CARD_COUNTS, SHAPES, shape_for
from tests.catalog.guide_world import card

EXAMPLES = json.loads((Path(__file__).parent / "data" / "sizing_examples.json").read_text(encoding="utf-8"))
LLAMA_8B = next(shape for shape in SHAPES if shape.name == "llama-3.1-8b")
H100 = {"hour": Decimal(22), "month": Decimal(12000), "year": Decimal(122400)}
B300 = {"hour": Decimal(48), "month": Decimal(28000), "year": Decimal(295700)}
SIZING = [
    (example, slug, expected)
    for example in EXAMPLES["sizing_examples"]
    for slug, expected in example["expected"].items()
]


def to(value, like):
    """The value with as many digits as the example shows."""
    return value.quantize(Decimal(str(like)), ROUND_HALF_UP)


def digits(value, places):
    return value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


# --- published -------------------------------------------------------------------------------------------------------
def test_a_token_of_llama_8b_takes_131072_bytes_of_kv_cache():
    assert formulas.kv_bytes_per_token(LLAMA_8B) == 131072


def test_1024_tokens_take_134_megabytes():
    assert digits(formulas.kv_gb(LLAMA_8B, context=1024, concurrency=1) * 1000, 1) == Decimal("134.2")


def test_128_requests_of_1024_tokens_take_17_2_gigabytes():
    assert digits(formulas.kv_gb(LLAMA_8B, context=1024, concurrency=128), 1) == Decimal("17.2")


def test_activations_of_32k_tokens_are_7_and_8_and_16_gibibytes():
    parts = formulas.activation_parts(LLAMA_8B, sequence=32768, batch=1)
    checkpoints, working, logits = parts
    # The published count takes 4 bytes a logit where the rule takes 6.
    gibibytes = [digits(part / 2**30, 1) for part in (working, checkpoints, logits * 4 / 6)]
    assert gibibytes == [Decimal("7.0"), Decimal("8.0"), Decimal("15.7")]


def test_a_step_of_a_2b_model_is_65_536_tflop_and_takes_0_42_s_on_an_a100():
    work = formulas.step_tflop(Decimal(2), 2048 * 16 // 8)
    assert work == Decimal("65.536")
    assert digits(work / (Decimal(312) * Decimal("0.5")), 2) == Decimal("0.42")


@pytest.mark.parametrize(("gbps", "seconds"), [(200, "0.64"), (400, "0.32")])
def test_syncing_the_gradients_of_a_2b_model(gbps, seconds):
    assert formulas.sync_seconds(Decimal(2), gbps) == Decimal(seconds)


@pytest.mark.parametrize(("gbps", "seconds"), [(200, "12.8"), (1600, "1.6")])
def test_sending_80b_values_once(gbps, seconds):
    assert formulas.send_seconds(Decimal(80), gbps) == Decimal(seconds)


# --- sizing ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("example", "slug", "expected"), [row for row in SIZING if row[0]["kind"] == "training"])
def test_cards_for_training(example, slug, expected):
    params = Decimal(example["params_b"])
    states = formulas.training_states_gb(example["task"], params)
    activations = formulas.activation_gb(shape_for(params), sequence=example["seq"], batch=example["micro_batch"])
    cards = formulas.cards_for_training(states, activations, card(slug).memory_gb)

    assert cards == expected["gpus"]
    assert states == Decimal(str(expected["state_gb"]))
    assert to(activations, expected["activation_gb_per_gpu"]) == Decimal(str(expected["activation_gb_per_gpu"]))
    share = formulas.training_gb_per_card(states, activations, cards)
    assert to(share, expected["total_gb_per_gpu"]) == Decimal(str(expected["total_gb_per_gpu"]))


@pytest.mark.parametrize(("example", "slug", "expected"), [row for row in SIZING if row[0]["kind"] == "inference"])
def test_cards_for_serving(example, slug, expected):
    params = Decimal(example["params_b"])
    weights = formulas.weights_gb(params, example["precision"])
    kv = formulas.kv_gb(shape_for(params), context=example["context"], concurrency=example["concurrency"])
    cards = formulas.cards_for_serving(weights + kv, card(slug).memory_gb)

    assert cards == expected["gpus"]
    assert weights == expected["weights_gb"]
    assert to(kv, expected["kv_gb"]) == Decimal(expected["kv_gb"])
    share = formulas.serving_gb_per_card(weights + kv, cards)
    assert to(share, expected["total_gb_per_gpu"]) == Decimal(str(expected["total_gb_per_gpu"]))


def test_counts_are_1_2_4_8_and_whole_servers_to_1024():
    assert CARD_COUNTS[:6] == (1, 2, 4, 8, 16, 24)
    assert CARD_COUNTS[-1] == 1024
    assert formulas.allowed_count(Decimal("8.01")) == 16
    assert formulas.allowed_count(1025) is None


# --- network ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("example", EXAMPLES["network_examples"], ids=lambda example: example["gpu"])
def test_network_at_8192_tokens_a_step(example):
    needed = formulas.gbps_per_card(Decimal(str(example["bf16_tflops"])), example["tokens_per_gpu_step"])
    assert digits(needed, 0) == example["gbps_needed"]
    assert formulas.port_gbps(needed) == example["offer"]


@pytest.mark.parametrize(
    ("slug", "tokens", "needed", "port"),
    [
        ("h100-sxm5-80gb", 16384, 242, 400),
        ("a100-sxm4-80gb", 8192, 152, 200),
        ("b300-sxm-288gb", 16384, 549, 800),
    ],
)
def test_network_of_the_rule_book(slug, tokens, needed, port):
    rate = formulas.gbps_per_card(card(slug).bf16_tflops, tokens)
    assert (digits(rate, 0), formulas.port_gbps(rate)) == (needed, port)


def test_no_port_is_fast_enough_for_very_few_tokens():
    assert formulas.port_gbps(formulas.gbps_per_card(Decimal(2250), 1024)) is None


# --- hours -----------------------------------------------------------------------------------------------------------
HOURS = [
    *[tuple(example[key] for key in ("params_b", "tokens_b", "gpu", "gpu_hours", "days", "gpus_for_deadline"))
      for example in EXAMPLES["gpu_hour_examples"]],
    (70, 10, "h100-sxm5-80gb", "3930.6", 7, 24),
]  # fmt: skip


@pytest.mark.parametrize(("params", "tokens", "slug", "hours", "days", "cards"), HOURS)
def test_card_hours_and_cards_for_the_deadline(params, tokens, slug, hours, days, cards):
    model = card(slug)
    share = formulas.mfu(link=model.link, domestic=model.domestic)
    found = formulas.gpu_hours(Decimal(params), Decimal(tokens), model.bf16_tflops, share)

    assert digits(found, 1) == Decimal(hours)
    assert formulas.allowed_count(formulas.cards_for_deadline(found, Decimal(days))) == cards


@pytest.mark.parametrize(
    ("link", "domestic", "share"),
    [("NVLink 4", False, "0.40"), ("HCCS", True, "0.30"), ("PCIe", False, "0.30"), (None, False, "0.30")],
)
def test_the_share_of_the_rate_that_training_reaches(link, domestic, share):
    assert formulas.mfu(link=link, domestic=domestic) == Decimal(share)


# --- terms -----------------------------------------------------------------------------------------------------------
def costs(rates, hours, months):
    found = formulas.term_costs(rates, cards=1, hours=Decimal(hours), months=months, currency="CNY")
    return found[0].term, {cost.term: cost.total.major for cost in found}


@pytest.mark.parametrize("example", EXAMPLES["term_examples"], ids=lambda one: f"{one['gpu']}-{one['months']}m")
def test_the_cheapest_term(example):
    rates = B300 if example["gpu"].startswith("b300") else H100
    term, totals = costs(rates, example["hours_per_month"] * example["months"], example["months"])

    assert {"hour": "hourly", "month": "monthly", "year": "yearly"}[term] == example["cheapest"]
    assert totals == {
        "hour": Decimal(example["totals_cny"]["hourly"]),
        "month": Decimal(example["totals_cny"]["monthly"]),
        "year": Decimal(example["totals_cny"]["yearly"]),
    }


@pytest.mark.parametrize(
    ("hours", "months", "term", "total"),
    [(545, 1, "hour", 11990), (546, 1, "month", 12000), (7300, 10, "month", 120000), (8030, 11, "year", 122400)],
)
def test_the_month_begins_to_pay_at_546_hours_and_the_year_at_11_months(hours, months, term, total):
    cheapest, totals = costs(H100, hours, months)
    assert (cheapest, totals[cheapest]) == (term, total)


def test_a_tie_goes_to_the_shorter_commitment():
    rates = {"hour": Decimal(10), "month": Decimal(1000), "year": Decimal(1000)}
    assert costs(rates, 100, 1)[0] == "hour"
    assert costs(rates, 101, 1)[0] == "month"


def test_a_term_without_a_price_is_no_choice():
    assert costs({"hour": Decimal(22), "month": None, "year": None}, 8030, 11) == (
        "hour",
        {"hour": Decimal("176660.00")},
    )
