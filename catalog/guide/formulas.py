"""The guide's arithmetic, one formula each, in Decimal.

Parameters P and tokens T are in billions, memory in GB of 10⁹ bytes, rates in dense BF16 TFLOPS, networks in Gb/s.
The sources of each formula stand in `data/sizing.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

from catalog.guide.facts import (
    CARD_COUNTS,
    FLOPS_PER_TOKEN,
    KV_BYTES,
    MFU,
    PORT_GBPS,
    REDUCED_MFU,
    RUNTIME_GB,
    STATE_BYTES,
    USABLE_SHARE,
    WEIGHT_BYTES,
    Shape,
)
from marketplace.lib.money import Money

GB = Decimal(10) ** 9
TERMS = ("hour", "month", "year")
MONTHS_PER_YEAR = 12
# What of an advertised network rate arrives, at best.
WIRE_SHARE = Decimal("0.8")
HOURS_PER_DAY = 24


# --- memory ----------------------------------------------------------------------------------------------------------
def training_states_gb(method: str, params_b: Decimal) -> Decimal:
    """Weights, gradients and optimizer states of all cards together, GB. Raises KeyError for an unknown method."""
    return STATE_BYTES[method] * params_b


def activation_gb(shape: Shape, *, sequence: int, batch: int) -> Decimal:
    """Activations of one card with gradient checkpointing, GB: (2·L·b·s·h + 56·b·s·h + 6·b·s·V) / 10⁹."""
    checkpoints, working, logits = activation_parts(shape, sequence=sequence, batch=batch)
    return (checkpoints + working + logits) / GB


def activation_parts(shape: Shape, *, sequence: int, batch: int) -> tuple[Decimal, Decimal, Decimal]:
    """Bytes of the checkpoints, of one layer at work (28 copies of 2 bytes), and of the logits (6 bytes each)."""
    tokens = Decimal(sequence) * batch
    return 2 * shape.layers * tokens * shape.hidden, 56 * tokens * shape.hidden, 6 * tokens * shape.vocab


def weights_gb(params_b: Decimal, precision: str) -> Decimal:
    """Weights as they are served, GB. Raises KeyError for an unknown precision."""
    return WEIGHT_BYTES[precision] * params_b


def kv_bytes_per_token(shape: Shape) -> Decimal:
    """Bytes of KV cache that a token takes: bytes × 2 × L × h × kv_heads / heads."""
    return KV_BYTES * 2 * shape.layers * shape.hidden * shape.kv_heads / shape.heads


def kv_gb(shape: Shape, *, context: int, concurrency: int) -> Decimal:
    """KV cache of all requests at once, GB."""
    return kv_bytes_per_token(shape) * context * concurrency / GB


def training_gb_per_card(states_gb: Decimal, activations_gb: Decimal, cards: int) -> Decimal:
    return states_gb / cards + activations_gb


def serving_gb_per_card(served_gb: Decimal, cards: int) -> Decimal:
    """Weights and KV cache shared out, and the runtime of each card."""
    return served_gb / cards + RUNTIME_GB


def usable_gb(memory_gb: int) -> Decimal:
    """What of a card's memory a plan may fill, GB."""
    return USABLE_SHARE * memory_gb


# --- cards -----------------------------------------------------------------------------------------------------------
def allowed_count(cards: Decimal | int) -> int | None:
    """The smallest count that is sold (1, 2, 4, 8, then whole servers) and at least this; None above the largest."""
    return next((count for count in CARD_COUNTS if count >= cards), None)


def cards_for_training(states_gb: Decimal, activations_gb: Decimal, memory_gb: int) -> int | None:
    """The smallest allowed count whose cards hold their share; None where none does."""
    room = usable_gb(memory_gb)
    return next((n for n in CARD_COUNTS if training_gb_per_card(states_gb, activations_gb, n) <= room), None)


def cards_for_serving(served_gb: Decimal, memory_gb: int) -> int | None:
    """The smallest allowed count whose cards hold weights, KV cache and runtime; None where none does."""
    room = usable_gb(memory_gb)
    return next((n for n in CARD_COUNTS if serving_gb_per_card(served_gb, n) <= room), None)


