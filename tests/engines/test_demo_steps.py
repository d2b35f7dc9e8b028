"""The demo engine from inside, where the moment of each command can be chosen to the turn of the event loop."""

import asyncio
import itertools
from pathlib import Path

import pytest

from marketplace.local.demo_engine.engine import Engine, Timing
from marketplace.local.demo_engine.store import Store

WANTED = {
    "name": "r-1",
    "host": "h-1",
    "hostname": "r-1",
    "vendor": "nvidia",
    "cards": [],
    "image": {"slug": "any"},
    "vcpus": 1,
    "memory_gb": 1,
    "disk_gb": 1,
    "public_keys": [],
    "labels": {},
}
TURNS = range(6)


async def accept(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except (ConnectionRefusedError, ConnectionResetError):
        return False
    writer.close()
    return True


async def switch(engine: Engine, turns: tuple[int, ...]) -> None:
    """Stop and start in turn, each after so many turns of the loop."""
    for verb, wait in zip(itertools.cycle(("stop", "start")), turns, strict=False):
        for _ in range(wait):
            await asyncio.sleep(0)
        engine.power("r-1", verb, None)


@pytest.mark.parametrize("first", TURNS)
def test_commands_at_any_turn_of_the_loop_leave_the_last_one_true(first, tmp_path: Path):
    async def run() -> list[dict]:
        complaints: list[dict] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        engine = Engine(Store(tmp_path), Timing(boot_seconds=0, terminate_seconds=0))
        machine = engine.create(dict(WANTED))
        for rest in itertools.product(TURNS, repeat=3):
            await switch(engine, (first, *rest))  # ends with start
            async with asyncio.timeout(5):
                while machine.state != "running":
                    await asyncio.sleep(0)
            assert await accept(machine.port), rest
            await switch(engine, (first, *rest, 0))  # ends with stop
            async with asyncio.timeout(5):
                while await accept(machine.port):  # a door caught opening closes a few turns later
                    await asyncio.sleep(0.01)
            assert machine.state == "stopped", rest
            engine.power("r-1", "start", None)
        await engine.shut_down()
        return complaints

    assert asyncio.run(run()) == []
