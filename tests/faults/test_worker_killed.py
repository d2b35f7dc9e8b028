"""A real Celery worker, killed by SIGKILL at a named place while it provisions; another one finishes the work.

Afterwards there is exactly one machine, and the meter starts when it was logged into.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.conf import settings
from django.db import connection

from marketplace.lib import clock
from orders.models import Order
from rentals import actions, reconcile, tasks
from rentals.models import Rental
from tests.rentals.conftest import demo_engine, engine  # noqa: F401 - the same engine fixtures
from tests.rentals.support import Engine, Shop, advance, log_in, statuses, windows

pytestmark = pytest.mark.django_db(transaction=True)

PROJECT = Path(__file__).resolve().parents[2]
PLACES = ("claimed", "called", "written")
PROVISIONING = [f"{status}.{place}" for status in ("creating", "booting", "verifying") for place in PLACES]
AFTERWARDS = [f"{status}.{place}" for status in ("stopping", "starting", "destroying") for place in PLACES]


class Broker:
    """A database of the session's Redis that only this test's workers listen on."""

    def __init__(self) -> None:
        number = 5 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10
        self.url = urllib.parse.urlsplit(settings.REDIS_URL)._replace(path=f"/{number}").geturl()
        self.flush()

    def flush(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushdb()

    def sweep(self) -> None:
        """What beat does every few seconds; a worker is told nothing else."""
        with tasks.step.app.connection_for_write(self.url) as link:
            for rental_id in reconcile.due(at=clock.now()):
                tasks.step.apply_async(kwargs={"rental_id": rental_id}, connection=link)


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.flush()


@contextmanager
def worker(engine: Engine, broker: Broker, folder: Path, *, kill_at: str = "") -> Iterator[subprocess.Popen]:  # noqa: F811
    """One worker process on the test's database, broker and engine; ended afterwards if it still runs."""
    address = urllib.parse.urlsplit(os.environ["DATABASE_URL"])
    environment = os.environ | {
        "DEBUG": "1",
        "DATABASE_URL": address._replace(path=f"/{connection.settings_dict['NAME']}").geturl(),
        "REDIS_URL": broker.url,
        "DEMO_ENGINE_URL": engine.process.url,
        "DEMO_ENGINE_TOKEN": engine.process.token,
        "RENTALS_KILL_AT": kill_at,
        "RENTALS_LEASE_SECONDS": "2",
    }
    command = [
        sys.executable, "-m", "celery", "--app", "marketplace", "worker", "--pool", "threads", "--concurrency", "2",
        "--loglevel", "WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat",
    ]  # fmt: skip
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def work_until(broker: Broker, done: Callable[[], bool], folder: Path) -> None:
    """Sweep now and then until it is done, for a bounded time."""
    deadline = time.monotonic() + 90
    while not done():
        assert time.monotonic() < deadline, (folder / "worker.log").read_text(errors="replace")[-3000:]
        broker.sweep()
        time.sleep(0.2)


def has(rental: Rental, status: str) -> bool:
    return Rental.objects.filter(pk=rental.pk, status=status).exists()


def killed_then_finished(
    engine: Engine,  # noqa: F811
    broker: Broker,
    folder: Path,
    rental: Rental,
    *,
    kill_at: str,
    status: str,
) -> None:
    with worker(engine, broker, folder, kill_at=kill_at) as first:
        work_until(broker, lambda: first.poll() is not None, folder)
        assert first.returncode == -signal.SIGKILL
    with worker(engine, broker, folder):
        work_until(broker, lambda: has(rental, status), folder)
    rental.refresh_from_db()


def provision_through_a_kill(engine: Engine, broker: Broker, folder: Path, kill_at: str) -> None:  # noqa: F811
    shop = Shop()
    before = clock.now()
    rental = shop.rental(at=before)
    killed_then_finished(engine, broker, folder, rental, kill_at=kill_at, status="running")

    machine = engine.machine()
    assert machine["name"] == f"r-{rental.key.hex[:12]}-g1-0"
    assert sorted(card["serial"] for card in machine["cards"]) == sorted(rental.members.get().cards)
    assert statuses(rental) == ["reserved", "creating", "booting", "verifying", "running"]
    probed = rental.events.filter(kind="call", what="probe", outcome="ok").first().at
    assert rental.metered_from == rental.running_at.replace(microsecond=0)
    assert before < rental.running_at <= probed
    assert windows(rental) == []
    assert Order.objects.get().status == "active"
    listed = json.loads(asyncio.run(log_in(rental, shop.private_key)))
    assert len(listed["cards"]) == 2


