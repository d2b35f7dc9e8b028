"""Buyers race for cards on real PostgreSQL: exact, whatever the order in which they come."""

import random
from datetime import timedelta
from threading import Barrier, Event
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import Count, F

from catalog import inventory
from catalog.models import Allocation, Gpu, Host, Reservation
from tests.catalog import builders
from tests.catalog.builders import NOON
from tests.support.threads import PATIENCE, at_once

pytestmark = pytest.mark.django_db(transaction=True)


def buy(pool, cards, units=1, hold=0.0):
    """A buyer: the placements it got, or None where it was told that nothing fits."""

    def buyer():
        try:
            with transaction.atomic():
                placed = inventory.claim(
                    pool_id=pool.pk, cards_per_unit=cards, holders=[uuid4() for _ in range(units)], at=NOON
                )
                if hold:
                    Event().wait(hold)
                return placed
        except inventory.PoolBusy as busy:
            raise AssertionError("a buyer was sent away although cards were free") from busy
        except inventory.NotEnoughCards:
            return None

    return buyer


def check_truth(pool):
    """Counters, holders and open allocations tell the same story, and every holder's cards lie on one host."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # one snapshot for all that is compared
        for host in Host.objects.filter(pool=pool):
            assert host.cards_free == host.gpus.filter(holder=None, healthy=True).count()
        held = dict(Gpu.objects.filter(host__pool=pool).exclude(holder=None).values_list("pk", "holder"))
        current = Allocation.objects.filter(gpu__host__pool=pool, period__endswith=None).values_list("gpu", "holder")
        astray = {gpu for gpu, _holder in held.items() ^ set(current)}
        assert not astray, story_of(astray)
        assert len(current) == len(held)
        taken = Gpu.objects.filter(holder__in=held.values())
        spread = taken.values("holder").annotate(hosts=Count("host", distinct=True))
        assert all(row["hosts"] == 1 for row in spread)


def story_of(gpus):
    """Cards and all their allocations with the transactions that wrote them, for the message of a failure."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT g.id, g.xmin::text, g.xmax::text, g.holder, a.xmin::text, a.xmax::text, a.holder, a.period::text"
            "  FROM catalog_gpu g LEFT JOIN catalog_allocation a ON a.gpu_id = g.id"
            " WHERE g.id = ANY(%s) ORDER BY g.id, a.period",
            [list(gpus)],
        )
        return "\n".join(" ".join(map(str, row)) for row in cursor.fetchall())


def cards_of(results):
    return [serial for placed in results if placed for unit in placed for serial in unit.serials]


@pytest.mark.parametrize("seed", range(4))
def test_twenty_buyers_race_for_the_last_eight_cards_of_a_host(seed):
    pool = builders.pool()
    host = builders.host(pool)
    sizes = [1] * 10 + [4] * 6 + [8] * 4
    random.Random(seed).shuffle(sizes)

    results = at_once(*(buy(pool, size) for size in sizes))

    sold = cards_of(results)
    assert len(sold) == len(set(sold))
    host.refresh_from_db()
    refused = [size for size, placed in zip(sizes, results, strict=True) if placed is None]
    assert not [size for size in refused if size <= host.cards_free]
    assert all(len(placed[0].serials) == size for size, placed in zip(sizes, results, strict=True) if placed)
    check_truth(pool)


@pytest.mark.parametrize("seed", range(3))
def test_sizes_share_many_hosts_and_nothing_that_would_fit_is_left(seed):
    pool = builders.pool()
    for _ in range(4):
        builders.host(pool)
    sizes = [1] * 10 + [2] * 4 + [4] * 6 + [8] * 4
    random.Random(seed).shuffle(sizes)

    results = at_once(*(buy(pool, size) for size in sizes))

    sold = cards_of(results)
    assert len(sold) == len(set(sold))
    largest = max(Host.objects.filter(pool=pool).values_list("cards_free", flat=True))
    refused = [size for size, placed in zip(sizes, results, strict=True) if placed is None]
    assert not [size for size in refused if size <= largest]
    check_truth(pool)


