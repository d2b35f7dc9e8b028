"""Signed deliveries to one address: at least once, retried with a growing pause, faults on request."""

import hashlib
import hmac
import http.client
import json
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from .faults import Faults
from .store import Store

MAX_ATTEMPTS = 60
LONGEST_PAUSE = 60.0
TIMEOUT = 10.0


def signature(payload: bytes, secret: str, at: int) -> str:
    """The Stripe-Signature header (https://docs.stripe.com/webhooks#verify-manually)."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + payload, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class Sender(threading.Thread):
    """One thread, one delivery at a time, so that order is the events' own unless a fault reverses it."""

    def __init__(self, store: Store, faults: Faults, *, url: str, secret: str, first_pause: float) -> None:
        super().__init__(name="stripe-sandbox-webhooks", daemon=True)
        self._store, self._faults = store, faults
        self._url, self._secret = url, secret
        self._first_pause = first_pause
        self._wake = threading.Event()
        self._stopping = False
        self._sending = threading.Lock()

    def nudge(self) -> None:
        """There may be something to send."""
        self._wake.set()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self.join(timeout=TIMEOUT + 5)

    def run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            if not self._faults.hold:
                self.send_due(time.time())
            self._wake.wait(self._pause())

    def _pause(self) -> float:
        with self._store.transaction():
            due = self._store.next_due()
        if due is None or self._faults.hold:
            return 3600.0
        return max(0.01, due - time.time())

    def send_due(self, due_by: float | None) -> int:
        """Send what is due, or with None everything that waits, held or not. Returns how many were accepted."""
        with self._sending:
            with self._store.transaction():
                rows = self._store.pending_deliveries(due_by=due_by)
                events = {row["event"]: self._store.get("event", row["event"]) for row in rows}
            if self._faults.reverse:
                rows = list(reversed(rows))
            return sum(self._deliver(row, events[row["event"]]) for row in rows if not self._stopping)

    def _deliver(self, row: Any, event: dict[str, Any] | None) -> bool:
        payload = json.dumps(event, indent=2, ensure_ascii=False).encode()
        answer = "delayed" if self._faults.take_webhook("delay") else self._post(payload)
        if answer.startswith("2") and self._faults.take_webhook("duplicate"):
            answer = self._post(payload)
        attempts = row["attempts"] + 1
        accepted = answer.startswith("2")
        state = "delivered" if accepted else "pending" if attempts < MAX_ATTEMPTS else "given_up"
        due = time.time() + min(self._first_pause * 2 ** min(attempts - 1, 12), LONGEST_PAUSE)
        with self._store.transaction():
            self._store.record_delivery(row["seq"], state=state, attempts=attempts, due=due, answer=answer)
        return accepted

    def _post(self, payload: bytes) -> str:
        """The status of the answer, or why there was none."""
        if self._faults.take_webhook("drop"):
            return "dropped"
        forged = self._faults.take_webhook("bad_signature")
        secret = "whsec_forged" if forged else self._secret
        target = urlsplit(self._url)
        factory = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
        connection = factory(target.hostname or "", target.port, timeout=TIMEOUT)
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "User-Agent": "Stripe/1.0 (sandbox)",
            "Stripe-Signature": signature(payload, secret, int(time.time())),
        }
        try:
            connection.request("POST", target.path or "/", body=payload, headers=headers)
            response = connection.getresponse()
            response.read()
            return str(response.status)
        except (OSError, ValueError, http.client.HTTPException) as error:
            return f"no answer: {type(error).__name__}"
        finally:
            connection.close()
