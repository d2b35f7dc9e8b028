"""Usage windows: exactly the running time, to the second, cut at local midnight, the same rows however often we cut."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from django.db import IntegrityError, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marketplace.lib.money import Money
from rentals import actions, metering, queries
from rentals.models import Rental, UsageWindow
from tests.rentals.support import NOON, Shop, windows

pytestmark = pytest.mark.django_db

SHANGHAI = ZoneInfo("Asia/Shanghai")
CARD, DISK = "card_hour", "disk_gb_hour"


def shanghai(*when: int) -> datetime:
    return datetime(*when, tzinfo=SHANGHAI).astimezone(UTC)


@pytest.fixture
def rental(shop) -> Rental:
    return actions.locked(shop.rental().pk)


def meter(rental: Rental, kind: str, at: datetime) -> None:
    with transaction.atomic():
        rental = actions.locked(rental.pk)
        if kind:
            metering.open_meter(rental=rental, meter=kind, at=at)
        else:
            metering.close_meter(rental=rental, at=at)


def test_nine_fifty_nine_to_ten_oh_one_is_two_minutes(rental):
    meter(rental, CARD, shanghai(2026, 11, 30, 9, 59))
    meter(rental, "", shanghai(2026, 11, 30, 10, 1))

    assert windows(rental) == [(CARD, shanghai(2026, 11, 30, 9, 59), shanghai(2026, 11, 30, 10, 1), 120)]
    (usage,) = metering.unbilled_and_open(rental=actions.locked(rental.pk), at=NOON)
    # 2 cards × 120 s / 3600 × 2.50
    assert usage == metering.Usage(CARD, 2, Decimal("2.5"), 120, Money(17, "CNY"))


def test_a_night_is_cut_at_shanghai_midnight(rental):
    meter(rental, CARD, shanghai(2026, 11, 30, 23, 59, 50))
    meter(rental, "", shanghai(2026, 12, 1, 0, 0, 5))

    midnight = datetime(2026, 11, 30, 16, tzinfo=UTC)
    assert windows(rental) == [
        (CARD, shanghai(2026, 11, 30, 23, 59, 50), midnight, 10),
        (CARD, midnight, shanghai(2026, 12, 1, 0, 0, 5), 5),
    ]


def test_cutting_moves_the_meter_to_the_last_midnight(rental):
    start = shanghai(2026, 11, 28, 18)
    meter(rental, CARD, start)

    assert metering.cut_windows(at=shanghai(2026, 11, 30, 9)) == 2

    assert windows(rental) == [
        (CARD, start, shanghai(2026, 11, 29), 6 * 3600),
        (CARD, shanghai(2026, 11, 29), shanghai(2026, 11, 30), 24 * 3600),
    ]
    rental.refresh_from_db()
    assert (rental.meter, rental.metered_from) == (CARD, shanghai(2026, 11, 30))
    (row, _other) = UsageWindow.objects.order_by("period")
    subscription = rental.subscription
    assert (row.quantity, row.rate, row.currency) == (2, Decimal("2.5"), "CNY")
    assert (row.subscription_id, row.organization_id) == (subscription.pk, rental.organization_id)


def test_cutting_again_or_at_midnight_itself_changes_nothing(rental):
    meter(rental, CARD, shanghai(2026, 11, 28, 18))
    metering.cut_windows(at=shanghai(2026, 11, 30))
    before = windows(rental)

    assert metering.cut_windows(at=shanghai(2026, 11, 30)) == 0
    assert metering.cut_windows(at=shanghai(2026, 11, 30, 23, 59, 59)) == 0
    assert windows(rental) == before


def test_cutting_knows_each_organizations_midnight(db):
    london, shanghai_shop = Shop(zone="Europe/London"), Shop()
    for shop in (london, shanghai_shop):
        meter(shop.rental(), CARD, datetime(2026, 6, 30, 12, tzinfo=UTC))

    assert metering.cut_windows(at=datetime(2026, 6, 30, 20, tzinfo=UTC)) == 1
    assert metering.cut_windows(at=datetime(2026, 6, 30, 23, tzinfo=UTC)) == 1

    # London keeps summer time: its midnight is 23:00 UTC.
    ends = UsageWindow.objects.values_list("organization_id", "period")
    by_owner = {owner: period.upper for owner, period in ends}
    assert by_owner == {
        london.organization.pk: datetime(2026, 6, 30, 23, tzinfo=UTC),
        shanghai_shop.organization.pk: datetime(2026, 6, 30, 16, tzinfo=UTC),
    }


@pytest.mark.parametrize(("day", "hours"), [((2026, 3, 29), 23), ((2026, 10, 25), 25)])
def test_a_day_of_a_zone_with_summer_time_has_its_own_length(db, day, hours):
    zone = ZoneInfo("Europe/London")
    rental = Shop(zone="Europe/London").rental()
    start = datetime(*day, tzinfo=zone).astimezone(UTC)
    meter(rental, CARD, start)

    metering.cut_windows(at=start + timedelta(hours=26))

    assert [row[3] for row in windows(rental)] == [hours * 3600]


def test_close_through_cuts_at_the_instant_and_only_there(db):
    mine, other = Shop(), Shop()
    first, second = mine.rental(), other.rental()
    for rental in (first, second):
        meter(rental, CARD, shanghai(2026, 11, 30, 18))

    assert metering.close_through(organization_id=mine.organization.pk, until=shanghai(2026, 12, 1)) == 1
    assert metering.close_through(organization_id=mine.organization.pk, until=shanghai(2026, 12, 1)) == 0

    assert windows(first) == [(CARD, shanghai(2026, 11, 30, 18), shanghai(2026, 12, 1), 6 * 3600)]
    assert windows(second) == []


def test_parts_of_a_second_are_cut_off_at_both_ends(rental):
    meter(rental, CARD, NOON + timedelta(milliseconds=900))
    meter(rental, DISK, NOON + timedelta(seconds=10, milliseconds=100))
    meter(rental, "", NOON + timedelta(seconds=12, milliseconds=999))

    assert windows(rental) == [
        (CARD, NOON, NOON + timedelta(seconds=10), 10),
        (DISK, NOON + timedelta(seconds=10), NOON + timedelta(seconds=12), 2),
    ]


def test_less_than_a_second_leaves_no_window(rental):
    meter(rental, CARD, NOON)
    meter(rental, "", NOON + timedelta(milliseconds=400))

    assert windows(rental) == []


def test_a_disk_that_costs_nothing_is_not_metered(db):
    rental = Shop(disk="0").rental()
    meter(rental, CARD, NOON)
    meter(rental, DISK, NOON + timedelta(minutes=1))

    rental.refresh_from_db()
    assert (rental.meter, rental.metered_from) == ("", None)
    assert windows(rental) == [(CARD, NOON, NOON + timedelta(minutes=1), 60)]


def test_a_prepaid_term_is_not_metered(shop):
    rental = shop.rental(term="month")
    meter(rental, CARD, NOON)

    rental.refresh_from_db()
    assert rental.meter == ""


def test_the_database_refuses_overlapping_windows(rental):
    meter(rental, CARD, NOON)
    meter(rental, "", NOON + timedelta(hours=1))
    facts = UsageWindow.objects.values().get()
    del facts["id"], facts["key"]
    facts["period"] = DateTimeTZRange(NOON + timedelta(minutes=59), NOON + timedelta(hours=2))

    with pytest.raises(IntegrityError), transaction.atomic():
        UsageWindow.objects.create(**facts)

    assert UsageWindow.objects.count() == 1


def test_so_far_counts_windows_and_the_open_part_by_meter(rental):
    meter(rental, CARD, NOON)
    meter(rental, DISK, NOON + timedelta(hours=2))
    metering.cut_windows(at=NOON + timedelta(days=1))

    used = metering.unbilled_and_open(rental=actions.locked(rental.pk), at=NOON + timedelta(hours=26))

    assert [(one.meter, one.quantity, one.seconds, one.amount) for one in used] == [
        (CARD, 2, 7200, Money(1000, "CNY")),  # 2 cards × 2 h × 2.50
        (DISK, 100, 86400, Money(120, "CNY")),  # 100 GB × 24 h × 0.0005
    ]


def test_burn_is_what_open_meters_cost_in_an_hour(db):
    shop = Shop()
    first, second, _quiet = shop.rental(), shop.rental(), shop.rental()
    meter(first, CARD, NOON)
    meter(second, DISK, NOON)

    # 2 × 2.50 + 100 × 0.0005
    assert queries.burn_per_hour(shop.organization.pk) == Money(505, "CNY")


MOMENTS = st.lists(
    st.tuples(
        st.integers(min_value=0, max_value=5 * 86_400 * 1000),  # milliseconds after NOON
        st.sampled_from([CARD, DISK, "", "cut", "cut", "cut"]),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(moments=MOMENTS)
def test_windows_are_the_running_time_whatever_happens(shop, moments):
    with transaction.atomic():
        rental = shop.rental() if not Rental.objects.exists() else Rental.objects.get()
        _live_through(rental, sorted(moments))
        transaction.set_rollback(True)


def _live_through(rental: Rental, moments: list[tuple[int, str]]) -> None:
    """Opens, closes and cuts in order of time; a model beside it keeps the spans that must come out."""
    spans: list[tuple[str, datetime, datetime]] = []
    kind, since = "", NOON
    for milliseconds, what in [*moments, (6 * 86_400 * 1000, "")]:
        at = NOON + timedelta(milliseconds=milliseconds)
        if what == "cut":
            metering.cut_windows(at=at)
            metering.cut_windows(at=at)
            continue
        whole = at.replace(microsecond=0)
        if kind and since < whole:
            spans.append((kind, since, whole))
        meter(rental, what, at)
        kind, since = what, whole
    rows = windows(rental)
    for kind in (CARD, DISK):
        assert sum(row[3] for row in rows if row[0] == kind) == sum(
            int((end - start).total_seconds()) for meter, start, end in spans if meter == kind
        )
    assert _joined([row[:3] for row in rows]) == _joined(spans)
    for _kind, start, end, seconds in rows:
        assert seconds == (end - start).total_seconds()
        last = end - timedelta(microseconds=1)
        assert start.astimezone(SHANGHAI).date() == last.astimezone(SHANGHAI).date()


def _joined(spans: list[tuple[str, datetime, datetime]]) -> list[tuple[str, datetime, datetime]]:
    """Touching spans of one meter as one: the same union, whatever the cuts."""
    joined: list[tuple[str, datetime, datetime]] = []
    for kind, start, end in sorted(spans, key=lambda span: span[1]):
        if joined and joined[-1][0] == kind and joined[-1][2] == start:
            joined[-1] = (kind, joined[-1][1], end)
        else:
            assert not joined or joined[-1][2] <= start, "windows overlap"
            joined.append((kind, start, end))
    return joined


# --- a cut that ran ahead --------------------------------------------------------------------------------------------
# `run_billing --at` may close a month that has not ended, two clocks may differ by a second, and a customer may wait
# for the lock of a cut: the meter then stands later than the instant that ends or turns it.


def net_seconds(rental: Rental, kind: str) -> int:
    rows = UsageWindow.objects.filter(rental=rental, meter=kind)
    return sum(-row.seconds if row.reverses_id else row.seconds for row in rows)


@pytest.mark.parametrize("ahead", [timedelta(seconds=1), timedelta(days=40)])
@pytest.mark.parametrize("then", [CARD, DISK, ""])
def test_a_meter_turned_before_the_last_cut_takes_the_rest_back_and_never_overlaps(rental, then, ahead):
    turned = shanghai(2026, 11, 30, 23, 59, 59)
    meter(rental, CARD, shanghai(2026, 11, 30, 23))
    metering.cut_windows(at=turned + ahead)

    meter(rental, then, turned)
    meter(rental, "", shanghai(2027, 2, 1, 12))

    used = net_seconds(rental, CARD)
    cut_to = shanghai(2026, 12, 1) if ahead < timedelta(days=1) else shanghai(2027, 1, 9)
    after = int((shanghai(2027, 2, 1, 12) - cut_to).total_seconds())
    assert used == 3599 + (after if then == CARD else 0)
    assert net_seconds(rental, DISK) == (after if then == DISK else 0)


def test_turning_it_again_takes_nothing_back_twice(rental):
    meter(rental, CARD, shanghai(2026, 11, 30, 12))
    metering.cut_windows(at=shanghai(2026, 12, 31))

    for minute, kind in enumerate([DISK, CARD, "", CARD, DISK, ""]):
        meter(rental, kind, shanghai(2026, 11, 30, 13, minute))

    assert (net_seconds(rental, CARD), net_seconds(rental, DISK)) == (3600, 0)
    (usage,) = metering.unbilled_and_open(rental=actions.locked(rental.pk), at=shanghai(2026, 11, 30, 14))
    assert (usage.seconds, usage.amount) == (3600, Money(500, "CNY"))


def test_a_rental_that_was_turned_before_a_cut_holds_up_no_other_cut(db):
    first, second = Shop().rental(), Shop().rental()
    for rental in (first, second):
        meter(rental, CARD, shanghai(2026, 11, 30, 12))
    metering.close_through(organization_id=first.organization_id, until=shanghai(2026, 12, 2))
    meter(first, DISK, shanghai(2026, 11, 30, 13))

    metering.cut_windows(at=shanghai(2026, 12, 3))

    assert (net_seconds(first, CARD), net_seconds(first, DISK)) == (3600, 24 * 3600)
    assert net_seconds(second, CARD) == 60 * 3600


def test_a_clock_that_goes_backwards_loses_and_doubles_nothing(rental):
    meter(rental, CARD, NOON + timedelta(seconds=2))
    meter(rental, DISK, NOON)
    meter(rental, "", NOON + timedelta(seconds=1))
    meter(rental, CARD, NOON)
    meter(rental, "", NOON + timedelta(seconds=10))

    rows = windows(rental)
    assert [(row[1], row[2]) for row in rows] == sorted((row[1], row[2]) for row in rows)
    assert net_seconds(rental, CARD) + net_seconds(rental, DISK) <= 10
