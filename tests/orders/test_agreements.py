"""Tiers, commitments, packs and services: golden values from the rules, and what the database holds."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError, InternalError, transaction
from hypothesis import given
from hypothesis import strategies as st

from marketplace.lib import clock
from orders import actions, agreements, pricing
from orders.models import Commitment, Order, Pack, PackDraw, VolumeTier
from orders.pricing import Draw, PackLeft, Piece, Tier, Use
from tests.factories import NOON

ZONE = "Asia/Shanghai"
HOUR = 3600


def day(text: str) -> datetime:
    return clock.local_midnight(date.fromisoformat(text), ZONE)


# --- tiers -----------------------------------------------------------------------------------------------------------
TIERS = (Tier(1000, Decimal(5)), Tier(5000, Decimal(10)))


@pytest.mark.parametrize(
    ("pieces", "used_before", "off"),
    [
        # (card-hours, amount): only what lies beyond a threshold is cheaper.
        ([(1000, 1_000_000)], 0, [0]),
        ([(2000, 2_000_000)], 0, [50_000]),
        ([(6000, 6_000_000)], 0, [4000 * 50 + 1000 * 100]),
        ([(500, 500_000), (1000, 3_000_000)], 0, [0, 75_000]),  # half of the second, at its own rate
        ([(1000, 1_000_000)], 5000, [100_000]),
        ([(2000, 2_000_000), (-2000, -2_000_000)], 0, [50_000, -50_000]),
        ([(0, 0)], 9000, [0]),
    ],
)
def test_what_lies_beyond_a_threshold_is_cheaper(pieces, used_before, off):
    made = [Piece(hours * HOUR, amount) for hours, amount in pieces]

    assert pricing.tier_discount(made, tiers=TIERS, used_before=used_before * HOUR) == off


def test_without_tiers_nothing_is_taken_off():
    assert pricing.tier_discount([Piece(9000 * HOUR, 9_000_000)], tiers=()) == [0]


@given(st.lists(st.tuples(st.integers(1, 10**7), st.integers(0, 10**9)), max_size=6), st.integers(0, 10**8))
def test_a_discount_is_never_below_nothing_nor_above_the_highest_rate(pieces, used_before):
    made = [Piece(seconds, amount) for seconds, amount in pieces]

    off = pricing.tier_discount(made, tiers=TIERS, used_before=used_before)

    assert all(0 <= less <= -(-piece.amount_minor // 10) for less, piece in zip(off, made, strict=True))


@pytest.mark.django_db
def test_an_organization_with_tiers_of_its_own_has_only_those(shop):
    rows = [(None, "training", 1000, 5), (None, "consumer", 500, 3), (shop.organization, "training", 100, 20)]
    for organization, name, hours, percent in rows:
        VolumeTier.objects.create(
            organization=organization, gpu_class=name, from_card_hours=hours, discount_percent=percent, valid_from=NOON
        )

    assert agreements.tiers_of(shop.organization.pk, start=NOON) == {
        "training": (Tier(100, Decimal(20)),),
        "consumer": (Tier(500, Decimal(3)),),
    }
    assert agreements.tiers_of(shop.organization.pk, start=NOON - timedelta(seconds=1)) == {}


@pytest.mark.django_db
def test_two_tiers_of_one_threshold_cannot_hold_at_once(shop):
    same = {"gpu_class": "training", "from_card_hours": 1000, "discount_percent": 5}
    VolumeTier.objects.create(valid_from=NOON, **same)

    with pytest.raises(IntegrityError), transaction.atomic():
        VolumeTier.objects.create(valid_from=NOON + timedelta(days=1), **same)
    VolumeTier.objects.create(organization=shop.organization, valid_from=NOON, **same)


@pytest.mark.django_db
def test_a_tier_that_began_keeps_its_figures():
    began = datetime(2020, 1, 1, tzinfo=UTC)
    tier = VolumeTier.objects.create(gpu_class="training", from_card_hours=1000, discount_percent=5, valid_from=began)

    with pytest.raises(InternalError), transaction.atomic():
        VolumeTier.objects.update(discount_percent=50)
    with pytest.raises(InternalError), transaction.atomic():
        tier.delete()
    VolumeTier.objects.update(valid_to=NOON)

    tier.refresh_from_db()
    assert (tier.discount_percent, tier.valid_to) == (Decimal(5), NOON)


# --- commitments -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("committed", "billed", "more"),
    [(100_000, 0, 100_000), (100_000, 99_999, 1), (100_000, 100_000, 0), (100_000, 250_000, 0), (100_000, -5, 100_000)],
)
def test_a_month_is_made_up_to_what_was_committed(committed, billed, more):
    assert pricing.true_up(committed_minor=committed, billed_minor=billed) == more


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("begins", "ends", "committed"),
    [
        ("2026-11-01", None, 310_000),
        ("2026-12-17", None, 150_000),  # 15 of 31 days
        ("2026-11-01", "2026-12-11", 100_000),  # 10 of 31 days
        ("2027-01-01", None, None),
        ("2026-11-01", "2026-12-01", None),
    ],
)
def test_the_first_and_last_month_count_their_share(shop, begins, ends, committed):
    Commitment.objects.create(
        organization=shop.organization,
        currency="CNY",
        amount_minor=310_000,
        tax_percent=6,
        tax_code="3040203000000000000",
        valid_from=day(begins),
        valid_to=day(ends) if ends else None,
    )

    due = agreements.commitments_of(shop.organization.pk, start=day("2026-12-01"), end=day("2027-01-01"))

    assert [one.committed_minor for one in due] == ([] if committed is None else [committed])


@pytest.mark.django_db
def test_it_begins_half_past_midnight_on_the_first_without_losing_the_month(shop):
    """lago-api pulls 1246 and 1117: the local day is not that of UTC."""
    Commitment.objects.create(
        organization=shop.organization,
        currency="CNY",
        amount_minor=744_000,
        tax_percent=6,
        tax_code="3040203000000000000",
        valid_from=day("2026-12-01") + timedelta(minutes=30),
    )

    (due,) = agreements.commitments_of(shop.organization.pk, start=day("2026-12-01"), end=day("2027-01-01"))

    assert due.committed_minor == 743_500  # 743.5 of 744 hours


# --- packs -----------------------------------------------------------------------------------------------------------
def pack(pack_id: int, hours: int, begins: str, ends: str, name: str = "training") -> PackLeft:
    return PackLeft(pack_id, name, hours * HOUR, day(begins), day(ends))


def use(fact: str, hours: int, on: str, name: str = "training") -> Use:
    return Use(fact, name, hours * HOUR, day(on), day(on) + timedelta(days=1))


def test_the_oldest_pack_pays_first_and_no_more_than_it_has():
    packs = [pack(2, 50, "2026-11-15", "2027-11-15"), pack(1, 10, "2026-11-01", "2027-11-01")]

    draws = pricing.draw_down(packs, [use("a", 8, "2026-12-01"), use("b", 8, "2026-12-02")])

    assert draws == [Draw(1, "a", 8 * HOUR), Draw(1, "b", 2 * HOUR), Draw(2, "b", 6 * HOUR)]


@pytest.mark.parametrize(
    ("held", "used"),
    [
        (pack(1, 10, "2026-11-01", "2026-12-01"), use("a", 8, "2026-12-01")),  # expired
        (pack(1, 10, "2026-12-02", "2027-12-01"), use("a", 8, "2026-12-01")),  # not yet begun
        (pack(1, 10, "2026-11-01", "2027-11-01", "flagship"), use("a", 8, "2026-12-01")),  # another class
        (pack(1, 0, "2026-11-01", "2027-11-01"), use("a", 8, "2026-12-01")),
    ],
)
def test_what_a_pack_does_not_pay_for(held, used):
    assert pricing.draw_down([held], [used]) == []


def test_what_packs_paid_is_taken_off_in_proportion():
    assert pricing.covered(1001, card_seconds=2 * HOUR, paid_by_packs=HOUR) == 501
    assert pricing.covered(1001, card_seconds=2 * HOUR, paid_by_packs=2 * HOUR) == 1001
    assert pricing.covered(0, card_seconds=0, paid_by_packs=0) == 0


def bought(shop, *, hours: int = 100, key: str = "pack-1") -> Pack:
    order = actions.sell_pack(
        organization=shop.organization,
        project=shop.project,
        actor=shop.owner,
        request_key=key,
        gpu_class="consumer",
        card_hours=hours,
        price_minor=20_000,
        months=6,
        at=NOON,
    )
    actions.confirm(order_id=order.pk, at=NOON + timedelta(hours=1))
    return Pack.objects.get(order=order)


@pytest.mark.django_db
def test_a_pack_can_be_used_from_its_payment_for_its_months(shop):
    made = bought(shop)

    assert (made.order.kind, made.order.status, made.order.total_minor) == ("pack", "active", 20_000)
    assert (made.starts_at, made.expires_at) == (NOON + timedelta(hours=1), day("2027-05-31"))
    assert agreements.packs_of(shop.organization.pk, start=NOON, end=day("2027-01-01")) == [
        PackLeft(made.pk, "consumer", 100 * HOUR, made.starts_at, made.expires_at)
    ]


@pytest.mark.django_db
def test_a_pack_is_sold_once(shop):
    bought(shop)
    bought(shop)

    assert (Order.objects.count(), Pack.objects.count()) == (1, 1)


@pytest.mark.django_db
def test_a_draw_counts_once_and_can_be_given_back_once(shop):
    made = bought(shop)
    draws = [Draw(made.pk, "window:1", 30 * HOUR), Draw(made.pk, "window:2", 20 * HOUR)]

    assert actions.draw_from_packs(draws=draws, at=NOON) == 50 * HOUR
    assert actions.draw_from_packs(draws=draws, at=NOON) == 0
    made.refresh_from_db()
    assert made.left_seconds == 50 * HOUR

    assert actions.give_back_to_packs(facts=["window:1"], at=NOON) == 30 * HOUR
    assert actions.give_back_to_packs(facts=["window:1"], at=NOON) == 0
    made.refresh_from_db()
    assert made.left_seconds == 80 * HOUR
    assert sum(draw.card_seconds for draw in PackDraw.objects.all()) == made.used_seconds


@pytest.mark.django_db
def test_the_database_lets_no_pack_be_overdrawn(shop):
    made = bought(shop)

    with pytest.raises(IntegrityError, match="pack_used_within_bought"), transaction.atomic():
        actions.draw_from_packs(draws=[Draw(made.pk, "window:1", 101 * HOUR)], at=NOON)

    assert PackDraw.objects.count() == 0


# --- services --------------------------------------------------------------------------------------------------------
def service(shop, **changes):
    fields = {
        "title_zh": "机柜托管",
        "title_en": "Colocation of a rack",
        "interval": "month",
        "quantity": Decimal("1.5"),
        "rate": Decimal("6200"),
        "starts_on": date(2027, 1, 31),
    } | changes
    return actions.add_service(
        organization=shop.organization, project=shop.project, actor=shop.owner, at=NOON, **fields
    )


def charged(shop, until: str) -> list[tuple[str, int]]:
    due = agreements.service_charges_due(shop.organization.pk, until=day(until))
    return [(clock.local_date(one.period_start, ZONE).isoformat(), one.amount_minor) for one in due]


@pytest.mark.django_db
def test_a_service_is_charged_on_its_anchor_day(shop):
    service(shop)

    assert charged(shop, "2027-04-30") == [("2027-01-31", 930_000), ("2027-02-28", 930_000), ("2027-03-31", 930_000)]
    assert charged(shop, "2027-01-31") == []


@pytest.mark.django_db
def test_a_charge_is_named_by_its_service_and_day(shop):
    made = service(shop)

    one, two = agreements.service_charges_due(shop.organization.pk, until=day("2027-03-01"))

    assert (one.fact, two.fact) == (f"service:{made.key}:2027-01-31", f"service:{made.key}:2027-02-28")
    assert (one.period_end, two.period_start) == (day("2027-02-28"), day("2027-02-28"))
    assert one.tax_minor == 52_642  # 930,000 × 6 / 106


@pytest.mark.django_db
def test_two_charges_on_one_day_are_two_charges(shop):
    """flexprice pull 2336: a key of the period alone blocked the second."""
    service(shop), service(shop)

    facts = {one.fact for one in agreements.service_charges_due(shop.organization.pk, until=day("2027-02-01"))}

    assert len(facts) == 2


@pytest.mark.django_db
def test_a_milestone_is_charged_once(shop):
    service(shop, interval="once", quantity=Decimal(1), rate=Decimal("80000"))

    assert charged(shop, "2029-01-01") == [("2027-01-31", 8_000_000)]


@pytest.mark.django_db
def test_a_year_from_29_february(shop):
    service(shop, interval="year", starts_on=date(2028, 2, 29), quantity=Decimal(1), rate=Decimal("1200"))

    assert [on for on, _amount in charged(shop, "2032-03-01")] == [
        "2028-02-29", "2029-02-28", "2030-02-28", "2031-02-28", "2032-02-29",
    ]  # fmt: skip


@pytest.mark.django_db
def test_the_last_period_is_charged_its_share_of_the_whole_anchor_period(shop):
    made = service(shop, quantity=Decimal(1), rate=Decimal("3100"))

    actions.end_service(service_id=made.pk, ends_on=date(2027, 4, 15), at=day("2027-02-10"))

    # From 31 March to 15 April are 15 of its 30 days.
    assert charged(shop, "2028-01-01") == [("2027-01-31", 310_000), ("2027-02-28", 310_000), ("2027-03-31", 155_000)]


@pytest.mark.django_db
def test_a_period_that_has_begun_stays_whole(shop):
    made = service(shop)

    with pytest.raises(actions.AgreementRefused, match="2027-02-28"):
        actions.end_service(service_id=made.pk, ends_on=date(2027, 2, 15), at=day("2027-02-10"))

    made.refresh_from_db()
    assert made.ends_on is None
    actions.end_service(service_id=made.pk, ends_on=date(2027, 2, 28), at=day("2027-02-10"))
    assert charged(shop, "2028-01-01") == [("2027-01-31", 930_000)]


@pytest.mark.django_db
def test_nothing_but_its_end_changes(shop):
    made = service(shop)

    with pytest.raises(InternalError), transaction.atomic():
        type(made).objects.update(rate=1)
