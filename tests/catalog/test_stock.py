"""Free cards and units: the list, one offer, a pool and a plain count of the cards say the same, and a claim agrees."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog import inventory, queries
from catalog.models import Gpu, Host, Offer, Pool, Reservation
from tests.catalog import builders
from tests.catalog.builders import NOON

pytestmark = pytest.mark.django_db

SIZES = (1, 2, 3, 8)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Machine:
    """A host of `cards` cards; by slot which ones are sold first and which ones break afterwards."""

    cards: int
    state: str
    sold: set[int]
    broken: set[int]


@dataclass(frozen=True)
class Promise:
    """`cards` kept from `since` days after NOON on, for `days` days or without end."""

    cards: int
    since: int
    days: int | None


SLOTS = st.sets(st.integers(0, 7), max_size=4)
POOLS = st.lists(
    st.tuples(
        st.lists(
            st.builds(
                Machine,
                cards=st.integers(1, 8),
                state=st.sampled_from(["active", "active", "active", "draining", "offline"]),
                sold=SLOTS,
                broken=SLOTS,
            ),
            max_size=4,
        ),
        st.lists(
            st.builds(
                Promise,
                cards=st.integers(1, 10),
                since=st.integers(-6, 6),
                days=st.one_of(st.none(), st.integers(1, 6)),
            ),
            max_size=3,
        ),
        st.sampled_from(["", "", "", "cooling works"]),
    ),
    min_size=3,
    max_size=3,
)


def build(machines: list[Machine], promises: list[Promise], paused: str) -> list[Offer]:
    """A pool through the actions that keep its counters, with an offer of each size."""
    pool = builders.pool()
    for machine in machines:
        host = builders.host(pool, cards=machine.cards)
        cards = list(host.gpus.order_by("slot"))
        for _sold in machine.sold & set(range(machine.cards)):
            inventory.claim(pool_id=pool.pk, cards_per_unit=1, holders=[uuid4()], at=NOON - 9 * DAY, host_id=host.pk)
        for card in cards:
            if card.slot in machine.broken:
                inventory.set_healthy(gpu_id=card.pk, healthy=False)
        Host.objects.filter(pk=host.pk).update(state=machine.state)
    for promise in promises:
        begins = NOON + promise.since * DAY
        ends = begins + promise.days * DAY if promise.days else None
        Reservation.objects.create(pool=pool, cards=promise.cards, period=(begins, ends), note="kept")
    Pool.objects.filter(pk=pool.pk).update(paused_reason=paused)
    return [builders.offer(pool, cards=size) for size in SIZES]


def counted(pool: Pool, size: int, at: datetime) -> tuple[int, int]:
    """Cards and units by going through the cards one by one and the promises at every instant one begins."""
    if pool.paused_reason:
        return 0, 0
    hosts = [
        sum(card.healthy and card.holder is None for card in Gpu.objects.filter(host=host))
        for host in Host.objects.filter(pool=pool)
        if host.state == "active"
    ]
    periods = [(one.period.lower, one.period.upper, one.cards) for one in Reservation.objects.filter(pool=pool)]
    instants = [at, *(begins for begins, _ends, _cards in periods if begins > at)]
    kept = max(
        sum(cards for begins, ends, cards in periods if begins <= moment and (ends is None or moment < ends))
        for moment in instants
    )
    left = max(sum(hosts) - kept, 0)
    return left, min(sum(free // size for free in hosts), left // size)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(pools=POOLS, hours=st.integers(-7 * 24, 7 * 24))
def test_every_way_to_ask_for_stock_gives_the_plain_count(db, pools, hours):
    at = NOON + timedelta(hours=hours)
    with transaction.atomic():
        offers = [offer for pool in pools for offer in build(*pool)]
        expected = {one.pk: counted(Pool.objects.get(pk=one.pool_id), one.cards_per_unit, at) for one in offers}

        page = queries.offers(queries.OfferFilter(), currency="CNY", at=at)
        of_model = queries.related_rows(offers[0].pk, currency="CNY", at=at)
        available = queries.offers(queries.OfferFilter(available=True), currency="CNY", at=at)
        stock = queries.stock(expected, at=at)
        alone = {one.pk: queries.free_units(one.pool_id, one.cards_per_unit, at=at) for one in offers}

        assert {row.id: (row.free_cards, row.free_units) for row in page.rows} == expected
        assert {row.id: (row.free_cards, row.free_units) for row in of_model} == expected
        assert {row.id for row in available.rows} == {pk for pk, (_cards, units) in expected.items() if units}
        assert {pk: (one.cards, one.units) for pk, one in stock.items()} == expected
        assert alone == {pk: units for pk, (_cards, units) in expected.items()}
        in_pools = {one.pool_id: expected[one.pk][0] for one in offers}
        assert queries.home_summary("CNY", at).free_cards == sum(in_pools.values())
        for offer in offers:
            check_claim(offer, expected[offer.pk][1], at)
        transaction.set_rollback(True)


def check_claim(offer: Offer, units: int, at: datetime) -> None:
    """So many units can be taken and not one more."""
    asked = {"pool_id": offer.pool_id, "cards_per_unit": offer.cards_per_unit, "at": at}
    with transaction.atomic():
        assert len(inventory.claim(holders=[uuid4() for _unit in range(units)], **asked)) == units
        with pytest.raises(inventory.NotEnoughCards):
            inventory.claim(holders=[uuid4()], **asked)
        transaction.set_rollback(True)


def test_an_offer_without_a_pool_has_no_stock():
    offer = builders.offer(builders.pool(), kind="colocation", pool=None)

    (row,) = queries.offers(queries.OfferFilter(), currency="CNY", at=NOON).rows
    assert (row.free_cards, row.free_units) == (0, 0)
    assert queries.stock([offer.pk], at=NOON) == {offer.pk: (0, 0, False)}
