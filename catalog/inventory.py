"""Cards claimed and released: exact however many buyers ask at once.

The state stands in the locked rows. A host's row is the mutex of its cards: whoever changes `Host.cards_free` (free and
healthy cards) or `Gpu.holder` holds that row's lock first. Claims try hosts that nobody has locked; where every fitting
host is locked they wait, in primary-key order and holding no host of their own, so waiting cannot become a deadlock.
Call `release` once per transaction, and claim pools in primary-key order where one transaction needs several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection, transaction
from django.utils.translation import gettext_lazy as _

from marketplace.lib import prepared
from marketplace.lib.refusals import Refusal

# How often a claim that found every fitting host locked waits for them before it says so, and how long each time.
WAITS = 4
WAIT_MILLISECONDS = 3000
# PostgreSQL's code for a lock that could not be had in that time.
LOCK_NOT_AVAILABLE = "55P03"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a unit lies: one host and its cards' serial numbers in slot order."""

    holder: UUID
    host_id: int
    host_name: str
    serials: tuple[str, ...]


class NotEnoughCards(Refusal):
    """Fewer units fit than were asked for; nothing was taken."""

    code = "sold_out"
    message = _("Only %(free)d of %(wanted)d units are free now.")

    def __init__(self, wanted: int, free_units: int) -> None:
        super().__init__(message=self.message % {"free": free_units, "wanted": wanted})
        self.wanted = wanted
        self.free_units = free_units


class PoolBusy(NotEnoughCards):
    """Cards are free but other orders kept them locked for longer than a claim waits; nothing was taken."""

    code = "busy"
    message = _("Many orders arrive at this moment. Please try again.")


@dataclass(slots=True)
class _Claim:
    """One request while it is being served."""

    pool_id: int
    cards: int
    holders: Sequence[UUID]
    at: datetime
    until: datetime | None
    host_id: int | None
    # Hosts whose counter promised more cards than are healthy and free: another host is tried instead.
    unfit: list[int] = field(default_factory=list)

    def parameters(self, **more: Any) -> dict[str, Any]:
        return {
            "pool": self.pool_id,
            "cards": self.cards,
            "at": self.at,
            "until": self.until,
            "host": self.host_id,
            "unfit": self.unfit,
            **more,
        }


def claim(
    *,
    pool_id: int,
    cards_per_unit: int,
    holders: Sequence[UUID],
    at: datetime,
    host_id: int | None = None,
    until: datetime | None = None,
) -> list[Placement]:
    """Take one unit of `cards_per_unit` cards for each holder, all or none; the placements come in holder order.

    Each unit lies on one host (`host_id` names it, else the fullest host that fits, so that whole hosts stay whole).
    Only active hosts, healthy cards and pools that are not paused are sold, and only what reservations that overlap
    `[at, until)` leave over; `until=None` means without end, so every reservation to come counts.
    Must run inside the caller's transaction, which keeps the hosts locked until it ends.
    Raises NotEnoughCards (PoolBusy where cards are free but stayed locked).
    """
    _require_transaction()
    if not holders:
        return []
    wanted = _Claim(pool_id, cards_per_unit, holders, at, until, host_id)
    taken = _try(wanted, wait=False)
    for _wait in range(WAITS):
        if taken:
            break
        free = _free_units(wanted)
        if free < len(holders):
            raise NotEnoughCards(len(holders), free)
        taken = _try(wanted, wait=True)
    if not taken:
        raise PoolBusy(len(holders), _free_units(wanted))
    by_holder = {placement.holder: placement for placement in taken}
    return [by_holder[holder] for holder in holders]


def claim_same(
    *, pool_id: int, host_id: int, serials: Sequence[str], holder: UUID, at: datetime, until: datetime
) -> None:
    """Take exactly these cards of a host for one unit, as it had them before; all or none.

    Within the caller's transaction. Raises NotEnoughCards where one is held or broken, the host is not in use, or a
    reservation in `[at, until)` needs them; wrap it in a savepoint to go on after that.
    """
    _require_transaction()
    # The pool comes before its hosts, and stays locked beside reservations.
    reserved_from(pool_id=pool_id, since=at, until=until)
    parameters = {"host": host_id, "serials": list(serials), "holder": holder, "wanted": len(serials), "at": at}
    locked = _execute(
        "SELECT id FROM catalog_host WHERE id = %(host)s AND state = 'active' FOR NO KEY UPDATE", parameters
    )
    taken = _execute(_TAKE_SAME, parameters)[0][0] if locked else 0
    if not taken or reserved_from(pool_id=pool_id, since=at, until=until) is not None:
        raise NotEnoughCards(1, 0)


