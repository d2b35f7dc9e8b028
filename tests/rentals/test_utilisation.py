"""How busy machines are: read once a minute through the driver, kept for a week, and never guessed."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError, InternalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from rentals import actions, queries, utilisation
from rentals.drivers.base import CardReading
from rentals.models import Utilisation, UtilisationSample
from rentals.utilisation import Summary, summary
from tests.rentals.support import NOON, Shop, advance, in_shell
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
LATER = NOON + timedelta(hours=1)


def card(busy, used=None, total=None) -> CardReading:
    return CardReading("s", 0, None if busy is None else Decimal(busy), used, total)


# --- several cards as one --------------------------------------------------------------------------------------------


def test_cards_together_are_their_mean_their_busiest_and_all_their_memory():
    cards = [card("100", 10, 100), card("0", 0, 50), card("0", None, 50)]

    assert summary(cards) == Summary(
        busy=Decimal("33.33"), busiest=Decimal("100.00"), memory=Decimal("6.67"), cards_read=3
    )


def test_a_card_that_does_not_say_how_busy_it_is_was_not_read():
    assert summary([card("50"), card(None, 1, 2)]) == Summary(Decimal("50.00"), Decimal("50.00"), None, 1)
    assert summary([card(None, 1, 2)]) is None
    assert summary([]) is None


# --- the sweep -------------------------------------------------------------------------------------------------------


def samples(rental):
    return list(rental.samples.values_list("at", "busy", "busiest", "memory", "cards_read"))


def test_an_idle_machine_has_one_sample_a_minute(shop, engine):
    rental = shop.running()

    written = [utilisation.sample_utilisation(at=LATER + timedelta(seconds=seconds)) for seconds in (0, 20, 40, 60, 80)]

    assert written == [1, 0, 0, 1, 0]
    zero = Decimal("0.00")
    assert samples(rental) == [(LATER, zero, zero, zero, 2), (LATER + MINUTE, zero, zero, zero, 2)]


def test_work_inside_shows_with_every_card(shop, engine):
    rental = shop.running()

    with in_shell(rental, shop.private_key):
        utilisation.sample_utilisation(at=LATER)

    assert samples(rental) == [(LATER, Decimal("25.00"), Decimal("25.00"), Decimal("8.33"), 2)]
    row = Utilisation.objects.get(rental=rental)
    assert (row.read_at, row.busy, row.busiest, row.memory, row.cards_read) == (
        LATER, Decimal("25.00"), Decimal("25.00"), Decimal("8.33"), 2,
    )  # fmt: skip
    assert row.cards == [
        {
            "serial": serial, "index": index, "busy": "25.00", "memory_used_mb": 2048, "memory_total_mb": 24576,
            "temperature": None, "power": None,
        }
        for index, serial in enumerate(rental.members.get().cards)
    ]  # fmt: skip


def test_only_running_machines_are_read(shop, engine):
    shop.rental()
    stopped = shop.running()
    actions.request_stop(rental_id=stopped.pk, actor=None, at=LATER)

    assert utilisation.sample_utilisation(at=LATER) == 0
    assert not Utilisation.objects.exists()


def test_silence_leaves_no_sample_and_is_asked_again_within_the_minute(shop, engine):
    rental = shop.running()
    engine.faults(exporter_down=True)

    assert utilisation.sample_utilisation(at=LATER) == 0
    engine.heal()
    assert utilisation.sample_utilisation(at=LATER + timedelta(seconds=20)) == 0  # still left alone
    assert utilisation.sample_utilisation(at=LATER + timedelta(seconds=40)) == 1

    assert [at for at, *_ in samples(rental)] == [LATER + timedelta(seconds=40)]


def test_a_machine_that_shows_fewer_cards_says_how_many_were_read(shop, engine):
    rental = shop.running()
    engine.lose_cards(engine.machine()["name"], 1)

    utilisation.sample_utilisation(at=LATER)

    assert [cards for *_, cards in samples(rental)] == [1]


def test_a_dead_engine_costs_the_others_nothing(engine):
    healthy, sick = Shop(), Shop()
    good, bad = healthy.running(), sick.running()
    sick.pool.endpoint = "http://127.0.0.1:9"
    sick.pool.save()

    assert utilisation.sample_utilisation(at=LATER) == 1

    assert (len(samples(good)), len(samples(bad))) == (1, 0)


def test_an_engine_that_answers_too_slowly_is_given_up_and_the_others_are_read(engine, monkeypatch, caplog):
    healthy, sick = Shop(cards=1), Shop(cards=1)
    good = healthy.running()
    bad = [sick.running() for _rental in range(5)]
    asked = []
    real = utilisation.engines.driver_of

    def counted(pool):
        if pool.pk == sick.pool.pk:
            asked.append(pool)
        return real(pool)

    monkeypatch.setattr(utilisation.engines, "driver_of", counted)
    monkeypatch.setattr(utilisation, "GIVE_UP_AFTER", 2)
    sick.pool.endpoint = "http://127.0.0.1:9"
    sick.pool.save()

    assert utilisation.sample_utilisation(at=LATER) == 1

    assert len(asked) == 1
    assert len(samples(good)) == 1
    assert not any(samples(rental) for rental in bad)
    assert "answers too slowly" in caplog.text


def test_a_paused_pool_is_left_alone(shop, engine):
    shop.running()
    shop.pool.paused_reason = "maintenance"
    shop.pool.save()

    assert utilisation.sample_utilisation(at=LATER) == 0


def test_one_sweep_costs_the_same_statements_for_one_machine_and_three(shop, engine):
    def count(at):
        with CaptureQueriesContext(connection) as asked:
            utilisation.sample_utilisation(at=at)
        return len(asked)

    shop = Shop(cards=1)
    shop.running()
    one = count(LATER)
    shop.running(), shop.running()

    assert count(LATER + MINUTE) == one
    assert UtilisationSample.objects.count() == 4


def test_samples_are_forgotten_after_seven_days(shop, engine):
    rental = shop.running()
    for at in (LATER, LATER + MINUTE):
        utilisation.sample_utilisation(at=at)

    assert utilisation.prune(at=LATER + timedelta(days=7)) == 0
    assert utilisation.prune(at=LATER + timedelta(days=7, seconds=1)) == 1
    assert [at for at, *_ in samples(rental)] == [LATER + MINUTE]


def test_the_database_keeps_one_sample_a_minute_and_never_changes_one(shop, engine):
    rental = shop.running()
    utilisation.sample_utilisation(at=LATER)
    sample = rental.samples.get()

    with pytest.raises(IntegrityError, match="sample_once_a_minute"), transaction.atomic():
        UtilisationSample.objects.create(
            rental=rental, at=LATER + timedelta(seconds=59), busy=1, busiest=1, cards_read=1
        )
    with pytest.raises(IntegrityError, match="sample_is_a_share"), transaction.atomic():
        UtilisationSample.objects.create(rental=rental, at=LATER + MINUTE, busy=5, busiest=4, cards_read=1)
    with pytest.raises(IntegrityError, match="sample_is_a_share"), transaction.atomic():
        UtilisationSample.objects.create(rental=rental, at=LATER + MINUTE, busy=5, busiest=101, cards_read=1)
    with pytest.raises(InternalError, match="Cannot update"), transaction.atomic():
        UtilisationSample.objects.filter(pk=sample.pk).update(busy=0)


# --- the question that lists ask -------------------------------------------------------------------------------------


def test_the_latest_reading_of_many_is_one_statement_and_old_ones_are_none(shop, engine, django_assert_num_queries):
    shop = Shop(cards=1)
    read, unread, stopped = shop.running(), shop.rental(), shop.running()
    utilisation.sample_utilisation(at=LATER)
    actions.request_stop(rental_id=stopped.pk, actor=None, at=LATER)
    ids = [read.pk, unread.pk, stopped.pk]

    with django_assert_num_queries(1):
        found = queries.latest_utilisation(ids)

    assert {pk: one.read_at for pk, one in found.items()} == {read.pk: LATER}
    assert list(queries.latest_utilisation(ids, at=LATER + timedelta(seconds=179))) == [read.pk]
    assert queries.latest_utilisation(ids, at=LATER + timedelta(minutes=3)) == {}


# --- many workers ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_parallel_sweeps_read_each_machine_once(engine):
    shop = Shop(cards=1)
    rentals = [shop.running() for _rental in range(6)]

    written = at_once(*times(4, lambda _n: utilisation.sample_utilisation(at=LATER)))

    assert sorted(written)[-1] + sum(sorted(written)[:-1]) == 6
    assert [len(samples(rental)) for rental in rentals] == [1] * 6


@pytest.mark.django_db(transaction=True)
def test_readings_while_machines_stop_and_start_meet_no_deadlock(engine):
    shop = Shop(cards=1)
    rentals = [shop.running() for _rental in range(4)]

    def work(number: int) -> object:
        if number % 2:
            return utilisation.sample_utilisation(at=LATER + number * MINUTE)
        return actions.request_stop(rental_id=rentals[number].pk, actor=None, at=LATER)

    at_once(*times(4, work))

    assert advance(rentals[0], to="stopped").status == "stopped"
    assert Utilisation.objects.exclude(read_at=None).count() >= 2
