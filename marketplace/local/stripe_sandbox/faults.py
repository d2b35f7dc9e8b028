"""Faults that tests and `make loop` may ask for: the next N matching requests or webhook deliveries go wrong."""

import threading
from dataclasses import dataclass, field
from typing import Any

# drop_before   the connection closes and nothing ran          drop_after    it ran, the connection closes unanswered
# error         500, nothing ran, the key remembers the 500    error_after   it ran, the key remembers a 500
# conflict      409 as for a key in use                        limit         429
# delay         answered after `seconds`
REQUEST_FAULTS = {"drop_before", "drop_after", "error", "error_after", "conflict", "limit", "delay"}

# bad_signature  signed with another secret    drop  not sent, counts as a failed attempt    duplicate  sent twice
# delay          comes again after a pause, behind what happened later
WEBHOOK_FAULTS = {"bad_signature", "delay", "drop", "duplicate"}

# What Stripe itself fails to do the next time somebody asks for it.
OUTCOMES = {"finalization_failed"}


class BadFault(ValueError):
    """A fault that the sandbox does not know."""


@dataclass
class RequestFault:
    kind: str
    method: str = ""
    path: str = ""
    times: int = 1
    after: int = 0  # let so many matching requests pass first
    seconds: float = 0.0

    def matches(self, method: str, path: str) -> bool:
        return self.times > 0 and self.method in {"", method} and path.startswith(self.path)


@dataclass
class Faults:
    """Shared by all request threads and the webhook sender."""

    requests: list[RequestFault] = field(default_factory=list)
    webhooks: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    hold: bool = False
    reverse: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def configure(self, wanted: dict[str, Any]) -> None:
        """Add `requests`, set `webhooks` and `outcomes` counters, `hold` and `reverse`; `reset` forgets all before."""
        unknown = set(wanted) - {"requests", "webhooks", "outcomes", "hold", "reverse", "reset"}
        if unknown:
            raise BadFault(f"unknown: {', '.join(sorted(unknown))}")
        added = [self._request_fault(item) for item in wanted.get("requests", [])]
        webhooks = self._counters("webhooks", wanted, WEBHOOK_FAULTS)
        outcomes = self._counters("outcomes", wanted, OUTCOMES)
        with self._lock:
            if wanted.get("reset"):
                self.requests.clear()
                self.webhooks.clear()
                self.outcomes.clear()
                self.hold = self.reverse = False
            self.requests.extend(added)
            self.webhooks.update(webhooks)
            self.outcomes.update(outcomes)
            self.hold = bool(wanted.get("hold", self.hold))
            self.reverse = bool(wanted.get("reverse", self.reverse))

    @staticmethod
    def _counters(name: str, wanted: dict[str, Any], known: set[str]) -> dict[str, int]:
        counters = wanted.get(name, {})
        if set(counters) - known:
            raise BadFault(f"{name} may be {', '.join(sorted(known))}")
        return {kind: int(count) for kind, count in counters.items()}

    @staticmethod
    def _request_fault(item: dict[str, Any]) -> RequestFault:
        if item.get("kind") not in REQUEST_FAULTS:
            raise BadFault(f"kind may be {', '.join(sorted(REQUEST_FAULTS))}")
        try:
            return RequestFault(**item)
        except TypeError as error:
            raise BadFault(str(error)) from None

    def take(self, method: str, path: str) -> RequestFault | None:
        """The fault this request suffers, used up by it."""
        with self._lock:
            for fault in self.requests:
                if fault.matches(method, path):
                    if fault.after > 0:
                        fault.after -= 1
                        return None
                    fault.times -= 1
                    return fault
        return None

    def take_webhook(self, kind: str) -> bool:
        """Whether this delivery suffers the fault, used up by it."""
        return self._take_one(self.webhooks, kind)

    def take_outcome(self, kind: str) -> bool:
        """Whether what is asked for ends badly, used up by it."""
        return self._take_one(self.outcomes, kind)

    def _take_one(self, counters: dict[str, int], kind: str) -> bool:
        with self._lock:
            if counters.get(kind, 0) <= 0:
                return False
            counters[kind] -= 1
            return True

    def describe(self) -> dict[str, Any]:
        with self._lock:
            return {
                "requests": [vars(fault) for fault in self.requests if fault.times > 0],
                "webhooks": {name: count for name, count in self.webhooks.items() if count},
                "outcomes": {name: count for name, count in self.outcomes.items() if count},
                "hold": self.hold,
                "reverse": self.reverse,
            }
