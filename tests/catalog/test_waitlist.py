"""Waiting for what is sold out: one entry an organization, told in order, and no unit announced to two at once."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from accounts.models import Delivery, Membership, Notification
from catalog import inventory, waitlist
from catalog.models import Gpu, Reservation, Waitlist
from tests import factories
from tests.factories import NOON
from tests.support.threads import outcomes

TURN = timedelta(minutes=30)


@pytest.fixture(autouse=True)
def rules(settings):
    settings.WAITLIST_TURN_MINUTES = 30


def sold_out(cards=1, hosts=1, kept=()):
    """An offer whose hosts' cards are all taken but those of `kept` (cards by host)."""
    pool = factories.pool(hosts=hosts)
    offer = factories.offer(pool, cards=cards)
    for host, free in zip(pool.hosts.order_by("pk"), (*kept, *[0] * hosts), strict=False):
        take(offer, host, 8 - free)
    return offer


def take(offer, host, cards):
    holder = uuid4()
    if cards:
        with transaction.atomic():
            inventory.claim(
                pool_id=offer.pool_id,
                cards_per_unit=cards,
                holders=[holder],
                at=NOON,
                host_id=host.pk if host else None,
            )
    return holder


def free(offer, cards):
    """As many cards as come back on the offer's first host."""
    host = offer.pool.hosts.order_by("pk").first()
    gpus = host.gpus.filter(holder__isnull=False).order_by("slot")[:cards]
    holder = uuid4()
    Gpu.objects.filter(pk__in=[gpu.pk for gpu in gpus]).update(holder=holder)
    with transaction.atomic():
        inventory.release([holder], NOON)


def join(offer, organization=None, units=1, at=NOON):
    organization = organization or factories.organization()
    user = organization.memberships.first().user
    return waitlist.join(offer=offer, organization=organization, user=user, units=units, at=at)


def told():
    return list(Notification.objects.order_by("pk").values_list("organization", flat=True))


@pytest.mark.django_db
def test_joining_twice_keeps_one_entry_and_its_place_and_takes_the_new_number():
    offer, organization = sold_out(), factories.organization()
    first = join(offer, organization)

    again = join(offer, organization, units=3, at=NOON + TURN)

    entry = Waitlist.objects.get()
    assert (first.pk, again.pk, again.units) == (entry.pk, entry.pk, 3)
    assert (entry.units, entry.created_at) == (3, NOON)


@pytest.mark.django_db
def test_what_is_free_is_not_waited_for():
    offer = sold_out(kept=(2,))
    with pytest.raises(waitlist.FreeNow):
        join(offer, units=2)
    assert join(offer, units=3).units == 3
    assert Waitlist.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("change", [{"quote_only": True}, {"enabled": False}])
def test_what_is_not_sold_from_stock_has_no_waitlist(change):
    offer = sold_out()
    for name, value in change.items():
        setattr(offer, name, value)
    with pytest.raises(waitlist.NothingToWaitFor):
        join(offer)
    with pytest.raises(waitlist.WaitlistRefused):
        join(sold_out(), units=0)
    assert not Waitlist.objects.exists()


@pytest.mark.django_db
def test_leaving_is_for_the_own_entry_and_once():
    offer, organization = sold_out(), factories.organization()
    entry = join(offer, organization)

    assert not waitlist.leave(key=entry.key, organization=factories.organization(), at=NOON)
    assert waitlist.leave(key=entry.key, organization=organization, at=NOON)
    assert not waitlist.leave(key=entry.key, organization=organization, at=NOON + TURN)

    entry.refresh_from_db()
    assert entry.left_at == NOON
    assert join(offer, organization, at=NOON + TURN).pk != entry.pk


