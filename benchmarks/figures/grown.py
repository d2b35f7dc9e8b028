"""The catalogue page over 5,000 offers and 100,000 cards, in processor time against the same page over 200 offers."""

from __future__ import annotations

from benchmarks.figures.catalogue import PAGE, ROW, ask
from benchmarks.machine import PRODUCT, Machine, Web
from benchmarks.rounds import ROUNDS, compare
from benchmarks.table import Row, Wrong
from catalog.queries import PAGE_SIZE

NAME = "grown"
SMALL, LARGE = (200, 4_000), (5_000, 100_000)
# At most 1.2 times the processor time.
TARGET = 1 / 1.2


def measure(machine: Machine) -> Row:
    small, large = (
        machine.web(PRODUCT, database=machine.grown_database(offers=offers, cards=cards))
        for offers, cards in (SMALL, LARGE)
    )
    parts = {web: _check(web, offers) for web, (offers, _cards) in ((small, SMALL), (large, LARGE))}
    result = compare(lambda: ask(large, [PAGE], parts[large]), lambda: ask(small, [PAGE], parts[small]))
    return Row(
        NAME,
        f"{result.ours.cpu_ms:.2f} ms",
        f"{result.reference.cpu_ms:.2f} ms",
        result.reference.cpu_ms / max(result.ours.cpu_ms, 0.001),
        TARGET,
        result.cpu,
        f"{LARGE[0]} offers and {LARGE[1]} cards against {SMALL[0]} offers; median of {ROUNDS} rounds",
    )


def _check(web: Web, offers: int) -> list[str]:
    page = web.get(PAGE)
    rows = ROW.findall(page)
    if len(rows) != PAGE_SIZE or f"{offers} 款产品" not in page:
        raise Wrong(f"{len(rows)} rows on the page over {offers} offers")
    return rows
