"""How busy the cards of running rentals are: each is read once a minute, and the readings are kept for some days.

A reading that fails leaves nothing behind: silence is not idleness. Engines are asked at the same time and apart, each
within a budget of its own, so that a sick one costs the others nothing; no engine is called inside a transaction.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from catalog.models import Pool
from rentals import engines
from rentals.drivers.base import Cap, CardReading
from rentals.drivers.errors import DriverError, Transient
from rentals.models import Rental, Utilisation, UtilisationSample

logger = logging.getLogger(__name__)

KEPT = timedelta(days=7)
# For so long a rental that is being asked, or gave no answer, is left to whoever asks.
LEASE = timedelta(seconds=25)
# One sweep reads at most so many rentals, from each engine for at most so long; what is left comes first next time.
BATCH = 2000
ENGINE_SECONDS = 10.0
ENGINES_AT_ONCE = 8
# So many rentals in a row without an answer, and the engine is left alone until the next sweep.
GIVE_UP_AFTER = 3
PRUNE_BATCH = 20_000
HUNDREDTH = Decimal("0.01")


# --- what several cards are together: pure ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Summary:
    """Several cards as one: percent to two digits, half up. `memory` of all that publish it, None where none does."""

    busy: Decimal
    busiest: Decimal
    memory: Decimal | None
    cards_read: int


def summary(readings: Iterable[CardReading]) -> Summary | None:
    """The cards together, by those that say how busy they are; None where none does."""
    said = [card for card in readings if card.busy is not None]
    if not said:
        return None
    shares = [card.busy for card in said if card.busy is not None]
    sizes = [(card.memory_used, card.memory_total) for card in said if card.memory_used is not None]
    used = sum(one for one, total in sizes if total)
    total = sum(total for _one, total in sizes if total)
    return Summary(
        busy=_percent(sum(shares, Decimal(0)) / len(shares)),
        busiest=_percent(max(shares)),
        memory=min(_percent(Decimal(used) * 100 / total), Decimal(100)) if total else None,
        cards_read=len(said),
    )


def _percent(value: Decimal) -> Decimal:
    return value.quantize(HUNDREDTH, rounding=ROUND_HALF_UP)


# --- the sweep -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """What one rental's cards were seen doing in this sweep."""

    rental_id: int
    cards: tuple[CardReading, ...]


def sample_utilisation(*, at: datetime) -> int:
    """Read every running rental that was not read in this minute yet; how many samples were written.

    Safe to repeat and in parallel: a rental is asked by whoever writes its row first, and has one sample a minute. A
    worker that dies in between costs the rentals it had claimed this one reading.
    """
    asked = _claim(at)
    if not asked:
        return 0
    by_engine = _by_engine(asked, at)
    written = 0
    with ThreadPoolExecutor(ENGINES_AT_ONCE, thread_name_prefix="exporters") as threads:
        for engine in as_completed([threads.submit(_read_engine, pool, keys) for pool, keys in by_engine]):
            written += _write(engine.result(), at)
    return written


# Rows are locked in the order of their keys, so two sweeps never wait for each other crosswise; the second finds
# asked_at moved on and takes nothing.
CLAIM = """
INSERT INTO rentals_utilisation (rental_id, asked_at, cards_read, cards)
SELECT due.id, %(at)s, 0, '[]' FROM (
    SELECT r.id
    FROM rentals_rental r LEFT JOIN rentals_utilisation u ON u.rental_id = r.id
    WHERE r.status = 'running'
      AND (u.rental_id IS NULL OR u.asked_at <= %(leased)s)
      AND (u.read_at IS NULL OR u.read_at < %(minute)s)
    ORDER BY u.asked_at NULLS FIRST, r.id
    LIMIT %(batch)s
) AS due
ORDER BY due.id
ON CONFLICT (rental_id) DO UPDATE SET asked_at = EXCLUDED.asked_at WHERE rentals_utilisation.asked_at <= %(leased)s
RETURNING rental_id
"""


def _claim(at: datetime) -> list[int]:
    minute = at.replace(second=0, microsecond=0)
    values = {"at": at, "leased": at - LEASE, "minute": minute, "batch": BATCH}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(CLAIM, values)
        return [rental_id for (rental_id,) in cursor.fetchall()]


