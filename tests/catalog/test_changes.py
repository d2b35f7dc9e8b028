"""The catalogue's version: it moves with every committed change, never with another, and no writer waits for it."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from catalog import changes, queries
from catalog.models import Change, ChangeTotal, Host, Price, Region, Reservation
from tests import factories
from tests.support.threads import at_once, times

NOON = datetime(2026, 3, 2, 4, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


@pytest.mark.django_db
class TestWhatCounts:
    @pytest.fixture
    def offer(self):
        return factories.offer()

    def moved(self, act):
        before = changes.version(at=NOON)
        act()
        return changes.version(at=NOON) != before

    def test_a_write_to_anything_visitors_see(self, offer):
        assert self.moved(lambda: Host.objects.update(cards_free=5))
        assert self.moved(lambda: Region.objects.update(name_en="Elsewhere"))
        assert self.moved(lambda: factories.price(offer, currency="USD", card_hour="0.37"))
        assert self.moved(offer.save)

    def test_nothing_else(self, offer):
        assert not self.moved(lambda: queries.stock([offer.pk]))
        assert not self.moved(factories.user)

    def test_a_change_that_was_taken_back_is_none(self, offer):
        before = changes.version(at=NOON)
        with transaction.atomic():
            Host.objects.update(cards_free=5)
            assert changes.version(at=NOON) != before
            transaction.set_rollback(True)
        assert changes.version(at=NOON) == before

    def test_a_number_that_was_taken_back_is_never_given_again(self, offer):
        with transaction.atomic():
            Host.objects.update(cards_free=5)
            taken_back = changes.version(at=NOON)
            transaction.set_rollback(True)
        Host.objects.update(cards_free=4)
        assert changes.version(at=NOON) != taken_back

    def test_a_dated_price_moves_it_without_a_write(self, offer):
        Price.objects.create(offer=offer, meter="month", currency="USD", rate=1, valid_from=NOON, valid_to=LATER)
        begins, runs, ended = (changes.version(at=at) for at in (NOON - timedelta(microseconds=1), NOON, LATER))
        assert (begins.until, runs.until) == (NOON, LATER)
        assert len({begins, runs, ended}) == 3

    def test_so_does_a_reservation(self, offer):
        Reservation.objects.create(pool=offer.pool, cards=1, period=DateTimeTZRange(NOON, LATER), note="x")
        before, during = (changes.version(at=at).until for at in (NOON - timedelta(seconds=1), NOON))
        assert (before, during) == (NOON, LATER)

    def test_folding_leaves_the_version_as_it_was(self, offer):
        before = changes.version(at=NOON)
        assert before.changes == Change.objects.count() > 0

        assert changes.fold_changes() == before.changes
        assert (changes.version(at=NOON), Change.objects.count()) == (before, 0)

        Host.objects.update(cards_free=5)
        after = changes.version(at=NOON)
        assert (after.changes, after.last > before.last) == (before.changes + 1, True)
        assert changes.fold_changes() == 1
        assert changes.fold_changes() == 0
        assert changes.version(at=NOON) == after
        assert list(ChangeTotal.objects.values_list("pk", "changes", "last")) == [(1, after.changes, after.last)]


@pytest.mark.django_db(transaction=True)
class TestTogether:
    def test_claims_and_folds_at_once_lose_no_change(self):
        offer = factories.offer()
        before = changes.version(at=NOON).changes

        def work(number):
            for _turn in range(10):
                if number % 4 == 0:
                    changes.fold_changes()
                else:
                    with transaction.atomic():
                        Host.objects.filter(pk=offer.pool.hosts.first().pk).update(state="active")

        at_once(*times(8, work))

        assert changes.version(at=NOON).changes == before + 60

    def test_a_writer_waits_for_nobody(self):
        first, second = factories.offer().pool.hosts.first(), factories.offer().pool.hosts.first()

        def other():
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '2s'")
            Host.objects.filter(pk=second.pk).update(state="draining")
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")

        with transaction.atomic():
            Host.objects.filter(pk=first.pk).update(state="draining")
            at_once(other)

        assert Host.objects.filter(state="draining").count() == 2
