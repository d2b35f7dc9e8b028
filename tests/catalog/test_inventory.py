"""What a claim and a release promise, one at a time; tests/concurrency has the races."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction

from catalog import inventory
from catalog.models import Allocation, Gpu, Host, Reservation
from tests.catalog import builders
from tests.catalog.builders import NOON

LATER = NOON + timedelta(hours=2)

pytestmark = pytest.mark.django_db


def claim(pool, cards=1, units=1, **more):
    holders = [uuid4() for _ in range(units)]
    with transaction.atomic():
        return inventory.claim(pool_id=pool.pk, cards_per_unit=cards, holders=holders, **({"at": NOON} | more))


def facts():
    return (
        list(Host.objects.order_by("pk").values_list("cards_free", flat=True)),
        list(Gpu.objects.order_by("pk").values_list("holder", flat=True)),
        Allocation.objects.count(),
    )


def test_a_unit_lies_on_one_host_and_its_cards_are_written_down():
    pool = builders.pool()
    host = builders.host(pool)

    [placed] = claim(pool, cards=2)

    assert placed == inventory.Placement(placed.holder, host.pk, host.name, (f"{host.name}-0", f"{host.name}-1"))
    assert inventory.placements([placed.holder]) == {placed.holder: placed}
    host.refresh_from_db()
    assert host.cards_free == 6
    periods = Allocation.objects.order_by("gpu__slot").values_list("gpu__serial", "period", "holder")
    assert [(serial, p.lower, p.upper, holder) for serial, p, holder in periods] == [
        (f"{host.name}-0", NOON, None, placed.holder),
        (f"{host.name}-1", NOON, None, placed.holder),
    ]


def test_the_fullest_host_that_fits_is_taken_so_that_whole_hosts_stay_whole():
    pool = builders.pool()
    whole, used = builders.host(pool), builders.host(pool)
    claim(pool, cards=4, host_id=used.pk)

    assert [claim(pool, cards=2)[0].host_id for _ in range(3)] == [used.pk, used.pk, whole.pk]


def test_eight_free_cards_on_two_hosts_are_no_whole_server():
    pool = builders.pool()
    for _ in range(2):
        claim(pool, cards=4, host_id=builders.host(pool).pk)
    before = facts()

    with pytest.raises(inventory.NotEnoughCards) as refusal:
        claim(pool, cards=8)

    assert (refusal.value.wanted, refusal.value.free_units, refusal.value.code) == (1, 0, "sold_out")
    assert facts() == before


def test_several_units_are_all_or_none_and_come_in_holder_order():
    pool = builders.pool()
    builders.host(pool)
    builders.host(pool, cards=4)
    before = facts()

    with transaction.atomic():
        with pytest.raises(inventory.NotEnoughCards) as refusal:
            inventory.claim(pool_id=pool.pk, cards_per_unit=4, holders=[uuid4() for _ in range(4)], at=NOON)
        assert facts() == before
    assert (refusal.value.wanted, refusal.value.free_units) == (4, 3)

    holders = [uuid4() for _ in range(3)]
    placed = inventory.claim(pool_id=pool.pk, cards_per_unit=4, holders=holders, at=NOON)
    assert [unit.holder for unit in placed] == holders
    assert [len(unit.serials) for unit in placed] == [4, 4, 4]
    assert len({serial for unit in placed for serial in unit.serials}) == 12


@pytest.mark.parametrize("state", ["draining", "offline"])
def test_only_active_hosts_are_sold(state):
    pool = builders.pool()
    builders.host(pool, state=state)

    with pytest.raises(inventory.NotEnoughCards):
        claim(pool)


def test_a_paused_pool_is_not_sold():
    pool = builders.pool(paused_reason="cooling works")
    builders.host(pool)

    with pytest.raises(inventory.NotEnoughCards):
        claim(pool)


def test_a_card_out_of_order_is_never_handed_out():
    pool = builders.pool()
    host = builders.host(pool, cards=2)
    bad = host.gpus.get(slot=0)

    assert inventory.set_healthy(gpu_id=bad.pk, healthy=False)
    assert not inventory.set_healthy(gpu_id=bad.pk, healthy=False)

    [placed] = claim(pool)
    assert placed.serials == (f"{host.name}-1",)
    with pytest.raises(inventory.NotEnoughCards):
        claim(pool)
    assert inventory.set_healthy(gpu_id=bad.pk, healthy=True)
    host.refresh_from_db()
    assert host.cards_free == 1


def test_a_card_that_fails_while_rented_is_not_free_after_its_release():
    pool = builders.pool()
    host = builders.host(pool, cards=1)
    [placed] = claim(pool)
    inventory.set_healthy(gpu_id=host.gpus.get().pk, healthy=False)

    assert inventory.release([placed.holder], LATER) == 1

    host.refresh_from_db()
    assert (host.cards_free, host.gpus.get().holder) == (0, None)


def test_a_host_whose_counter_promises_too_much_is_passed_over():
    pool = builders.pool()
    lying, honest = builders.host(pool, cards=1), builders.host(pool, cards=2)
    lying.gpus.update(healthy=False)

    assert claim(pool)[0].host_id == honest.pk


def test_a_named_host_is_taken_or_nothing():
    pool = builders.pool()
    host, other = builders.host(pool, cards=1), builders.host(pool, cards=1)

    assert claim(pool, host_id=other.pk)[0].host_id == other.pk
    with pytest.raises(inventory.NotEnoughCards) as refusal:
        claim(pool, host_id=other.pk)
    assert refusal.value.free_units == 0
    host.refresh_from_db()
    assert host.cards_free == 1


def test_release_frees_the_cards_ends_the_history_and_may_be_repeated():
    pool = builders.pool()
    host = builders.host(pool, state="active")
    [placed] = claim(pool, cards=4)
    Host.objects.update(state="draining")

    assert inventory.release([placed.holder, uuid4()], LATER) == 4
    assert inventory.release([placed.holder], LATER + timedelta(hours=1)) == 0

    host.refresh_from_db()
    assert host.cards_free == 8
    assert inventory.placements([placed.holder]) == {}
    assert {(a.period.lower, a.period.upper) for a in Allocation.objects.all()} == {(NOON, LATER)}


def test_a_release_at_the_instant_of_the_claim_keeps_its_row_and_the_card_sells_on():
    pool = builders.pool()
    builders.host(pool, cards=1)
    [first] = claim(pool)
    inventory.release([first.holder], NOON)

    [second] = claim(pool)

    moment = NOON + timedelta(microseconds=1)
    periods = Allocation.objects.order_by("pk").values_list("holder", "period")
    assert [(h, p.lower, p.upper) for h, p in periods] == [
        (first.holder, NOON, moment),
        (second.holder, moment, None),
    ]


def test_a_claim_whose_instant_was_read_before_the_release_begins_where_that_ended():
    pool = builders.pool()
    builders.host(pool, cards=1)
    [first] = claim(pool)
    inventory.release([first.holder], LATER)

    [second] = claim(pool, at=NOON + timedelta(hours=1))

    assert Allocation.objects.get(holder=second.holder).period.lower == LATER


def test_reserved_cards_are_not_sold_into_their_range():
    pool = builders.pool()
    builders.host(pool)
    start = NOON + timedelta(days=10)
    Reservation.objects.create(pool=pool, cards=6, period=(start, start + timedelta(days=5)), note="training run")
    # The day after: six and six are never promised at once, so the peak stays six.
    Reservation.objects.create(pool=pool, cards=6, period=(start + timedelta(days=5), None), note="next")

    with pytest.raises(inventory.NotEnoughCards) as refusal:
        claim(pool, cards=4)
    assert refusal.value.free_units == 0
    assert len(claim(pool, cards=2)) == 1
    with pytest.raises(inventory.NotEnoughCards):
        claim(pool)
    # Ends before the reservation begins, so it may use what is kept for it.
    assert len(claim(pool, cards=4, until=start)) == 1


def test_cards_change_hands_only_inside_a_transaction(transactional_db):
    pool = builders.pool()
    builders.host(pool)

    with pytest.raises(transaction.TransactionManagementError):
        inventory.claim(pool_id=pool.pk, cards_per_unit=1, holders=[uuid4()], at=NOON)
    with pytest.raises(transaction.TransactionManagementError):
        inventory.release([uuid4()], NOON)
