"""While fifty orders a second change the stock, every count that a page shows was true after it was asked for."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, field

from django.db import connection, transaction

from benchmarks import world
from benchmarks.figures.catalogue import ROW
from benchmarks.machine import PRODUCT, Machine, Web
from benchmarks.table import Row, Wrong
from catalog import inventory
from catalog.models import Offer
from marketplace.lib import clock

NAME = "fresh"
CARDS = 64
SECONDS = 10.0
CHANGES_PER_SECOND = 50
READERS = 3
# Fewer changes a second than this and the figure would say too little.
SLOWEST = 45.0


@dataclass(slots=True)
class Stock:
    """Every count there was: (when its change began to commit, when that was done, cards free from then on)."""

    known: list[tuple[float, float, int]] = field(default_factory=list)

    def was_true(self, cards: int, *, since: float, until: float) -> bool:
        """Whether the count may have been the committed one at some moment from `since` to `until`."""
        ends = [done for _began, done, _cards in self.known[1:]] + [float("inf")]
        return any(
            count == cards and began <= until and end >= since
            for (began, _done, count), end in zip(self.known, ends, strict=True)
        )


def measure(machine: Machine) -> Row:
    web = machine.web(PRODUCT)
    offer = world.offer_of("bench-fresh", cards=CARDS)
    page = f"/gpus/?q={offer.gpu_model.slug}"
    stop, stock = threading.Event(), Stock()
    answers: list[tuple[float, float, int]] = []
    readers = [threading.Thread(target=_read, args=(web, page, offer, stop, answers)) for _reader in range(READERS)]
    for reader in readers:
        reader.start()
    seconds = _change(offer, stock)
    stop.set()
    for reader in readers:
        reader.join()
    rate = (len(stock.known) - 1) / seconds
    if rate < SLOWEST:
        raise Wrong(f"only {rate:.0f} changes a second")
    untrue = [answer for answer in answers if not stock.was_true(answer[2], since=answer[0], until=answer[1])]
    different = len({cards for _since, _until, cards in answers})
    return Row(
        NAME,
        f"{len(answers) - len(untrue)} true",
        f"{len(answers)} answers",
        (len(answers) - len(untrue)) / max(len(answers), 1),
        1.0,
        note=f"{rate:.0f} claims and releases a second for {seconds:.0f} s; {different} different counts were shown",
        exact=True,
    )


def _change(offer: Offer, stock: Stock) -> float:
    """Claim and release single cards; how many seconds that took."""
    held: list[uuid.UUID] = []
    now = time.monotonic()
    stock.known.append((now, now, CARDS))
    started, number = now, 0
    while (now := time.monotonic()) - started < SECONDS:
        wait = started + number / CHANGES_PER_SECOND - now
        if wait > 0:
            time.sleep(wait)
        number += 1
        with transaction.atomic():
            if number % CARDS < CARDS // 2:
                held.append(uuid.uuid4())
                inventory.claim(pool_id=offer.pool_id, cards_per_unit=1, holders=held[-1:], at=clock.now())
            elif held:
                inventory.release([held.pop()], clock.now())
            began = time.monotonic()
        stock.known.append((began, time.monotonic(), CARDS - len(held)))
    return time.monotonic() - started


def _read(web: Web, page: str, offer: Offer, stop: threading.Event, answers: list[tuple[float, float, int]]) -> None:
    try:
        while not stop.is_set():
            since = time.monotonic()
            text = web.get(page)
            until = time.monotonic()
            answers.append((since, until, _shown(text, offer)))
    finally:
        connection.close()


def _shown(page: str, offer: Offer) -> int:
    (row,) = (row for row in ROW.findall(page) if f'href="/gpus/{offer.slug}/' in row)
    return world.free_in(row)
