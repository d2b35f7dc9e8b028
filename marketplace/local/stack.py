"""The whole product as one tree of processes: servers, Stripe sandbox, demo engine, web, worker, beat.

`make run` supervises one in `.local`; `make loop` and tests start others, each in a folder and on ports of its own:

    with Stack(folder, fsync=False) as stack:
        httpx.get(stack.url)
        os.kill(stack.processes["worker"].pid, signal.SIGKILL)
        stack.restart("worker")

Start it from a thread that lives as long as the stack: the kernel ends the children when that thread ends.
"""

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO

from marketplace.local import keys, ports, preflight, processes, translations
from marketplace.local.postgres import Postgres
from marketplace.local.preflight import Problem
from marketplace.local.valkey import Valkey

ROOT = Path(__file__).resolve().parents[2]
WEBHOOK_PATH = "/stripe/webhook/"
HEALTH_PATH = "/healthz"
WEB_SECONDS = 90.0
SERVICE_SECONDS = 30.0
# Stopped in this order: first what takes requests, last what the others lean on.
STOP_ORDER = ("web", "beat", "worker", "stripe", "engine")

Say = Callable[[str, str], None]


@dataclass(frozen=True)
class Service:
    """A program of the tree: what it runs, and what it is told beyond the common environment."""

    name: str
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)