def requests_per_copy(weights: Decimal, kv_of_one_gb: Decimal, memory_gb: int, cards: int) -> int:
    """Requests whose KV cache fits beside the weights on one copy of this many cards; 0 where the weights do not."""
    room = (usable_gb(memory_gb) - RUNTIME_GB) * cards - weights
    return int(room // kv_of_one_gb) if room >= 0 and kv_of_one_gb else 0


def cards_for_deadline(gpu_hours: Decimal, days: Decimal) -> Decimal:
    """Cards, not rounded, that do this many card-hours in this many days."""
    return gpu_hours / (days * HOURS_PER_DAY)


# --- time and network ------------------------------------------------------------------------------------------------
def mfu(*, link: str | None, domestic: bool) -> Decimal:
    """The share of the published rate that training reaches: less on PCIe and domestic cards. Catalogue policy."""
    return REDUCED_MFU if domestic or not has_scale_up_link(link) else MFU


def has_scale_up_link(link: str | None) -> bool:
    """Whether the cards of a node are joined by more than PCIe; an unknown link counts as PCIe."""
    return bool(link) and not str(link).startswith("PCIe")


def gpu_hours(params_b: Decimal, tokens_b: Decimal, tflops: Decimal, share: Decimal) -> Decimal:
    """Card-hours of a training run: 8·P·T·10¹⁸ / (TFLOPS·10¹²·MFU·3600), recomputation included."""
    return FLOPS_PER_TOKEN * params_b * tokens_b * 10**18 / (tflops * 10**12 * share * 3600)


def gbps_per_card(tflops: Decimal, tokens_per_step: int, share: Decimal = MFU) -> Decimal:
    """Network a card needs so that syncing fp32 gradients takes no longer than a step, Gb/s, at 80 % wire efficiency.

    Planned at the usual MFU for every card: a network chosen for a slow run would hold back a good one.
    """
    return 10**4 * tflops * share / tokens_per_step


def step_tflop(params_b: Decimal, tokens_per_card: int) -> Decimal:
    """Work of one card in one step, TFLOP."""
    return FLOPS_PER_TOKEN * params_b * tokens_per_card / 1000


def send_seconds(values_b: Decimal, gbps: Decimal | int) -> Decimal:
    """Seconds to send this many billion fp32 values once at this rate."""
    return values_b * 4 * 8 / gbps


def sync_seconds(params_b: Decimal, gbps: Decimal | int) -> Decimal:
    """Seconds to reduce a model's fp32 gradients over a network of this rate: every value crosses it twice."""
    return 2 * send_seconds(params_b, gbps)


def port_gbps(needed: Decimal) -> int | None:
    """The next port rate that exists, Gb/s; None above the fastest."""
    return next((port for port in PORT_GBPS if port >= needed), None)


# --- money -----------------------------------------------------------------------------------------------------------
class TermCost(NamedTuple):
    """A use under one term: periods are hours, months or years; total for all cards, rounded once, half up."""

    term: str
    periods: Decimal
    rate: Decimal
    total: Money


def term_costs(
    rates: Mapping[str, Decimal | None],
    *,
    cards: int,
    hours: Decimal,
    months: int,
    currency: str,
    terms: Sequence[str] = TERMS,
) -> tuple[TermCost, ...]:
    """What the use costs under each term that has a price, cheapest first, the shorter commitment first in a tie.

    `rates` are per card and hour, month or year; years are begun years.
    """
    periods = {"hour": hours, "month": Decimal(months), "year": Decimal(-(-months // MONTHS_PER_YEAR))}
    costs = []
    for term in TERMS:
        rate = rates.get(term)
        if rate is not None and term in terms:
            costs.append(TermCost(term, periods[term], rate, Money.rounded(rate * cards * periods[term], currency)))
    return tuple(sorted(costs, key=lambda cost: cost.total.minor))


def months_of(hours: Decimal, hours_per_month: int) -> int:
    """Begun months of an uninterrupted run, at least one."""
    return max(1, int((hours / hours_per_month).to_integral_value(ROUND_CEILING)))
