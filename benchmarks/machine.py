"""The servers of one run, in a folder that goes with it: PostgreSQL, Valkey, and gunicorn for both sides."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psycopg2

from benchmarks import load, table
from benchmarks.rounds import Sample
from marketplace.local import ports, processes, translations
from marketplace.local.postgres import Postgres
from marketplace.local.valkey import Valkey

ROOT = Path(__file__).resolve().parent.parent
WEB_SECONDS = 60.0
PRODUCT = "benchmarks.settings"
BARE = "benchmarks.reference.default_middleware"
BARE_BEHIND_PRODUCT = "benchmarks.reference.full_middleware"


class Machine:
    """Use as a context: inside, the database is migrated and holds the catalogue, and Django is set up here too."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._webs: dict[tuple[str, int, int, str], Web] = {}

    def __enter__(self) -> Machine:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def web(self, settings: str, *, workers: int = 2, threads: int = 0, database: str = "") -> Web:
        """A gunicorn with these settings; started once, asked by every figure that needs it.

        Its workers are of sync kind, or have so many threads. `database` is the address of another than the run's own,
        as `grown_database` gives it.
        """
        key = (settings, workers, threads, database)
        if key not in self._webs:
            log = self.folder / f"{settings}-{workers}-{len(self._webs)}.log"
            web = self._webs[key] = Web(settings, workers, threads, log, self.postgres, database)
            self._stack.callback(web.stop)
            web.start()
        return self._webs[key]

    def grown_database(self, *, offers: int, cards: int) -> str:
        """The address of a new database with the catalogue, grown to so many offers and cards."""
        name = f"grown_{offers}"
        with contextlib.closing(psycopg2.connect(os.environ["DATABASE_URL"])) as connection:
            connection.autocommit = True
            connection.cursor().execute(f"CREATE DATABASE {name}")
        address = os.environ["DATABASE_URL"].rpartition("/")[0] + f"/{name}"
        command = [sys.executable, "-m", "benchmarks.grow", str(offers), str(cards)]
        done = subprocess.run(
            command, env=os.environ | {"DATABASE_URL": address}, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise table.Wrong(done.stderr[-500:])
        return address

    def _start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="marketplace-bench-"))
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        # Flushing to disk as in production: how long a lock is held depends on it.
        self.postgres = Postgres(self.folder / "postgres", fsync=True)
        self._stack.callback(self.postgres.destroy)
        valkey = Valkey(self.folder / "valkey")
        self._stack.callback(valkey.stop)
        # A file's value (NAME_FILE) would win over the one that is set here.
        for name in [name for name in os.environ if name.endswith("_FILE")]:
            del os.environ[name]
        os.environ |= {
            "DATABASE_URL": self.postgres.start(),
            "REDIS_URL": valkey.start(),
            "DJANGO_SETTINGS_MODULE": PRODUCT,
            "BENCHMARK_FOLDER": str(self.folder),
            "DEBUG": "0",
            "SECRET_KEY": secrets.token_urlsafe(40),
            "ALLOWED_HOSTS": ports.LOOPBACK,
            "LOG_LEVEL": "WARNING",
        }
        translations.compile_stale(ROOT / "locale")
        self._prepare()

    def _prepare(self) -> None:
        import django  # noqa: PLC0415 - reads the environment that was just set
        from django.core.management import call_command  # noqa: PLC0415

        django.setup()
        call_command("collectstatic", interactive=False, verbosity=0)
        call_command("migrate", interactive=False, verbosity=0)
        with (self.folder / "catalogue.log").open("w") as log:
            call_command("load_catalog", stdout=log)


class Web:
    """One gunicorn, and what it costs to ask it."""

    def __init__(self, settings: str, workers: int, threads: int, log: Path, postgres: Postgres, database: str) -> None:
        self.url = f"http://{ports.LOOPBACK}:{ports.find_free()}"
        self._environment = {"DJANGO_SETTINGS_MODULE": settings} | ({"DATABASE_URL": database} if database else {})
        self._workers = ["--workers", str(workers)]
        self._workers += ["--threads", str(threads)] if threads else ["--worker-class", "sync"]
        self._log = log
        self._postgres = postgres
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        command = [
            *(sys.executable, "-m", "gunicorn", "marketplace.wsgi:application"),
            *("--bind", self.url.removeprefix("http://"), *self._workers, "--preload", "--log-level", "warning"),
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                processes.tied_to_parent(command),
                env=os.environ | self._environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        processes.wait_until(self._answers, self._process, what="gunicorn", seconds=WEB_SECONDS, log=str(self._log))

    def stop(self) -> None:
        if self._process is not None:
            processes.end(self._process)

    def ask(self, plan: load.Plan) -> tuple[load.Report, Sample]:
        """Carry the plan out; the sample counts the processor time of web and database together."""
        before = self._cpu_seconds()
        report = load.run(plan)
        spent = self._cpu_seconds() - before
        return report, Sample(report.rate, 1000 * spent / max(report.answers, 1))

    def get(self, path: str) -> str:
        """The page as a visitor without cookies sees it."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + path, timeout=30) as answer:
            return answer.read().decode()

    def log_tail(self) -> str:
        return processes.log_tail(str(self._log))

    def _cpu_seconds(self) -> float:
        return cpu_seconds([self._process.pid, self._postgres.process.pid])

    def _answers(self) -> bool:
        # Not by a page: the first ones warm caches up, which belongs to the uncounted round.
        host, _, port = self.url.removeprefix("http://").partition(":")
        time.sleep(0.1)
        return not ports.is_free(int(port)) and host == ports.LOOPBACK


def cpu_seconds(roots: list[int]) -> float:
    """Processor time of these processes and all below them, the ended ones included; 0 where /proc is missing."""
    stats = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text(errors="replace").rpartition(")")[2].split()
            stats[int(entry.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    wanted = set(roots)
    while more := {pid for pid, (parent, _ticks) in stats.items() if parent in wanted} - wanted:
        wanted |= more
    return sum(stats[pid][1] for pid in wanted if pid in stats) / os.sysconf("SC_CLK_TCK")
