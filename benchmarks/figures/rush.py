"""Ten thousand tries to buy one of a hundred cards: a hundred succeed, the others are told that it is sold out."""

from __future__ import annotations

from benchmarks import load, world
from benchmarks.machine import BARE_BEHIND_PRODUCT, PRODUCT, Machine
from benchmarks.table import Row, Wrong
from catalog.models import Offer

NAME = "rush"
CARDS = 100
TRIES = 10_000
BARE_TRIES = 5_000
CONNECTIONS = 64
MOST_SECONDS = 180.0
BUYERS = 8
# More than the cores, so that claims really meet in the database.
WORKERS = 4


def measure(machine: Machine) -> Row:
    ours, bare = machine.web(PRODUCT, workers=WORKERS), machine.web(BARE_BEHIND_PRODUCT, workers=WORKERS)
    offer = world.offer_of("bench-rush", cards=CARDS)
    buyers = [world.buyer(100 + number) for number in range(BUYERS)]
    world.take_orders_back(offer.pool_id)
    requests = [world.bare_order_request(bare.url, offer, buyer) for buyer in buyers]
    reference, _sample = bare.ask(_plan(bare.url, requests, BARE_TRIES))
    world.take_orders_back(offer.pool_id)
    requests = [world.order_request(ours.url, offer, buyer) for buyer in buyers]
    report, sample = ours.ask(_plan(ours.url, requests, TRIES))
    sold = _check(report, offer)
    return Row(
        NAME,
        f"{sold} sold",
        f"{CARDS} cards",
        sold / CARDS,
        1.0,
        f"{sample.cpu_ms:.1f}",
        f"{TRIES} tries by {CONNECTIONS} connections in {report.seconds:.0f} s, no error; "
        f"{report.rate:.0f} tries/s, bare {reference.rate:.0f}",
        exact=True,
    )


def _plan(url: str, requests: list[str], count: int) -> load.Plan:
    return load.Plan(url, requests, connections=CONNECTIONS, count=count, seconds=MOST_SECONDS, wanted=[302, 409])


def _check(report: load.Report, offer: Offer) -> int:
    """How many orders were promised, once the database was found to hold exactly those."""
    if load.refusals(report, [302, 409]):
        raise Wrong(f"answers {report.statuses}: {report.example[:300]}")
    if report.answers != TRIES:
        raise Wrong(f"only {report.answers} of {TRIES} tries were answered in {MOST_SECONDS:.0f} s")
    sold = report.statuses.get(302, 0)
    rows = world.rows_of(offer.pool_id)
    if set(rows.values()) != {sold}:
        raise Wrong(f"{sold} buyers were told that they bought, and the rows say {rows}")
    return sold