def release(holders: Sequence[UUID], at: datetime) -> int:
    """Free every card of these units and end their allocations at `at`; how many cards became free.

    Safe to repeat: a unit that has no card left changes nothing. Works on hosts in every state. An allocation lasts at
    least a microsecond, so that its row keeps its place in the card's history.
    """
    _require_transaction()
    if not holders:
        return 0
    parameters: dict[str, Any] = {"holders": list(holders), "at": at}
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_HOSTS_OF, parameters)
        if not cursor.fetchall():
            return 0
        cursor.execute(_RELEASE, parameters)
        return int(cursor.fetchone()[0])


def reserved_from(*, pool_id: int, since: datetime, until: datetime) -> datetime | None:
    """When, in `[since, until)`, a reservation begins to need cards that are held now; None where there is none.

    For cards that stay longer with who has them: a reservation that the free cards cover does not mind. Keeps the pool
    locked, as a claim beside reservations does, so that the two follow each other.
    """
    _require_transaction()
    parameters = {"pool": pool_id, "at": since, "until": until}
    _execute("SELECT id FROM catalog_pool WHERE id = %(pool)s FOR NO KEY UPDATE", parameters)
    ((free, reserved),) = _execute(_FREE_AND_RESERVED, parameters)
    if reserved <= free:
        return None
    ((first,),) = _execute(_FIRST_RESERVED, parameters)
    return max(first, since)


def set_healthy(*, gpu_id: int, healthy: bool) -> bool:
    """Take a card out of sale or put it back, keeping its host's counter true; whether anything changed."""
    _require_transaction()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM catalog_host WHERE id = (SELECT host_id FROM catalog_gpu WHERE id = %s) FOR NO KEY UPDATE",
            [gpu_id],
        )
        cursor.execute(_SET_HEALTHY, {"gpu": gpu_id, "healthy": healthy})
        return cursor.rowcount == 1


def placements(holders: Iterable[UUID]) -> dict[UUID, Placement]:
    """Where these units lie now; a unit that holds no card is left out."""
    with connection.cursor() as cursor:
        cursor.execute(_PLACEMENTS, [list(holders)])
        rows = cursor.fetchall()
    return {holder: Placement(holder, host, name, tuple(serials)) for holder, host, name, serials in rows}


# --- steps of a claim ------------------------------------------------------------------------------------------------
def _try(wanted: _Claim, *, wait: bool) -> list[Placement]:
    """The placements of all units, or an empty list with nothing taken and no host left locked by this try."""
    if len(wanted.holders) == 1 and not wait:
        return _take_free_hosts(wanted, first=f"SAVEPOINT {_BEFORE}") or _give_back()
    try:
        # The savepoint gives back the locks and cards of a try that fell short.
        with transaction.atomic():
            taken = _take_after_waiting(wanted) if wait else _take_free_hosts(wanted)
            if not taken:
                raise _Short
            return taken
    except _Short:
        return []
    except OperationalError as error:
        if getattr(error.__cause__, "pgcode", None) == LOCK_NOT_AVAILABLE:
            return []
        raise


class _Short(Exception):
    """Ends a try whose savepoint must be rolled back."""


# Where a claim of one unit goes back to when it falls short. It is set in the message that locks the host, because most
# claims succeed and a question of its own would cost them more than the lock; then it ends with the transaction.
_BEFORE = "before_claim"


def _give_back() -> list[Placement]:
    """Unlock what a claim of one unit locked in vain.

    A host that was sold while the statement ran does not fit any more and is left out of its rows, but stays locked:
    two claims that went on to wait for each other's would be a deadlock.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"ROLLBACK TO SAVEPOINT {_BEFORE}; RELEASE SAVEPOINT {_BEFORE}")
    return []


def _take_free_hosts(wanted: _Claim, *, first: str = "") -> list[Placement]:
    """Units from hosts that nobody has locked, the fullest first; `first` is a command to begin with."""
    taken: list[Placement] = []
    while len(taken) < len(wanted.holders):
        hosts = prepared.fetch_all(_LOCK_BEST_HOST, wanted.parameters(), first=first)
        first = ""
        if not hosts:
            return []
        taken += _take_from(wanted, hosts[0], wanted.holders[len(taken) :])
    return taken


def _take_after_waiting(wanted: _Claim) -> list[Placement]:
    """Units from as many hosts as may be needed, each waited for."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout')")
        (usual,) = cursor.fetchone()
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [str(WAIT_MILLISECONDS)])
        cursor.execute(_LOCK_HOSTS_WAITING, wanted.parameters(units=len(wanted.holders)))
        hosts = sorted(cursor.fetchall(), key=lambda host: (host[2], host[0]))
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [usual])
    taken: list[Placement] = []
    for host in hosts:
        if len(taken) < len(wanted.holders):
            taken += _take_from(wanted, host, wanted.holders[len(taken) :])
    return taken if len(taken) == len(wanted.holders) else []