def test_a_worker_killed_after_the_create_call_leaves_one_machine(engine, broker, tmp_path):  # noqa: F811
    provision_through_a_kill(engine, broker, tmp_path, "creating.called")


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", PROVISIONING)
def test_a_worker_killed_while_provisioning(engine, broker, tmp_path, kill_at):  # noqa: F811
    provision_through_a_kill(engine, broker, tmp_path, kill_at)


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", AFTERWARDS)
def test_a_worker_killed_while_stopping_starting_or_deleting(engine, broker, tmp_path, kill_at):  # noqa: F811
    shop = Shop()
    rental = shop.running(at=clock.now() - timedelta(minutes=10))
    began, status = rental.metered_from, kill_at.split(".")[0]
    stopped_at = began + timedelta(minutes=2)
    if status != "destroying":
        actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=stopped_at)
    if status == "stopping":
        killed_then_finished(engine, broker, tmp_path, rental, kill_at=kill_at, status="stopped")
        assert windows(rental) == [("card_hour", began, stopped_at, 120)]
        assert (rental.meter, shop.free_cards(), engine.machine()["state"]) == ("disk_gb_hour", 8, "stopped")
    if status == "starting":
        advance(rental, to="stopped")
        actions.request_start(rental_id=rental.pk, actor=shop.buyer, at=clock.now())
        killed_then_finished(engine, broker, tmp_path, rental, kill_at=kill_at, status="running")
        assert [row[0] for row in windows(rental)] == ["card_hour", "disk_gb_hour"]
        assert (windows(rental)[1][2], shop.free_cards()) == (rental.metered_from, 6)
    if status == "destroying":
        actions.request_terminate(rental_id=rental.pk, actor=shop.buyer, at=stopped_at)
        killed_then_finished(engine, broker, tmp_path, rental, kill_at=kill_at, status="gone")
        assert windows(rental) == [("card_hour", began, stopped_at, 120)]
        assert (engine.machines(), shop.free_cards()) == ([], 8)


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", [f"{status}.{place}" for status in ("stopping", "starting") for place in PLACES])
def test_a_worker_killed_while_suspending_or_resuming(engine, broker, tmp_path, kill_at):  # noqa: F811
    shop = Shop()
    rental = shop.running(at=clock.now() - timedelta(minutes=10))
    began, status = rental.metered_from, kill_at.split(".")[0]
    at = began + timedelta(minutes=2)
    actions.suspend(rental_id=rental.pk, reason="arrears", actor=None, at=at)
    if status == "stopping":
        killed_then_finished(engine, broker, tmp_path, rental, kill_at=kill_at, status="suspended")
        assert windows(rental) == [("card_hour", began, at, 120)]
        assert (rental.meter, rental.desired, shop.free_cards()) == ("disk_gb_hour", "running", 8)
        assert engine.machine()["state"] == "stopped"
        return
    advance(rental, to="suspended")
    actions.resume(rental_id=rental.pk, actor=None, at=clock.now())
    killed_then_finished(engine, broker, tmp_path, rental, kill_at=kill_at, status="running")
    assert [row[0] for row in windows(rental)] == ["card_hour", "disk_gb_hour"]
    assert (windows(rental)[1][2], shop.free_cards(), len(engine.machines())) == (rental.metered_from, 6, 1)


def test_everything_arrives_though_redis_is_flushed_again_and_again(engine, broker, tmp_path):  # noqa: F811
    rental = Shop().rental(at=clock.now())
    with worker(engine, broker, tmp_path):

        def flushed_and_running() -> bool:
            broker.flush()
            return has(rental, "running")

        work_until(broker, flushed_and_running, tmp_path)

    assert len(engine.machines()) == 1
