"""One embedded PostgreSQL and one Valkey per test session, shared by the xdist workers (each has its own database)."""

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path


def is_worker() -> bool:
    """An xdist worker inherits the addresses of the servers that the main process started."""
    return "PYTEST_XDIST_WORKER" in os.environ


def start(stack: ExitStack) -> None:
    """Start what the environment does not name, put the addresses into it, and leave the stopping to `stack`."""
    from marketplace.local.postgres import Postgres  # noqa: PLC0415 - needs the environment set above
    from marketplace.local.valkey import Valkey  # noqa: PLC0415

    if "DATABASE_URL" not in os.environ or "REDIS_URL" not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="marketplace-tests-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    if "DATABASE_URL" not in os.environ:
        postgres = Postgres(folder / "postgres", fsync=False)
        stack.callback(os.environ.pop, "DATABASE_URL", None)
        stack.callback(postgres.destroy)
        os.environ["DATABASE_URL"] = postgres.start()
    if "REDIS_URL" not in os.environ:
        stack.callback(os.environ.pop, "REDIS_URL", None)
        os.environ["REDIS_URL"] = stack.enter_context(Valkey(folder / "valkey"))