def test_exactly_as_many_as_fit_are_sold_while_buyers_keep_their_hosts_locked():
    pool = builders.pool()
    for _ in range(2):
        builders.host(pool)

    results = at_once(*(buy(pool, 2, hold=0.02) for _ in range(20)))

    assert [placed is not None for placed in results].count(True) == 8
    assert len(set(cards_of(results))) == 16
    check_truth(pool)


def test_several_units_are_all_or_none_when_hosts_are_contended():
    pool = builders.pool()
    for _ in range(3):
        builders.host(pool)

    results = at_once(*(buy(pool, 4, units=3, hold=0.01) for _ in range(8)))

    assert sorted(len(placed) for placed in results if placed) == [3, 3]
    assert sum(Host.objects.filter(pool=pool).values_list("cards_free", flat=True)) == 0
    check_truth(pool)


def test_a_buyer_waits_for_the_last_host_and_gets_it_when_the_other_order_fails():
    pool = builders.pool()
    builders.host(pool)
    locked, give_up = Event(), Event()

    def changes_its_mind():
        with transaction.atomic():
            inventory.claim(pool_id=pool.pk, cards_per_unit=8, holders=[uuid4()], at=NOON)
            locked.set()
            assert give_up.wait(PATIENCE)
            transaction.set_rollback(True)

    def patient():
        assert locked.wait(PATIENCE)
        return buy(pool, 8)()

    def opens_the_door():
        assert locked.wait(PATIENCE)
        wait_until_somebody_waits()
        give_up.set()

    _nobody, placed, _door = at_once(changes_its_mind, patient, opens_the_door)

    assert len(placed[0].serials) == 8
    check_truth(pool)


def test_a_buyer_who_waited_in_vain_is_told_that_cards_are_free_but_busy(monkeypatch):
    monkeypatch.setattr(inventory, "WAIT_MILLISECONDS", 20)
    pool = builders.pool()
    builders.host(pool)
    locked, done = Event(), Event()

    def keeps_it():
        with transaction.atomic():
            inventory.claim(pool_id=pool.pk, cards_per_unit=8, holders=[uuid4()], at=NOON)
            locked.set()
            assert done.wait(PATIENCE)
            transaction.set_rollback(True)

    def tries():
        assert locked.wait(PATIENCE)
        try:
            with transaction.atomic():
                with pytest.raises(inventory.PoolBusy) as refusal:
                    inventory.claim(pool_id=pool.pk, cards_per_unit=1, holders=[uuid4()], at=NOON)
                # The transaction goes on and has its usual patience again.
                with connection.cursor() as cursor:
                    cursor.execute("SHOW lock_timeout")
                    assert cursor.fetchone() == ("0",)
                return refusal.value.code
        finally:
            done.set()

    assert at_once(keeps_it, tries)[1] == "busy"
    assert Allocation.objects.count() == 0


def test_a_claim_whose_host_was_sold_while_its_statement_ran_keeps_no_host_locked(monkeypatch):
    """PostgreSQL locks such a host, finds that it no longer fits, and leaves it out: locked, but not among the rows."""
    gate = "AND (SELECT true FROM pg_advisory_xact_lock_shared(4711))"  # after the snapshot, before the lock
    gated = inventory._LOCK_BEST_HOST.replace("ORDER BY", f"{gate} ORDER BY")
    monkeypatch.setattr(inventory, "_LOCK_BEST_HOST", gated)
    pool = builders.pool()
    host = builders.host(pool)
    closed, refused, looked = Event(), Event(), Event()

    def late():
        assert closed.wait(PATIENCE)
        with transaction.atomic():
            with pytest.raises(inventory.NotEnoughCards):
                inventory.claim(pool_id=pool.pk, cards_per_unit=8, holders=[uuid4()], at=NOON)
            refused.set()
            assert looked.wait(PATIENCE)

    def quick():
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock(4711)")
                closed.set()
                wait_until_somebody_waits()
                assert buy(pool, 1)()
                cursor.execute("SELECT pg_advisory_unlock(4711)")
            assert refused.wait(PATIENCE)
            with transaction.atomic():
                return list(Host.objects.select_for_update(skip_locked=True, no_key=True))
        finally:
            looked.set()

    assert at_once(late, quick)[1] == [host]
    check_truth(pool)