class Stack:
    """Starts, restarts and stops the tree. Lines of all children go to `say(name, line)` or to log files."""

    def __init__(
        self,
        folder: Path,
        *,
        web_port: int | None = None,
        host: str = ports.LOOPBACK,
        fsync: bool = True,
        environ: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        say: Say | None = None,
    ) -> None:
        """`environ` may name an outside database, Redis or Stripe key; without it everything is the stack's own.

        `settings` are added to every child's environment last. `web_port` None takes a free one.
        """
        self.folder = folder.absolute()
        self.host = host
        self.port = web_port or 0
        self.processes: dict[str, subprocess.Popen] = {}
        self.services: dict[str, Service] = {}
        self.env: dict[str, str] = {}
        self.notes: list[str] = []
        self._outside = {name: value for name, value in (environ or {}).items() if name in OUTSIDE and value}
        self._settings = dict(settings or {})
        self._fsync = fsync
        self._say = say
        self._lock: IO[str] | None = None
        self._servers = contextlib.ExitStack()

    # --- the public verbs ---

    def start(self) -> None:
        """Returns when the first page can be asked for. A Problem says what is in the way; nothing is left running."""
        try:
            self._check()
            self._start_servers()
            self._start_services(["stripe", "engine"])
            self._prepare()
            # The page first: it is what the person waits for, and a laptop has few cores.
            self._start_services(["web"])
            self._wait_for_web()
            self._start_services(["worker", "beat"])
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends every child and the servers, in order. Safe to repeat; data stays."""
        for name in STOP_ORDER:
            process = self.processes.pop(name, None)
            if process is not None:
                processes.end(process)
        self._servers.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def restart(self, name: str) -> subprocess.Popen:
        """Ends the service if it still runs and starts it again, with the same environment and ports."""
        if name in self.processes:
            processes.end(self.processes.pop(name))
        return self._launch(self.services[name])

    def manage(self, *arguments: str) -> str:
        """`manage.py` with the stack's environment; its output. A failure raises CalledProcessError with it."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, env=self.env, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    def dead(self) -> Iterable[str]:
        """Names of the services that ended by themselves."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def __enter__(self) -> "Stack":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self.stop()

    @property
    def url(self) -> str:
        shown = ports.LOOPBACK if self.host in {"0.0.0.0", "::"} else self.host
        return f"http://{shown}:{self.port}"

    def log_file(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    # --- steps ---

    def _check(self) -> None:
        preflight.check_python()
        preflight.check_writable(self.folder)
        preflight.check_space(self.folder, preflight.RUN_NEEDS_MB)
        self._take_lock()
        if self.port:
            preflight.check_port(self.host, self.port)
        else:
            self.port = ports.find_free()
        (self.folder / "logs").mkdir(exist_ok=True)

    def _take_lock(self) -> None:
        lock = (self.folder / "lock").open("a+", encoding="ascii")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise Problem(
                f"The product already runs from {self.folder} (process {holder}). Stop that one first, with Ctrl-C."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def _start_servers(self) -> None:
        addresses = {name: self._outside[name] for name in ("DATABASE_URL", "REDIS_URL") if name in self._outside}
        if "DATABASE_URL" not in addresses:
            postgres = Postgres(self.folder / "postgres", fsync=self._fsync)
            self._servers.callback(postgres.stop)
            addresses["DATABASE_URL"] = postgres.start()
            self.notes.append(postgres.where())
        if "REDIS_URL" not in addresses:
            valkey = Valkey(self.folder / "valkey")
            self._servers.callback(valkey.stop)
            addresses["REDIS_URL"] = valkey.start()
        self._compose_environment(addresses)

    def _compose_environment(self, addresses: dict[str, str]) -> None:
        known_ports = self.folder / "ports.json"
        secrets = keys.load(self.folder / "secrets.json")
        engine_port = ports.remembered(known_ports, "engine")
        own = {
            **secrets,
            **addresses,
            "DEBUG": "1",
            "SITE_URL": self.url,
            "PYTHONUNBUFFERED": "1",
            "LOCAL_DIR": str(self.folder),
            "EMAIL_FILE_PATH": str(self.folder / "mail"),
            "MEDIA_ROOT": str(self.folder / "media"),
            "DEMO_ENGINE_URL": f"http://{ports.LOOPBACK}:{engine_port}",
        }
        self.services = {
            "engine": self._module(
                "engine",
                "marketplace.local.demo_engine",
                DEMO_ENGINE_PORT=str(engine_port),
                DEMO_ENGINE_STATE=str(self.folder / "demo-engine"),
            )
        }
        if "STRIPE_API_KEY" in self._outside:
            own |= {name: value for name, value in self._outside.items() if name.startswith("STRIPE_")}
        else:
            stripe_port = ports.remembered(known_ports, "stripe")
            own["STRIPE_API_BASE"] = f"http://{ports.LOOPBACK}:{stripe_port}"
            self.services["stripe"] = self._module(
                "stripe",
                "marketplace.local.stripe_sandbox",
                STRIPE_SANDBOX_PORT=str(stripe_port),
                STRIPE_SANDBOX_STATE=str(self.folder / "stripe-sandbox.sqlite3"),
                STRIPE_WEBHOOK_URL=self.url + WEBHOOK_PATH,
                STRIPE_SANDBOX_RETURN_URL=self.url + "/",
            )
        own |= self._settings
        # A secret's file (NAME_FILE) would win over the value that is set here.
        hidden = {f"{name}_FILE" for name in own} | {name for name in OUTSIDE if name not in own}
        self.env = {name: value for name, value in os.environ.items() if name not in hidden} | own
        self.services |= self._product()

    def _product(self) -> dict[str, Service]:
        # On one's own machine root is no news; the warning would bury the first lines.
        calm = ["-W", "ignore:You're running the worker with superuser"]
        celery = [sys.executable, *calm, "-m", "celery", "--quiet", "--app", "marketplace"]
        web = [
            *(sys.executable, "-m", "gunicorn", "marketplace.wsgi:application", "--bind", f"{self.host}:{self.port}"),
            # Threads, because browsers open connections ahead of need and would block a worker each.
            *("--workers", "2", "--threads", "4", "--graceful-timeout", "5", "--log-level", "warning", "--preload"),
            # It would lie in the home directory, outside the project and shared by every clone.
            "--no-control-socket",
            # Without the query string: it may hold tokens.
            *("--access-logfile", "-", "--access-logformat", "%(m)s %(U)s %(s)s %(M)s ms"),
        ]
        worker = [
            # Threads: tasks wait for the database and for engines, and one process can be killed as one.
            *(*celery, "worker", "--pool", "threads", "--concurrency", "4", "--loglevel", "INFO"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ]
        beat = [*celery, "beat", "--schedule", str(self.folder / "celerybeat-schedule"), "--pidfile", ""]
        return {
            service.name: service for service in (Service("web", web), Service("worker", worker), Service("beat", beat))
        }

    def _module(self, name: str, module: str, **env: str) -> Service:
        return Service(name, [sys.executable, "-m", module], env)

    def _prepare(self) -> None:
        translations.compile_stale(ROOT / "locale")
        log_file = self.log_file("prepare")
        process = self._launch(Service("prepare", [sys.executable, "-m", "marketplace.local.prepare"]))
        try:
            status = process.wait()
        finally:
            processes.end(self.processes.pop("prepare"))
        if status:
            tail = "" if self._say else "\n" + processes.log_tail(str(log_file))
            raise Problem(f"Preparing the database failed (status {status}).{tail}")

    def _start_services(self, names: list[str]) -> None:
        for name in names:
            if name in self.services:
                self._launch(self.services[name])

    def _launch(self, service: Service) -> subprocess.Popen:
        pipe = self._say is not None
        with contextlib.ExitStack() as closing:
            output = subprocess.PIPE if pipe else closing.enter_context(self.log_file(service.name).open("ab"))
            process = subprocess.Popen(
                processes.tied_to_parent(service.command),
                env=self.env | service.env,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if pipe:
            threading.Thread(target=self._pump, args=(service.name, process), daemon=True).start()
        self.processes[service.name] = process
        return process

    def _pump(self, name: str, process: subprocess.Popen) -> None:
        with process.stdout as lines:
            for line in lines:
                self._say(name, line.decode(errors="replace").rstrip())

    def _wait_for_web(self) -> None:
        for name, variable in (("stripe", "STRIPE_API_BASE"), ("engine", "DEMO_ENGINE_URL")):
            if name in self.processes:
                self._wait(name, lambda address=self.env[variable]: _accepts(address), SERVICE_SECONDS)
        self._wait("web", lambda: _is_ok(self.url + HEALTH_PATH), WEB_SECONDS)

    def _wait(self, name: str, ready: Callable[[], bool], seconds: float) -> None:
        log = "" if self._say else str(self.log_file(name))
        # Not faster: each question to a failing site writes a traceback.
        processes.wait_until(ready, self.processes[name], what=name, seconds=seconds, log=log, pause=0.25)


# What the caller's environment may bring along; anything else of these names stays outside the stack.
OUTSIDE = ("DATABASE_URL", "REDIS_URL", "STRIPE_API_KEY", "STRIPE_API_BASE", "STRIPE_WEBHOOK_SECRET")


def _accepts(address: str) -> bool:
    """Whether a server listens at http://host:port."""
    host, _, port = address.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def _is_ok(url: str) -> bool:
    # Without the proxies of the environment: the address is on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=10) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False
