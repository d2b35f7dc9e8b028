"""Machines and what may be done to them. One event loop runs it all, so each verb happens at once and whole."""

import asyncio
import re
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from marketplace.local.demo_engine import exporter, ssh
from marketplace.local.demo_engine.store import Machine, Store

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
PORT_RETRY_SECONDS = 0.5
RETURN_SECONDS = 5.0
# What a test may ask to go wrong; each with the value that means "nothing".
NO_FAULTS: dict[str, Any] = {
    "drop_answers": 0,  # the next N writes are done, their answers never sent
    "errors": 0,  # the next N requests are answered 500 and not done
    "delay_seconds": 0,  # every answer comes this late
    "boot_seconds": None,  # instead of the engine's own figure
    "terminate_seconds": None,
    "boot_failures": 0,  # the next N machines fail while booting
    "missing_cards": 0,  # machines created from now on see this many cards fewer inside
    "no_capacity": False,
    "bad_images": [],  # slugs the engine cannot pull
    "lost_hosts": [],  # hosts that stopped reporting; their machines may still answer
    "exporter_down": False,  # nobody answers for what the cards do
}


Step = Callable[[Machine], Coroutine[Any, Any, None]]


class Refusal(Exception):
    """An answer other than success: HTTP status, machine code, words."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True)
class Timing:
    boot_seconds: float = 2.0
    terminate_seconds: float = 0.5
    machine_limit: int = 512


class Engine:
    def __init__(self, store: Store, timing: Timing) -> None:
        self.store = store
        self.timing = timing
        self.faults: dict[str, Any] = {**NO_FAULTS, **(store.setting("faults") or {})}
        self.machines: dict[str, Machine] = {}
        self._doors: dict[str, ssh.Door] = {}
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}

    # --- life of the process -------------------------------------------------------------------------------------

    async def resume(self) -> None:
        """Every machine comes back as it was: same port, host key, keys and power state.

        Those that ran are waited for, so that nobody is told of a machine that does not answer yet.
        """
        steps: dict[str, Step] = {
            "creating": self._boot,
            "booting": self._boot,
            "running": self._return,
            "terminating": self._terminate,
        }
        for machine in self.store.machines():
            self.machines[machine.name] = machine
            step = steps.get(machine.state, self._take_port)
            self._try_port(machine)
            self._run(machine, step)
        returning = [
            self._tasks[m.name][-1] for m in self.machines.values() if m.state == "running" and m.name in self._doors
        ]
        if returning:
            await asyncio.wait(returning, timeout=RETURN_SECONDS)

    async def shut_down(self) -> None:
        for name in self._tasks:
            self._cancel(name)
        for door in self._doors.values():
            door.give_up_port()
        await asyncio.sleep(0)
        self.store.close()

    # --- questions -----------------------------------------------------------------------------------------------

    def machine(self, name: str) -> Machine:
        try:
            return self.machines[name]
        except KeyError:
            raise Refusal(404, "not_found", "no such machine") from None

    def matching(self, labels: dict[str, str]) -> list[Machine]:
        found = [m for m in self.machines.values() if all(m.labels.get(k) == v for k, v in labels.items())]
        return sorted(found, key=lambda machine: machine.name)

    def cards_in_use(self) -> dict[str, str]:
        """Card serial → machine that has it plugged in. A stopped machine has let its cards go."""
        return {
            card["serial"]: machine.name
            for machine in self.machines.values()
            if machine.state not in {"stopped", "failed"}
            for card in machine.cards
        }

    def view(self, machine: Machine) -> dict[str, Any]:
        return {
            "name": machine.name,
            "state": machine.state,
            "reason": machine.reason,
            "host": machine.host,
            "host_ready": machine.host not in self.faults["lost_hosts"],
            "labels": machine.labels,
            "cards": machine.cards,
            "public_keys": machine.public_keys,
            "ssh": {"host": ssh.LOOPBACK, "port": machine.port, "user": ssh.USER},
            "host_key": machine.host_public,
            "created_at": machine.created_at,
        }

    def metrics(self, name: str) -> str:
        """What the exporter beside this machine says of its cards."""
        machine = self.machine(name)
        if self.faults["exporter_down"]:
            raise Refusal(503, "exporter_down", "the exporter does not answer")
        if machine.state != "running":
            raise Refusal(409, "not_running", f"{name} is {machine.state}, not running")
        return exporter.text(machine, sessions=self._doors[name].sessions)

    # --- verbs ---------------------------------------------------------------------------------------------------

    def create(self, wanted: dict[str, Any]) -> Machine:
        name = wanted["name"]
        if name in self.machines:
            raise Refusal(409, "name_taken", f"a machine named {name} exists")
        if wanted["image"]["slug"] in self.faults["bad_images"]:
            raise Refusal(422, "image_not_found", f"image {wanted['image']['slug']} cannot be pulled")
        if self.faults["no_capacity"] or len(self.machines) >= self.timing.machine_limit:
            raise Refusal(409, "no_capacity", "no room for another machine")
        self._require_free_cards(wanted["cards"], name)
        try:
            sock = ssh.new_port({machine.port for machine in self.machines.values()})
        except OSError:
            raise Refusal(409, "no_capacity", "no free port for another machine") from None
        host_key, host_public = ssh.new_host_key()
        machine = Machine(
            **wanted,
            host_key=host_key,
            host_public=host_public,
            port=sock.getsockname()[1],
            created_at=time.time(),
            defects={"boot_fails": self._spend("boot_failures"), "missing_cards": self.faults["missing_cards"]},
        )
        self.machines[name] = machine
        self._doors[name] = ssh.Door(machine, sock)
        self._write(machine, "creating", f"created on {machine.host} with {len(machine.cards)} card(s) (演示 demo)")
        self._run(machine, self._boot)
        return machine

    def power(self, name: str, verb: str, cards: list[dict[str, Any]] | None) -> Machine:
        """`start` may bring other cards, because a stopped machine's own may be rented out by now."""
        machine = self._living(name)
        if verb == "stop":
            if machine.state not in {"stopped", "failed"}:
                self._close(machine)
                self._write(machine, "stopped", "powered off")
            return machine
        if verb == "reboot" and machine.state != "running":
            raise Refusal(409, "not_running", f"{name} is {machine.state}, not running")
        if verb == "start" and machine.state not in {"stopped", "failed"}:
            return machine
        if verb == "start":
            self._require_free_cards(cards if cards is not None else machine.cards, name)
            machine.cards = cards if cards is not None else machine.cards
        self._close(machine)
        self._write(machine, "booting", f"{verb}: booting")
        self._run(machine, self._boot)
        return machine

    def set_keys(self, name: str, public_keys: list[str]) -> Machine:
        machine = self._living(name)
        keys = ssh.parse_keys(public_keys)
        machine.public_keys = public_keys
        if name in self._doors:
            self._doors[name].keys = keys
        self.store.save(machine, f"{len(public_keys)} public key(s) set")
        return machine

    def destroy(self, name: str) -> Machine:
        machine = self.machine(name)
        if machine.state != "terminating":
            self._close(machine)
            self._write(machine, "terminating", "terminating")
            self._run(machine, self._terminate)
        return machine

    def fence(self, host: str) -> int:
        """Cuts every machine of a host off. Returns how many were on."""
        on = [m for m in self.machines.values() if m.host == host and m.state in {"creating", "booting", "running"}]
        for machine in on:
            self._close(machine)
            self._write(machine, "stopped", "fenced: powered off by the operator")
        return len(on)

    def forget(self, name: str) -> None:
        """As if somebody deleted the machine by hand behind the platform's back."""
        self._gone(self.machine(name))

    def replace_host_key(self, name: str) -> Machine:
        """As if somebody reinstalled the machine by hand; takes effect with its next boot."""
        machine = self._living(name)
        machine.host_key, machine.host_public = ssh.new_host_key()
        self.store.save(machine, "host key replaced by hand")
        return self.power(name, "reboot", None)

    def lose_cards(self, name: str, count: int) -> Machine:
        """So many cards fall off the bus while the machine runs; the last ones first."""
        machine = self._living(name)
        machine.defects["missing_cards"] = count
        self.store.save(machine, f"{count} card(s) fell off the bus (演示 demo)")
        return machine

    def set_faults(self, changes: dict[str, Any]) -> dict[str, Any]:
        unknown = set(changes) - set(NO_FAULTS)
        if unknown:
            raise Refusal(422, "invalid", f"unknown faults: {', '.join(sorted(unknown))}")
        self.faults.update(changes)
        self.store.set_setting("faults", self.faults)
        return self.faults

    def spend_fault(self, name: str) -> bool:
        """True while a counted fault is left; uses one up."""
        return self._spend(name)

    # --- inside --------------------------------------------------------------------------------------------------

    def _spend(self, fault: str) -> bool:
        if self.faults[fault] <= 0:
            return False
        self.set_faults({fault: self.faults[fault] - 1})
        return True

    def _living(self, name: str) -> Machine:
        machine = self.machine(name)
        if machine.state == "terminating":
            raise Refusal(409, "terminating", f"{name} is being deleted")
        return machine

    def _require_free_cards(self, cards: Iterable[dict[str, Any]], name: str) -> None:
        in_use = self.cards_in_use()
        for card in cards:
            if in_use.get(card["serial"], name) != name:
                raise Refusal(409, "no_capacity", f"card {card['serial']} is in use")

    def _write(self, machine: Machine, state: str, line: str, reason: str = "") -> None:
        machine.state, machine.reason = state, reason
        if state != "running":
            machine.running_since = None
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.store.save(machine, f"{stamp} {line}")

    def _run(self, machine: Machine, step: Step) -> None:
        """The machine's next step. It replaces those before it and begins when all of them have put their things down
        (the last one alone would not do: replaced before it began, it ends ahead of the one it waited for)."""
        self._cancel(machine.name)
        before = [task for task in self._tasks.get(machine.name, []) if not task.done()]
        task = asyncio.get_running_loop().create_task(self._guarded(machine, step, before))
        self._tasks[machine.name] = [*before, task]

    async def _guarded(self, machine: Machine, step: Step, before: list[asyncio.Task[None]]) -> None:
        if before:
            await asyncio.wait(before)
        try:
            await step(machine)
        except Exception as error:  # one broken machine must not end the others
            print(f"demo engine: {machine.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self._write(machine, "failed", f"failed: {error}", reason=str(error))

    def _cancel(self, name: str) -> None:
        for task in self._tasks.get(name, []):
            if task is not asyncio.current_task():
                task.cancel()

    async def _boot(self, machine: Machine) -> None:
        """creating → booting → running; running is said only once SSH listens."""
        seconds = self.faults["boot_seconds"]
        seconds = self.timing.boot_seconds if seconds is None else float(seconds)
        await self._take_port(machine)
        if machine.state == "creating":
            await asyncio.sleep(seconds * 0.4)
            self._write(machine, "booting", "booting")
        await asyncio.sleep(seconds * 0.6)
        if machine.defects.get("boot_fails"):
            machine.defects["boot_fails"] = False
            self._write(machine, "failed", "boot failed: kernel panic (演示 demo)", reason="the machine did not boot")
            return
        await self._doors[machine.name].open()
        machine.running_since = time.time()
        self._write(machine, "running", f"sshd listens on {ssh.LOOPBACK}:{machine.port}")

    async def _return(self, machine: Machine) -> None:
        """A machine that was running when the engine died runs again, without a boot."""
        await self._take_port(machine)
        await self._doors[machine.name].open()
        if machine.state != "running":
            machine.running_since = time.time()
            self._write(machine, "running", f"sshd listens on {ssh.LOOPBACK}:{machine.port}")

    async def _take_port(self, machine: Machine) -> None:
        """Its own port or none: a customer's ssh command must stay true, so a taken port is waited for."""
        while machine.name not in self._doors and not self._try_port(machine):
            await asyncio.sleep(PORT_RETRY_SECONDS)

    def _try_port(self, machine: Machine) -> bool:
        try:
            self._doors[machine.name] = ssh.Door(machine, ssh.same_port(machine.port))
        except OSError:
            reason = f"port {machine.port} is in use by another program"
            if machine.reason != reason:
                state = "booting" if machine.state == "running" else machine.state
                self._write(machine, state, f"waiting: {reason}", reason=reason)
            return False
        return True

    async def _terminate(self, machine: Machine) -> None:
        seconds = self.faults["terminate_seconds"]
        await asyncio.sleep(self.timing.terminate_seconds if seconds is None else float(seconds))
        self._gone(machine)

    def _close(self, machine: Machine) -> None:
        self._cancel(machine.name)
        if machine.name in self._doors:
            self._doors[machine.name].close()

    def _gone(self, machine: Machine) -> None:
        self.store.remove(machine.name)
        self.machines.pop(machine.name, None)
        if door := self._doors.pop(machine.name, None):
            door.give_up_port()
        self._cancel(machine.name)
        self._tasks.pop(machine.name, None)
