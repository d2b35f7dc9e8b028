"""What the sandbox remembers: one SQLite file (or memory), one transaction a request.

Objects are kept as the JSON that Stripe would answer, beside the few columns that lists filter by. An object, the
events it caused and the idempotency key that names it are committed together, so a kill leaves all of them or none.
"""

import json
import secrets
import sqlite3
import string
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEY_LIFETIME = 24 * 3600  # https://docs.stripe.com/api/idempotent_requests: pruned once at least 24 hours old

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    parent TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS objects_by_parent ON objects (kind, parent, seq);
CREATE INDEX IF NOT EXISTS objects_by_number ON objects (kind, json_extract(body, '$.number'));
CREATE INDEX IF NOT EXISTS objects_by_email ON objects (kind, json_extract(body, '$.email'));
CREATE INDEX IF NOT EXISTS objects_by_status ON objects (kind, json_extract(body, '$.status'));
CREATE INDEX IF NOT EXISTS objects_by_token ON objects (kind, json_extract(body, '$.sandbox_token'));
CREATE TABLE IF NOT EXISTS keys (
    key TEXT PRIMARY KEY, endpoint TEXT NOT NULL, params TEXT NOT NULL,
    status INTEGER NOT NULL, body TEXT NOT NULL, created INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS keys_by_age ON keys (created);
CREATE TABLE IF NOT EXISTS deliveries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
    due REAL NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT 'pending', answer TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS deliveries_by_state ON deliveries (state, due);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""

_ALPHABET = string.ascii_letters + string.digits


class Store:
    """All state. `transaction()` holds the one lock; every other method is called inside it."""

    def __init__(self, path: Path | None, *, deliver: bool = True) -> None:
        self._deliver = deliver
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._db = sqlite3.connect(str(path) if path else ":memory:", check_same_thread=False, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        if path:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Nothing may be called afterwards."""
        with self._lock:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, one at a time."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    # --- clock -------------------------------------------------------------------------------------------------
    def now(self) -> int:
        """Unix seconds by the sandbox's clock: the machine's, moved by what tests added."""
        return int(time.time()) + self.number("clock_offset")

    def number(self, name: str) -> int:
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return int(row["value"]) if row else 0

    def set_number(self, name: str, value: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, str(value)))

    # --- objects -------------------------------------------------------------------------------------------------
    @staticmethod
    def new_id(prefix: str, length: int = 24) -> str:
        return f"{prefix}_{''.join(secrets.choice(_ALPHABET) for _ in range(length))}"

    def add(self, body: dict[str, Any], *, parent: str | None = None) -> dict[str, Any]:
        self._db.execute(
            "INSERT INTO objects (id, kind, parent, body) VALUES (?, ?, ?, ?)",
            (body["id"], body["object"], parent, json.dumps(body)),
        )
        return body

    def get(self, kind: str, identifier: str | None) -> dict[str, Any] | None:
        row = self._db.execute("SELECT body FROM objects WHERE id = ? AND kind = ?", (identifier, kind)).fetchone()
        return json.loads(row["body"]) if row else None

    def save(self, body: dict[str, Any], *, parent: str | None = None) -> None:
        """Replace the stored object; `parent` moves it (a pending item that an invoice takes in)."""
        changed = self._db.execute(
            "UPDATE objects SET body = ?, parent = COALESCE(?, parent) WHERE id = ?",
            (json.dumps(body), parent, body["id"]),
        )
        if changed.rowcount != 1:
            raise LookupError(body["id"])

    def remove(self, identifier: str) -> None:
        self._db.execute("DELETE FROM objects WHERE id = ?", (identifier,))

    def all(self, kind: str, *, parent: str | None = None) -> list[dict[str, Any]]:
        """Oldest first."""
        where, values = ("AND parent = ?", (kind, parent)) if parent else ("", (kind,))
        query = f"SELECT body FROM objects WHERE kind = ? {where} ORDER BY seq"
        return [json.loads(row["body"]) for row in self._db.execute(query, values)]

    def having(self, kind: str, name: str, value: str) -> list[dict[str, Any]]:
        """Those whose field `name` (number, email, status or sandbox_token: indexed) has this value, oldest first."""
        query = f"SELECT body FROM objects WHERE kind = ? AND json_extract(body, '$.{name}') = ? ORDER BY seq"
        return [json.loads(row["body"]) for row in self._db.execute(query, (kind, value))]

    # --- idempotency keys ----------------------------------------------------------------------------------------
    def remembered(self, key: str) -> sqlite3.Row | None:
        """The stored answer of a key that is younger than 24 hours."""
        self._db.execute("DELETE FROM keys WHERE created <= ?", (self.now() - KEY_LIFETIME,))
        return self._db.execute("SELECT * FROM keys WHERE key = ?", (key,)).fetchone()

    def remember(self, key: str, endpoint: str, params: str, status: int, body: dict[str, Any]) -> None:
        self._db.execute(
            "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?)",
            (key, endpoint, params, status, json.dumps(body), self.now()),
        )

    # --- webhook deliveries --------------------------------------------------------------------------------------
    def queue_delivery(self, event: str) -> None:
        """An event goes to the address that is known when it happens; without one it is only listed."""
        if self._deliver:
            self._db.execute("INSERT INTO deliveries (event) VALUES (?)", (event,))

    def pending_deliveries(self, *, due_by: float | None) -> list[sqlite3.Row]:
        """In the order their events happened; with `due_by=None` those that wait for a later retry too."""
        return self._db.execute(
            "SELECT * FROM deliveries WHERE state = 'pending' AND due <= ? ORDER BY seq",
            (due_by if due_by is not None else float("inf"),),
        ).fetchall()

    def next_due(self) -> float | None:
        return self._db.execute("SELECT MIN(due) FROM deliveries WHERE state = 'pending'").fetchone()[0]

    def record_delivery(self, seq: int, *, state: str, attempts: int, due: float, answer: str) -> None:
        self._db.execute(
            "UPDATE deliveries SET state = ?, attempts = ?, due = ?, answer = ? WHERE seq = ?",
            (state, attempts, due, answer, seq),
        )

    def deliveries(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self._db.execute("SELECT * FROM deliveries ORDER BY seq")]
