"""A customer with an order, a hand on the demo engine, and steps taken in-process until something has happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncssh
import httpx

from catalog.models import Host, Offer
from orders import actions as orders
from orders.models import Order
from rentals import actions, reconcile
from rentals.models import Rental, UsageWindow
from tests import factories

NOON = factories.NOON
SECONDS = 20.0


class Engine:
    """The running engine seen from behind: its machines, and what it shall do wrong."""

    def __init__(self, process: Any) -> None:
        self.process = process
        self._http = httpx.Client(
            base_url=process.url, headers={"Authorization": f"Bearer {process.token}"}, trust_env=False, timeout=10
        )

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_error: object) -> None:
        self._http.delete("/admin/faults").raise_for_status()
        for machine in self.machines():
            self._http.delete(f"/admin/machines/{machine['name']}").raise_for_status()
        self._http.close()

    def machines(self) -> list[dict[str, Any]]:
        return self._http.get("/v1/machines").raise_for_status().json()["machines"]

    def machine(self) -> dict[str, Any]:
        (only,) = self.machines()
        return only

    def faults(self, **changes: Any) -> None:
        self._http.put("/admin/faults", json=changes).raise_for_status()

    def heal(self) -> None:
        self._http.delete("/admin/faults").raise_for_status()

    def delete_by_hand(self, name: str) -> None:
        self._http.delete(f"/admin/machines/{name}").raise_for_status()

    def power(self, name: str, verb: str) -> None:
        self._http.post(f"/v1/machines/{name}/power", json={"verb": verb}).raise_for_status()

    def lose_cards(self, name: str, count: int) -> None:
        self._http.post(f"/admin/machines/{name}/lose-cards", json={"count": count}).raise_for_status()

    def replace_host_key(self, name: str) -> None:
        self._http.post(f"/admin/machines/{name}/host-key").raise_for_status()

    def create_stranger(self, **labels: str) -> str:
        """A machine with our label that no rental knows."""
        key = uuid4()
        name = f"r-{key.hex[:12]}-g1-0"
        body = {
            "name": name, "hostname": name, "host": "h", "vendor": "NVIDIA", "vcpus": 1, "memory_gb": 1, "disk_gb": 1,
            "cards": [{"serial": key.hex, "model": "x", "memory_gb": 1}], "public_keys": [],
            "image": {"slug": "cuda-base", "digest": "d", "framework": ""},
            "labels": {
                "installation": "local", "rental": str(key), "generation": "1", "spec-hash": "0", "members": "1",
                "ordinal": "0", **labels,
            },
        }  # fmt: skip
        self._http.post("/v1/machines", json=body).raise_for_status()
        return name


class Shop:
    """One organization, one offer of `cards` cards, one SSH key, and orders placed through the real actions."""

    def __init__(self, *, cards: int = 2, hosts: int = 1, zone: str = "Asia/Shanghai", disk: str = "0.0005") -> None:
        self.buyer = factories.user()
        self.organization = factories.organization(self.buyer)
        if zone != self.organization.zone:
            self.organization.zone = zone
            self.organization.save()
        self.private_key = asyncssh.generate_private_key("ssh-ed25519")
        public = self.private_key.export_public_key().decode().strip()
        self.key = factories.ssh_key(self.organization, text=public)
        self.pool = factories.pool(hosts=hosts)
        self.offer: Offer = factories.offer(self.pool, cards=cards, disk=disk)
        self.image = factories.image()

    def order(self, *, term: str = "hour", quantity: int = 1, at: datetime = NOON) -> Order:
        """A confirmed order: by the hour at once, a term after its payment."""
        order = factories.order(self.organization, self.offer, term=term, quantity=quantity, keys=[self.key], at=at)
        if term != "hour":
            orders.confirm(order_id=order.pk, at=at)
            order.refresh_from_db()
        return order

    def rental(self, *, at: datetime = NOON, **wanted: Any) -> Rental:
        """A rental that was just opened for a new order."""
        self.order(at=at, **wanted)
        (rental_id,) = actions.open_rentals(at=at)
        return Rental.objects.get(pk=rental_id)

    def running(self, *, at: datetime = NOON, **wanted: Any) -> Rental:
        """A rental that was brought to running on the engine; `running_at` is a little after `at`."""
        return advance(self.rental(at=at, **wanted), to="running")

    def free_cards(self) -> int:
        return sum(Host.objects.filter(pool=self.pool).values_list("cards_free", flat=True))


def step(rental: Rental, *, at: datetime | None = None) -> Rental:
    """One step at the instant the rental wants it (or at `at`); the rental as it is afterwards."""
    rental.refresh_from_db()
    at = at or rental.next_step_at
    assert at is not None, f"{rental} is {rental.status} ({rental.reason}) and waits for nobody"
    reconcile.step(rental_id=rental.pk, at=at)
    rental.refresh_from_db()
    return rental


def advance(rental: Rental, *, to: str, seconds: float = SECONDS) -> Rental:
    """Steps, each at the instant it is wanted, until the status is `to`. Bounded in real time."""
    deadline = time.monotonic() + seconds
    rental.refresh_from_db()
    while rental.status != to:
        assert time.monotonic() < deadline, f"{rental} stays {rental.status} ({rental.reason or rental.failure})"
        before = rental.status
        step(rental)
        if rental.status == before:
            time.sleep(0.03)
    return rental


def windows(rental: Rental) -> list[tuple[str, datetime, datetime, int]]:
    rows = UsageWindow.objects.filter(rental=rental).order_by("period")
    return [(row.meter, row.period.lower, row.period.upper, row.seconds) for row in rows]


def statuses(rental: Rental) -> list[str]:
    return list(rental.events.filter(kind="status").values_list("what", flat=True))


def calls(rental: Rental) -> list[tuple[str, str]]:
    return list(rental.events.filter(kind="call").values_list("what", "outcome"))


def after(moment: datetime, **delta: int) -> datetime:
    return moment + timedelta(**delta)


@contextmanager
def nothing_changes(rental: Rental) -> Iterator[None]:
    """The rental's row, its events and its windows are the same afterwards."""

    def facts() -> tuple[Any, ...]:
        row = Rental.objects.filter(pk=rental.pk).values().get()
        return row, rental.events.count(), windows(rental)

    before = facts()
    yield
    assert facts() == before


@contextmanager
def in_shell(rental: Rental, key: Any) -> Iterator[None]:
    """A customer sits in a shell of the machine meanwhile."""
    loop = asyncio.new_event_loop()
    known = asyncssh.import_public_key(rental.host_key)

    async def enter() -> Any:
        connection = await asyncssh.connect(
            rental.ssh_host, rental.ssh_port, username=rental.ssh_user, client_keys=[key],
            known_hosts=([known], [], []), config=None, agent_path=None,
        )  # fmt: skip
        shell = await connection.create_process(term_type="xterm")
        await shell.stdout.readuntil(":~# ")
        return connection

    async def leave(connection: Any) -> None:
        connection.close()
        await connection.wait_closed()

    connection = loop.run_until_complete(enter())
    try:
        yield
    finally:
        loop.run_until_complete(leave(connection))
        loop.close()


async def log_in(rental: Rental, key: Any, command: str = "cards --json") -> str:
    """What the machine answers to a command of the customer's, its host key checked against the rental's."""
    known = asyncssh.import_public_key(rental.host_key)
    async with asyncssh.connect(
        rental.ssh_host, rental.ssh_port, username=rental.ssh_user, client_keys=[key],
        known_hosts=([known], [], []), config=None, agent_path=None,
    ) as connection:  # fmt: skip
        return str((await connection.run(command, check=True)).stdout)