@pytest.mark.django_db
def test_the_earliest_are_told_of_as_many_units_as_are_free_and_the_next_when_their_turn_is_over():
    offer = sold_out()
    entries = [join(offer, at=NOON + timedelta(seconds=n)) for n in range(3)]
    assert waitlist.notify_waitlist(at=NOON + TURN) == 0
    free(offer, 2)
    at = NOON + TURN

    assert [waitlist.notify_waitlist(at=at), waitlist.notify_waitlist(at=at)] == [2, 0]

    assert told() == [entries[0].organization_id, entries[1].organization_id]
    assert list(Waitlist.objects.values_list("notified_at", flat=True)) == [at, at, None]
    assert waitlist.notify_waitlist(at=at + TURN - timedelta(seconds=1)) == 0
    # Nobody came: what is still free is announced to the next.
    assert waitlist.notify_waitlist(at=at + TURN) == 1
    assert told()[2:] == [entries[2].organization_id]
    notice = Notification.objects.first()
    assert (notice.kind, notice.page, notice.page_args) == ("waitlist_free", "catalog:offer", [offer.slug])
    assert notice.params == {"offer": offer.title}
    assert Delivery.objects.count() == 3


@pytest.mark.django_db
def test_whoever_wants_more_than_is_free_is_passed_over_and_keeps_the_place():
    offer = sold_out()
    large, small = join(offer, units=3), join(offer, at=NOON + timedelta(seconds=1))
    free(offer, 2)

    assert waitlist.notify_waitlist(at=NOON + TURN) == 1
    assert told() == [small.organization_id]
    free(offer, 2)
    assert waitlist.notify_waitlist(at=NOON + 2 * TURN) == 1
    assert told() == [small.organization_id, large.organization_id]


@pytest.mark.django_db
def test_sizes_that_share_hosts_share_what_is_announced():
    small = sold_out()
    large = factories.offer(small.pool, cards=8)
    whole, one = join(large), join(small, at=NOON + timedelta(seconds=1))
    free(small, 8)

    assert waitlist.notify_waitlist(at=NOON + TURN) == 1
    assert told() == [whole.organization_id]
    one.refresh_from_db()
    assert one.notified_at is None


@pytest.mark.django_db
def test_units_lie_on_one_host():
    offer = sold_out(cards=4, hosts=2, kept=(3, 3))
    join(offer)
    assert waitlist.notify_waitlist(at=NOON) == 0
    free(offer, 1)
    assert waitlist.notify_waitlist(at=NOON) == 1


@pytest.mark.django_db
def test_nothing_is_announced_of_a_paused_pool_or_what_is_reserved_or_an_offer_that_is_off():
    offer = sold_out()
    join(offer)
    free(offer, 1)
    reserved = Reservation.objects.create(
        pool=offer.pool, cards=1, note="x", period=DateTimeTZRange(NOON + TURN, NOON + 2 * TURN)
    )
    assert waitlist.notify_waitlist(at=NOON) == 0
    reserved.delete()
    type(offer.pool).objects.update(paused_reason="broken")
    assert waitlist.notify_waitlist(at=NOON) == 0
    type(offer.pool).objects.update(paused_reason="")
    type(offer).objects.update(enabled=False)
    assert waitlist.notify_waitlist(at=NOON) == 0
    type(offer).objects.update(enabled=True)
    assert waitlist.notify_waitlist(at=NOON) == 1


@pytest.mark.django_db
def test_the_others_are_told_when_whoever_asked_has_left():
    offer, organization = sold_out(), factories.organization()
    colleague = factories.member(organization)
    entry = join(offer, organization)
    assert entry.user != colleague
    Membership.objects.filter(user=entry.user).delete()
    free(offer, 1)

    waitlist.notify_waitlist(at=NOON)

    assert Notification.objects.get().user is None
    assert [delivery.user for delivery in Delivery.objects.all()] == [colleague]


@pytest.mark.django_db
def test_only_whoever_asked_is_told():
    offer, organization = sold_out(), factories.organization()
    factories.member(organization)
    entry = join(offer, organization)
    free(offer, 1)

    waitlist.notify_waitlist(at=NOON)

    assert [delivery.user for delivery in Delivery.objects.all()] == [entry.user]


