"""The guide's facts and policy, read once from `data/sizing.json`: sizes in GB of 10⁹ bytes, counts in billions."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple


class Shape(NamedTuple):
    """A published model: parameters in billions, layers L, hidden size h, attention and KV heads, vocabulary V.

    `checked` is False where the figures were not read at their source again.
    """

    name: str
    params_b: Decimal
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    vocab: int
    checked: bool


class Stage(NamedTuple):
    """What a company of this size usually rents: terms, cards of a unit, products, and how long when nothing is said.

    `basis` names the articles of the brief it comes from; months and hours are this catalogue's policy.
    """

    id: str
    rule: str
    terms: tuple[str, ...]
    least_cards: int
    most_cards: int
    products: tuple[str, ...]
    needs_link: bool
    needs_rdma: bool
    months: int
    hours: int
    basis: str


class Scenario(NamedTuple):
    """What a kind of work usually runs on; empty `first` means any card."""

    id: str
    rule: str
    terms: tuple[str, ...]
    first: tuple[str, ...]
    needs_link: bool
    domestic: bool
    basis: str


class SourceNote(NamedTuple):
    url: str
    name: str


def _load(path: Path = Path(__file__).parent.parent / "data" / "sizing.json") -> dict[str, Any]:
    # A number with a point becomes a Decimal as it is written, so that no float is ever made.
    return json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)


def _shape(row: dict[str, Any]) -> Shape:
    return Shape(**row | {"params_b": Decimal(row["params_b"])})


def _stage(row: dict[str, Any]) -> Stage:
    least, most = row["cards"]
    return Stage(
        id=row["id"],
        rule=row["rule"],
        terms=tuple(row["terms"]),
        least_cards=least,
        most_cards=most,
        products=tuple(row["products"]),
        needs_link=row.get("needs_link", False),
        needs_rdma=row.get("needs_rdma", False),
        months=row["months"],
        hours=row["hours"],
        basis=row["basis"],
    )


def _scenario(row: dict[str, Any]) -> Scenario:
    return Scenario(
        id=row["id"],
        rule=row["rule"],
        terms=tuple(row["terms"]),
        first=tuple(row["first"]),
        needs_link=row.get("needs_link", False),
        domestic=row.get("domestic", False),
        basis=row["basis"],
    )


_DATA = _load()

SOURCES = {key: SourceNote(**row) for key, row in _DATA["sources"].items()}
WEIGHT_BYTES = {name: Decimal(value) for name, value in _DATA["weight_bytes"].items()}
STATE_BYTES = {name: Decimal(row["bytes"]) for name, row in _DATA["state_bytes"].items()}
STATE_SOURCE = {name: row["source"] for name, row in _DATA["state_bytes"].items()}
KV_BYTES = Decimal(_DATA["kv_bytes"])
USABLE_SHARE = Decimal(_DATA["usable_share"])
RUNTIME_GB = Decimal(_DATA["runtime_gb"])
CARD_COUNTS = (*_DATA["small_counts"], *range(2 * _DATA["node_step"], _DATA["most_cards"] + 1, _DATA["node_step"]))
MFU = Decimal(_DATA["mfu"]["usual"])
REDUCED_MFU = Decimal(_DATA["mfu"]["reduced"])
FLOPS_PER_TOKEN = Decimal(_DATA["flops_per_token"])
PORT_GBPS = tuple(_DATA["port_gbps"])
STEP_TOKENS: int = _DATA["step_tokens"]
HOURS_PER_MONTH: int = _DATA["hours_per_month"]
DOMESTIC_FIRST_FAMILY: str = _DATA["domestic_first_family"]
WHOLE_NODE_FAMILY: str = _DATA["whole_node_family"]
SHAPES = tuple(sorted(map(_shape, _DATA["shapes"]), key=lambda shape: shape.params_b))
STAGES = {row["id"]: _stage(row) for row in _DATA["stages"]}
SCENARIOS = {row["id"]: _scenario(row) for row in _DATA["scenarios"]}
BUYING: dict[str, dict[str, Any]] = {
    currency: {name: Decimal(value) for name, value in _DATA["buying"][currency].items()} for currency in ("CNY", "USD")
}
BUYING_MODEL: str = _DATA["buying"]["model"]
BUYING_USE = Decimal(_DATA["buying"]["use"])


def shape_for(params_b: Decimal) -> Shape:
    """The smallest published model that is at least this large; above the largest, the largest."""
    return next((shape for shape in SHAPES if shape.params_b >= params_b), SHAPES[-1])
