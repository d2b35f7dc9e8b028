"""Hourly orders of one hot offer by the real form, against a bare view that writes the same rows by plain SQL."""

from __future__ import annotations

from benchmarks import load, world
from benchmarks.machine import BARE_BEHIND_PRODUCT, PRODUCT, Machine, Web
from benchmarks.rounds import ROUNDS, Sample, compare
from benchmarks.table import Row, Wrong
from catalog.models import Offer

NAME = "order"
TARGET = 0.50
CONNECTIONS = 8
ORDERS = 200


def measure(machine: Machine) -> Row:
    ours, bare = machine.web(PRODUCT), machine.web(BARE_BEHIND_PRODUCT)
    offer, buyer = world.offer_of("bench-order", cards=ORDERS), world.buyer(0)
    result = compare(
        lambda: _place(ours, world.order_request(ours.url, offer, buyer), offer),
        lambda: _place(bare, world.bare_order_request(bare.url, offer, buyer), offer),
    )
    return Row(
        NAME,
        f"{result.ours.rate:.0f} orders/s",
        f"{result.reference.rate:.0f} orders/s",
        result.ratio,
        TARGET,
        result.cpu,
        f"{ORDERS} orders a round, every row counted; median of {ROUNDS} rounds",
    )


def _place(web: Web, request: str, offer: Offer) -> Sample:
    """Place as many orders as there are cards; all must arrive, and leave exactly their rows."""
    world.take_orders_back(offer.pool_id)
    report, sample = web.ask(
        load.Plan(
            web.url, [request], connections=CONNECTIONS, count=ORDERS, wanted=[302], parts=["ocation: /console/orders/"]
        )
    )
    if report.statuses != {302: ORDERS} or report.lacking:
        raise Wrong(f"answers {report.statuses}: {report.example[:300]}")
    rows = world.rows_of(offer.pool_id)
    if set(rows.values()) != {ORDERS}:
        raise Wrong(f"{ORDERS} orders left {rows}")
    return sample