@pytest.mark.django_db
def test_a_broken_pool_keeps_no_other_waiting(monkeypatch):
    broken, good = sold_out(), sold_out()
    join(broken)
    entry = join(good)
    free(broken, 1)
    free(good, 1)
    usual = waitlist._room

    def room(pool_id, at):
        if pool_id == broken.pool_id:
            raise RuntimeError("broken")
        return usual(pool_id, at)

    monkeypatch.setattr(waitlist, "_room", room)
    assert waitlist.notify_waitlist(at=NOON) == 1
    assert told() == [entry.organization_id]


@pytest.mark.django_db
def test_entries_say_how_many_are_before_them():
    offer = sold_out()
    first, second = join(offer), join(offer, at=NOON + timedelta(seconds=1))
    assert [entry.ahead for entry in waitlist.entries_of(first.organization, offer.pk, at=NOON)] == [0]
    assert [entry.ahead for entry in waitlist.entries_of(second.organization, offer.pk, at=NOON)] == [1]
    free(offer, 1)
    waitlist.notify_waitlist(at=NOON + TURN)
    (entry,) = waitlist.entries_of(first.organization, offer.pk, at=NOON + TURN)
    assert entry.notified_at == NOON + TURN
    assert waitlist.entries_of(first.organization, offer.pk, at=NOON + 2 * TURN) == []
    assert [entry.ahead for entry in waitlist.entries_of(second.organization, offer.pk, at=NOON)] == [0]


# --- races, on connections of their own ------------------------------------------------------------------------------
@pytest.mark.django_db(transaction=True)
def test_a_double_click_makes_one_entry():
    offer, organization = sold_out(), factories.organization()

    results = outcomes(*[lambda: join(offer, organization)] * 4)

    entry = Waitlist.objects.get()
    assert [getattr(result, "pk", result) for result in results] == [entry.pk] * 4


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("attempt", range(3))
def test_sweeps_in_parallel_tell_each_unit_once(attempt):
    offer = sold_out()
    entries = [join(offer, at=NOON + timedelta(seconds=n)) for n in range(4)]
    free(offer, 2)

    results = outcomes(*[lambda: waitlist.notify_waitlist(at=NOON + TURN)] * 4)

    assert sorted(results) == [0, 0, 0, 2]
    assert told() == [entries[0].organization_id, entries[1].organization_id]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("attempt", range(3))
def test_whoever_leaves_while_the_sweep_runs_is_told_or_gone_never_both(attempt):
    offer, organization = sold_out(), factories.organization()
    entry = join(offer, organization)
    free(offer, 1)

    left, told_count = outcomes(
        lambda: waitlist.leave(key=entry.key, organization=organization, at=NOON),
        lambda: waitlist.notify_waitlist(at=NOON),
    )

    entry.refresh_from_db()
    assert (left, told_count) in {(True, 0), (False, 1)}
    assert (entry.left_at is not None, entry.notified_at is not None) == (left, bool(told_count))
    assert len(told()) == told_count


@pytest.mark.django_db(transaction=True)
def test_a_sweep_that_is_killed_tells_nobody_and_the_next_tells_all(monkeypatch):
    offer = sold_out()
    entries = [join(offer, at=NOON + timedelta(seconds=n)) for n in range(2)]
    free(offer, 2)
    usual, calls = waitlist.notify, []

    def dies(**wanted):
        calls.append(wanted)
        if len(calls) == 2:
            raise SystemExit
        return usual(**wanted)

    monkeypatch.setattr(waitlist, "notify", dies)
    with pytest.raises(SystemExit):
        waitlist.notify_waitlist(at=NOON)
    assert (told(), Waitlist.objects.filter(notified_at=None).count()) == ([], 2)

    assert waitlist.notify_waitlist(at=NOON) == 2
    assert told() == [entry.organization_id for entry in entries]
