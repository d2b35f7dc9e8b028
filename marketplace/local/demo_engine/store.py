"""The engine's memory: one SQLite file, every change on disk before it is answered."""

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CONSOLE_LINES = 200


class StateInUse(RuntimeError):
    """Another engine already works on this state folder."""


@dataclass
class Machine:
    """One machine as it is remembered. `state`: creating, booting, running, stopped, failed or terminating."""

    name: str
    host: str
    hostname: str
    vendor: str
    cards: list[dict[str, Any]]
    image: dict[str, str]
    vcpus: int
    memory_gb: int
    disk_gb: int
    public_keys: list[str]
    labels: dict[str, str]
    host_key: str
    host_public: str
    port: int
    created_at: float
    state: str = "creating"
    reason: str = ""
    running_since: float | None = None
    # What a test asked to go wrong inside: {"boot_fails": true, "missing_cards": 1}
    defects: dict[str, Any] = field(default_factory=dict)

    @property
    def cards_inside(self) -> list[dict[str, Any]]:
        """What the machine itself can see, which a defect may make less than it was given."""
        return self.cards[: max(0, len(self.cards) - int(self.defects.get("missing_cards", 0)))]


class Store:
    """Machines, their console lines and the faults asked for. The folder is private: it holds host keys."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise StateInUse(f"another demo engine uses {folder}") from None
        file = folder / "machines.sqlite3"
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.executescript(
            """
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = FULL;
            CREATE TABLE IF NOT EXISTS machine (name TEXT PRIMARY KEY, document TEXT NOT NULL);
            CREATE TABLE IF NOT EXISTS console (id INTEGER PRIMARY KEY, name TEXT NOT NULL, line TEXT NOT NULL);
            CREATE INDEX IF NOT EXISTS console_by_name ON console (name, id);
            CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
            """
        )

    def close(self) -> None:
        self._db.close()
        os.close(self._lock)

    def machines(self) -> Iterator[Machine]:
        for (document,) in self._db.execute("SELECT document FROM machine ORDER BY name").fetchall():
            yield Machine(**json.loads(document))

    def save(self, machine: Machine, line: str = "") -> None:
        """The machine and the console line that explains the change, together or not at all."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.execute(
                "INSERT INTO machine VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET document = excluded.document",
                (machine.name, json.dumps(asdict(machine))),
            )
            if line:
                self._append(machine.name, line)
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

    def _append(self, name: str, line: str) -> None:
        self._db.execute("INSERT INTO console (name, line) VALUES (?, ?)", (name, line))
        self._db.execute(
            "DELETE FROM console WHERE name = ? AND id <= "
            "(SELECT id FROM console WHERE name = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
            (name, name, CONSOLE_LINES),
        )

    def remove(self, name: str) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("DELETE FROM machine WHERE name = ?", (name,))
        self._db.execute("DELETE FROM console WHERE name = ?", (name,))
        self._db.execute("COMMIT")

    def console(self, name: str, tail: int) -> list[str]:
        rows = self._db.execute("SELECT line FROM console WHERE name = ? ORDER BY id DESC LIMIT ?", (name, tail))
        return [line for (line,) in rows][::-1]

    def setting(self, name: str) -> Any:
        row = self._db.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else None

    def set_setting(self, name: str, value: Any) -> None:
        self._db.execute(
            "INSERT INTO setting VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, json.dumps(value)),
        )