def _by_engine(rental_ids: Sequence[int], at: datetime) -> list[tuple[Pool, list[tuple[int, UUID]]]]:
    rentals = Rental.objects.filter(pk__in=rental_ids, pool__paused_reason="").select_related("pool")
    shared: dict[tuple[str, str, str], list[Rental]] = defaultdict(list)
    for rental in rentals.only("key", "pool"):
        pool = rental.pool
        shared[pool.driver, pool.endpoint, pool.credential_ref].append(rental)
    return [(group[0].pool, _shuffled(group, at)) for group in shared.values()]


def _shuffled(rentals: Iterable[Rental], at: datetime) -> list[tuple[int, UUID]]:
    """Another order each time, so that a budget that is too short for all is not always spent on the same ones."""
    return sorted(((one.pk, one.key) for one in rentals), key=lambda pair: hash((pair[1], at)))


def _read_engine(pool: Pool, rentals: Sequence[tuple[int, UUID]]) -> list[Reading]:
    """What one engine's exporters say, as far as its budget goes. Touches no database: it runs in a thread."""
    try:
        return list(_readings(pool, rentals))
    except DriverError as error:
        logger.warning("utilisation of pool %s not read: %s", pool.code, error.code)
    except Exception:
        logger.exception("utilisation of pool %s not read", pool.code)
    return []


def _readings(pool: Pool, rentals: Sequence[tuple[int, UUID]]) -> Iterator[Reading]:
    until, silent = time.monotonic() + ENGINE_SECONDS, 0
    with engines.driver_of(pool) as driver:
        if Cap.UTILISATION not in driver.capabilities:
            return
        for rental_id, key in rentals:
            if silent >= GIVE_UP_AFTER or time.monotonic() > until:
                logger.warning("engine of pool %s answers too slowly; the rest is read in the next sweep", pool.code)
                return
            try:
                cards = driver.utilisation(key)
            except DriverError as error:
                silent += isinstance(error, Transient)
                logger.info("utilisation of %s not read: %s", key, error.code)
                continue
            silent = 0
            yield Reading(rental_id, cards)


def _write(readings: Sequence[Reading], at: datetime) -> int:
    """The samples and the latest row of each, together. A second sample of a minute is dropped."""
    seen = [(one, together) for one in readings if (together := summary(one.cards)) is not None]
    rows = [
        Utilisation(
            rental_id=one.rental_id,
            asked_at=at,
            read_at=at,
            busy=together.busy,
            busiest=together.busiest,
            memory=together.memory,
            cards_read=together.cards_read,
            cards=[_card(card) for card in one.cards],
        )
        for one, together in sorted(seen, key=lambda pair: pair[0].rental_id)
    ]
    samples = [
        UtilisationSample(
            rental_id=row.rental_id,
            at=at,
            busy=row.busy,
            busiest=row.busiest,
            memory=row.memory,
            cards_read=row.cards_read,
        )
        for row in rows
    ]
    with transaction.atomic():
        Utilisation.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["rental"],
            update_fields=["asked_at", "read_at", "busy", "busiest", "memory", "cards_read", "cards"],
        )
        UtilisationSample.objects.bulk_create(samples, ignore_conflicts=True)
    return len(samples)


def _card(card: CardReading) -> dict[str, Any]:
    """A card as it is kept for the page; numbers that need not be whole are texts, None what is not published."""
    return {
        "serial": card.serial,
        "index": card.index,
        "busy": None if card.busy is None else str(_percent(card.busy)),
        "memory_used_mb": card.memory_used,
        "memory_total_mb": card.memory_total,
        "temperature": card.temperature,
        "power": None if card.power is None else str(_percent(card.power)),
    }


def prune(*, at: datetime) -> int:
    """Delete samples that were kept long enough, some at a time; how many."""
    old = UtilisationSample.objects.filter(at__lt=at - KEPT).order_by("at").values("pk")[:PRUNE_BATCH]
    deleted, _by_model = UtilisationSample.objects.filter(pk__in=old).delete()
    return deleted