def _take_from(wanted: _Claim, host: tuple[int, str, int], holders: Sequence[UUID]) -> list[Placement]:
    """As many of these units as fit on this locked host."""
    host_id, name, cards_free = host
    units = list(holders[: cards_free // wanted.cards])
    cards = len(units) * wanted.cards
    parameters = wanted.parameters(host=host_id, holders=units, wanted=cards)
    rows = prepared.fetch_all(_TAKE, parameters | {"beside_reservations": False})
    if not rows and _leaves_reserved(wanted, cards):
        rows = prepared.fetch_all(_TAKE, parameters | {"beside_reservations": True})
    if not rows:
        wanted.unfit.append(host_id)
        return []
    return [Placement(holder, host_id, name, tuple(serials)) for holder, serials in rows]


def _leaves_reserved(wanted: _Claim, cards: int) -> bool:
    """Whether the pool keeps what is reserved after these cards are sold. Claims of such a pool come one at a time."""
    _execute("SELECT id FROM catalog_pool WHERE id = %(pool)s FOR NO KEY UPDATE", wanted.parameters())
    ((free, reserved),) = _execute(_FREE_AND_RESERVED, wanted.parameters())
    if not reserved:
        return False
    if free - reserved < cards:
        raise NotEnoughCards(len(wanted.holders), max(0, free - reserved) // wanted.cards)
    return True


def _free_units(wanted: _Claim) -> int:
    """Units that would fit as of now, whoever has locked them."""
    ((units,),) = prepared.fetch_all(_FREE_UNITS, wanted.parameters())
    return int(units)


def _execute(statement: str, parameters: dict[str, Any]) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall()


def _require_transaction() -> None:
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("cards change hands only inside a transaction")


# --- statements ------------------------------------------------------------------------------------------------------
_FITTING_HOSTS = """
  FROM catalog_host h JOIN catalog_pool p ON p.id = h.pool_id AND p.paused_reason = ''
 WHERE h.pool_id = %(pool)s AND h.state = 'active' AND h.cards_free >= %(cards)s
   AND (%(host)s::bigint IS NULL OR h.id = %(host)s) AND h.id <> ALL(%(unfit)s::bigint[])
"""

_LOCK_BEST_HOST = f"""
SELECT h.id, h.name, h.cards_free {_FITTING_HOSTS}
 ORDER BY h.cards_free, h.id LIMIT 1 FOR NO KEY UPDATE OF h SKIP LOCKED
"""

# A unit needs one host at most, so this many rows always suffice.
_LOCK_HOSTS_WAITING = f"""
SELECT h.id, h.name, h.cards_free {_FITTING_HOSTS}
 ORDER BY h.id LIMIT %(units)s FOR NO KEY UPDATE OF h
"""

_FREE_UNITS = f"SELECT coalesce(sum(h.cards_free / %(cards)s), 0) {_FITTING_HOSTS}"

# Runs after the host was locked, so its snapshot is the truth about the host's cards. A claim whose instant was read
# before the last holder left begins where that one ended.
_TAKE = """
WITH card AS (
  SELECT id, (row_number() OVER (ORDER BY slot) - 1) / %(cards)s + 1 AS unit
    FROM catalog_gpu WHERE host_id = %(host)s AND holder IS NULL AND healthy
   ORDER BY slot LIMIT %(wanted)s
), taken AS (
  UPDATE catalog_gpu g SET holder = (%(holders)s::uuid[])[card.unit]
    FROM card
   WHERE g.id = card.id AND g.holder IS NULL AND (SELECT count(*) FROM card) = %(wanted)s
     AND (%(beside_reservations)s OR NOT EXISTS (
       SELECT FROM catalog_reservation WHERE pool_id = %(pool)s AND period && tstzrange(%(at)s, %(until)s)))
  RETURNING g.id, g.serial, g.slot, g.holder
), counted AS (
  UPDATE catalog_host SET cards_free = cards_free - %(wanted)s WHERE id = %(host)s AND EXISTS (SELECT FROM taken)
), history AS (
  INSERT INTO catalog_allocation (gpu_id, period, holder)
  SELECT t.id, tstzrange(greatest(%(at)s, (
           SELECT max(upper(a.period)) FROM catalog_allocation a
            WHERE a.gpu_id = t.id AND a.period && tstzrange(%(at)s, NULL))), NULL), t.holder
    FROM taken t
)
SELECT holder, array_agg(serial ORDER BY slot) FROM taken GROUP BY holder
"""

_TAKE_SAME = """
WITH card AS (
  SELECT id FROM catalog_gpu
   WHERE host_id = %(host)s AND serial = ANY(%(serials)s) AND holder IS NULL AND healthy
), taken AS (
  UPDATE catalog_gpu g SET holder = %(holder)s
    FROM card WHERE g.id = card.id AND g.holder IS NULL AND (SELECT count(*) FROM card) = %(wanted)s
  RETURNING g.id
), counted AS (
  UPDATE catalog_host SET cards_free = cards_free - %(wanted)s WHERE id = %(host)s AND EXISTS (SELECT FROM taken)
), history AS (
  INSERT INTO catalog_allocation (gpu_id, period, holder)
  SELECT t.id, tstzrange(greatest(%(at)s, (
           SELECT max(upper(a.period)) FROM catalog_allocation a
            WHERE a.gpu_id = t.id AND a.period && tstzrange(%(at)s, NULL))), NULL), %(holder)s
    FROM taken t
)
SELECT count(*) FROM taken
"""

# Reserved: the most that is promised at any one instant of the range.
RESERVED = """
coalesce((SELECT max(together.cards) FROM catalog_reservation r, LATERAL (
    SELECT sum(other.cards) AS cards FROM catalog_reservation other
     WHERE other.pool_id = r.pool_id AND other.period @> greatest(lower(r.period), {at})) together
  WHERE r.pool_id = {pool} AND r.period && tstzrange({at}, {until})), 0)
"""

_FREE_AND_RESERVED = f"""
SELECT coalesce(sum(cards_free), 0)::int, {RESERVED.format(pool="%(pool)s", at="%(at)s", until="%(until)s")}::int
  FROM catalog_host WHERE pool_id = %(pool)s AND state = 'active'
"""  # noqa: S608 - fixed text only

_FIRST_RESERVED = """
SELECT min(lower(period)) FROM catalog_reservation
 WHERE pool_id = %(pool)s AND period && tstzrange(%(at)s, %(until)s)
"""

_LOCK_HOSTS_OF = """
SELECT id FROM catalog_host
 WHERE id IN (SELECT host_id FROM catalog_gpu WHERE holder = ANY(%(holders)s::uuid[]))
 ORDER BY id FOR NO KEY UPDATE
"""

_RELEASE = """
WITH freed AS (
  UPDATE catalog_gpu SET holder = NULL WHERE holder = ANY(%(holders)s::uuid[]) RETURNING host_id, healthy
), closed AS (
  UPDATE catalog_allocation
     SET period = tstzrange(lower(period), greatest(%(at)s, lower(period) + interval '1 microsecond'))
   WHERE holder = ANY(%(holders)s::uuid[]) AND upper_inf(period)
), counted AS (
  UPDATE catalog_host h SET cards_free = h.cards_free + f.cards
    FROM (SELECT host_id, count(*) FILTER (WHERE healthy) AS cards FROM freed GROUP BY host_id) f
   WHERE h.id = f.host_id
)
SELECT count(*) FROM freed
"""

_SET_HEALTHY = """
WITH changed AS (
  UPDATE catalog_gpu SET healthy = %(healthy)s WHERE id = %(gpu)s AND healthy <> %(healthy)s RETURNING host_id, holder
)
UPDATE catalog_host h SET cards_free = h.cards_free
     + CASE WHEN changed.holder IS NOT NULL THEN 0 WHEN %(healthy)s THEN 1 ELSE -1 END
  FROM changed WHERE h.id = changed.host_id
"""

_PLACEMENTS = """
SELECT g.holder, h.id, h.name, array_agg(g.serial ORDER BY g.slot)
  FROM catalog_gpu g JOIN catalog_host h ON h.id = g.host_id
 WHERE g.holder = ANY(%s::uuid[]) GROUP BY g.holder, h.id, h.name
"""
