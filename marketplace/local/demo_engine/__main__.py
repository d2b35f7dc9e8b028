"""`python -m marketplace.local.demo_engine`: runs the engine until it is told to stop.

DEMO_ENGINE_PORT (8020; 0 takes a free one and prints it), DEMO_ENGINE_STATE (folder), DEMO_ENGINE_TOKEN (required),
DEMO_ENGINE_BOOT_SECONDS (2), DEMO_ENGINE_TERMINATE_SECONDS (0.5), DEMO_ENGINE_MACHINES (512).
"""

import asyncio
import contextlib
import os
import resource
import signal
import sys
from pathlib import Path

from marketplace.lib import env
from marketplace.local.demo_engine.api import Api
from marketplace.local.demo_engine.engine import Engine, Timing
from marketplace.local.demo_engine.http import Server
from marketplace.local.demo_engine.ssh import LOOPBACK
from marketplace.local.demo_engine.store import StateInUse, Store


def seconds(name: str, default: str) -> float:
    try:
        value = float(env.text(name, default))
    except ValueError:
        value = -1
    if not 0 <= value <= 3600:
        raise env.BadSetting(f"{name} must be a number of seconds from 0 to 3600")
    return value


def raise_file_limit() -> None:
    """Hundreds of machines need a listening socket each and more for their visitors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def announce(folder: Path, address: str) -> None:
    """The address, printed and left beside the state for whoever started the engine."""
    part = folder / "address.part"
    part.write_text(address, encoding="utf-8")
    part.replace(folder / "address")
    print(f"Demo machines: engine on {address}", flush=True)


async def follow(parent: int, stop: asyncio.Event) -> None:
    """Ends with the process that started it, so that a killed test run leaves nothing behind."""
    while os.getppid() == parent:
        await asyncio.sleep(0.5)
    stop.set()


async def serve(folder: Path, port: int, token: str, timing: Timing) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    engine = Engine(Store(folder), timing)
    server = Server(Api(engine), token)
    follower = None
    try:
        await engine.resume()
        port = await server.start(LOOPBACK, port)
        if parent := env.integer("DEMO_ENGINE_PARENT", 0):
            follower = loop.create_task(follow(parent, stop))
        announce(folder, f"http://{LOOPBACK}:{port}")
        await stop.wait()
    finally:
        if follower:
            follower.cancel()
        await server.stop()
        await engine.shut_down()


def main() -> int:
    try:
        port = env.integer("DEMO_ENGINE_PORT", 8020, minimum=0)
        folder = Path(env.text("DEMO_ENGINE_STATE", ".local/demo-engine")).resolve()
        token = env.secret("DEMO_ENGINE_TOKEN")
        if not token:
            raise env.BadSetting("DEMO_ENGINE_TOKEN must be set; the platform presents it with every call")
        timing = Timing(
            boot_seconds=seconds("DEMO_ENGINE_BOOT_SECONDS", "2"),
            terminate_seconds=seconds("DEMO_ENGINE_TERMINATE_SECONDS", "0.5"),
            machine_limit=env.integer("DEMO_ENGINE_MACHINES", 512, minimum=1),
        )
        raise_file_limit()
        asyncio.run(serve(folder, port, token, timing))
    except (env.BadSetting, StateInUse) as error:
        print(f"Demo engine: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"Demo engine: {error.strerror or error} (port {port}, state {folder})", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