def test_claims_and_releases_in_any_order_keep_the_counters_true():
    pool = builders.pool()
    for _ in range(3):
        builders.host(pool)

    def churn(seed):
        def worker():
            choose = random.Random(seed)
            mine = []
            for step in range(25):
                at = NOON + timedelta(seconds=step)
                if mine and choose.random() < 0.45:
                    with transaction.atomic():
                        assert inventory.release([mine.pop()], at) > 0
                else:
                    try:
                        with transaction.atomic():
                            placed = inventory.claim(
                                pool_id=pool.pk, cards_per_unit=choose.choice([1, 2, 4, 8]), holders=[uuid4()], at=at
                            )
                        mine.append(placed[0].holder)
                    except inventory.NotEnoughCards:
                        pass
            return mine

        return worker

    left = at_once(*(churn(seed) for seed in range(8)))

    check_truth(pool)
    with transaction.atomic():
        inventory.release([holder for mine in left for holder in mine], NOON + timedelta(hours=1))
    assert not Host.objects.filter(pool=pool).exclude(cards_free=F("cards_total")).exists()
    assert not Allocation.objects.filter(period__endswith=None).exists()
    check_truth(pool)


def test_one_unit_released_by_many_at_once_is_freed_once():
    pool = builders.pool()
    host = builders.host(pool)
    with transaction.atomic():
        [placed] = inventory.claim(pool_id=pool.pk, cards_per_unit=4, holders=[uuid4()], at=NOON)

    def leave():
        with transaction.atomic():
            return inventory.release([placed.holder], NOON + timedelta(hours=1))

    assert sorted(at_once(*[leave] * 6)) == [0, 0, 0, 0, 0, 4]
    host.refresh_from_db()
    assert host.cards_free == 8


def test_what_is_reserved_survives_a_race_over_several_hosts():
    pool = builders.pool()
    for _ in range(4):
        builders.host(pool, cards=2)
    Reservation.objects.create(pool=pool, cards=3, period=(NOON + timedelta(days=1), None), note="kept")

    results = at_once(*(buy(pool, 1) for _ in range(12)))

    assert len(cards_of(results)) == 5
    check_truth(pool)


def test_with_the_locks_off_the_race_hands_cards_out_twice_and_the_constraint_refuses(monkeypatch):
    """The control: the races above are real, and a constraint stands behind the locks."""
    unlocked = inventory._LOCK_BEST_HOST.replace("FOR NO KEY UPDATE OF h SKIP LOCKED", "")
    monkeypatch.setattr(inventory, "_LOCK_BEST_HOST", unlocked)
    monkeypatch.setattr(inventory, "_TAKE", inventory._TAKE.replace("AND g.holder IS NULL", ""))
    pool = builders.pool()
    builders.host(pool)
    both_looked = Barrier(2)
    take_from = inventory._take_from

    def together(*arguments):
        both_looked.wait(PATIENCE)
        taken = take_from(*arguments)
        wait_until_somebody_waits()  # the other one began before this one commits
        return taken

    monkeypatch.setattr(inventory, "_take_from", together)

    def careless():
        try:
            return len(buy(pool, 8)()[0].serials)
        except IntegrityError:
            return "refused by the database"

    assert sorted(map(str, at_once(careless, careless))) == ["8", "refused by the database"]
    check_truth(pool)


def wait_until_somebody_waits():
    """Poll until another session of this test's database waits for a lock."""
    for _ in range(500):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)"
                " WHERE NOT granted AND datname = current_database()"
            )
            if cursor.fetchone()[0]:
                return
        Event().wait(0.01)
    raise AssertionError("nobody waited")
