"""A load generator in a process of its own: threads that send prepared requests over fresh connections.

Both sides of a comparison are asked by it in the same way. It reads one plan as JSON from its input and writes one
report to its output. It knows nothing of Django, so that starting it is cheap.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

# In a request's text: replaced by 32 fresh hexadecimal digits each time it is sent.
FRESH = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@"
ANSWER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Send the `requests` in turn over `connections` at once: `count` of them, or what fits into `seconds`, or both.

    Every answer with one of the `wanted` statuses must hold all of `parts`.
    """

    url: str
    requests: list[str]
    connections: int
    count: int = 0
    seconds: float = 0.0
    wanted: list[int] = field(default_factory=lambda: [200])
    parts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Report:
    """How often each status came (0: no whole answer), how many wanted answers lacked a part, and how long it took."""

    seconds: float
    statuses: dict[int, int]
    lacking: int
    example: str

    @property
    def answers(self) -> int:
        return sum(self.statuses.values())

    @property
    def rate(self) -> float:
        return self.answers / self.seconds


def run(plan: Plan) -> Report:
    """The report of a generator process that carried the plan out."""
    command = [sys.executable, "-m", "benchmarks.load"]
    done = subprocess.run(command, input=json.dumps(asdict(plan)), capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    return Report(**facts | {"statuses": {int(status): times for status, times in facts["statuses"].items()}})


def request(method: str, url: str, *, cookies: Mapping[str, str] | None = None, form: Any = None) -> str:
    """The text of one request; a form may hold FRESH, which keeps its length."""
    address = urlsplit(url)
    body = urlencode(form, doseq=True, safe="@") if form else ""
    target = f"{address.path}?{address.query}" if address.query else address.path
    headers = [f"{method} {target} HTTP/1.1", f"Host: {address.netloc}", "Connection: close"]
    if cookies:
        headers.append("Cookie: " + "; ".join(f"{name}={value}" for name, value in cookies.items()))
    if form:
        headers += ["Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}"]
    return "\r\n".join([*headers, "", body])


# --- inside the generator --------------------------------------------------------------------------------------------
class Generator:
    """Carries out one plan; its threads share the counters under one lock."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        address = urlsplit(plan.url)
        self.address = (address.hostname, address.port)
        self.requests = [text.partition(FRESH) for text in plan.requests]
        self.parts = [part.encode() for part in plan.parts]
        self.lock = threading.Lock()
        self.sent = 0
        self.statuses: Counter[int] = Counter()
        self.lacking = 0
        self.example = ""
        self.deadline = 0.0

    def run(self) -> Report:
        started = time.perf_counter()
        self.deadline = started + self.plan.seconds
        threads = [threading.Thread(target=self._work) for _connection in range(self.plan.connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return Report(time.perf_counter() - started, dict(self.statuses), self.lacking, self.example)

    def _work(self) -> None:
        while (number := self._next()) is not None:
            head, fresh, tail = self.requests[number % len(self.requests)]
            self._count(self._ask(f"{head}{uuid.uuid4().hex if fresh else ''}{tail}".encode()))

    def _next(self) -> int | None:
        """The number of the next request, or None when the plan is done."""
        with self.lock:
            number = self.sent
            is_over = self.plan.seconds and time.perf_counter() >= self.deadline
            if is_over or (self.plan.count and number >= self.plan.count):
                return None
            self.sent += 1
            return number

    def _ask(self, text: bytes) -> bytes:
        pieces = []
        try:
            with socket.create_connection(self.address, timeout=ANSWER_SECONDS) as connection:
                connection.sendall(text)
                while piece := connection.recv(262144):
                    pieces.append(piece)
        except OSError:
            return b""
        return b"".join(pieces)

    def _count(self, answer: bytes) -> None:
        status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
        wanted = status in self.plan.wanted
        lacking = wanted and not all(part in answer for part in self.parts)
        with self.lock:
            self.statuses[status] += 1
            self.lacking += lacking
            if (lacking or not wanted) and not self.example:
                self.example = answer[:2000].decode(errors="replace")


def refusals(report: Report, allowed: Sequence[int]) -> int:
    """Answers with another status than these."""
    return sum(times for status, times in report.statuses.items() if status not in allowed)


if __name__ == "__main__":
    json.dump(asdict(Generator(Plan(**json.load(sys.stdin))).run()), sys.stdout)
