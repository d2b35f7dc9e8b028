"""What every endpoint gets, and the few things all of them do: look up, list by pages, tell the world."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .errors import invalid, missing
from .faults import Faults
from .store import Store

API_VERSION = "2026-10-28.endive"
MAX_METADATA_KEYS, MAX_METADATA_NAME, MAX_METADATA_VALUE = 50, 40, 500  # https://docs.stripe.com/metadata

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
EMPTY = {"type": "string", "enum": [""]}
STRINGS = {"type": "array", "items": STRING}
METADATA = {"anyOf": [{"type": "object", "additionalProperties": STRING}, EMPTY]}
RANGE = {"anyOf": [{"type": "object", "properties": dict.fromkeys(("gt", "gte", "lt", "lte"), INTEGER)}, INTEGER]}
PAGE = {"limit": INTEGER, "starting_after": STRING, "ending_before": STRING}


def one_of(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


@dataclass
class Call:
    """One request: its parameters (coerced), the id in its address, the store, and where its pages can be reached."""

    store: Store
    base_url: str
    params: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    request_id: str | None = None
    key: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    faults: Faults | None = None

    @property
    def now(self) -> int:
        return self.store.now()

    def require(self, kind: str, identifier: str | None = None, *, param: str = "id") -> dict[str, Any]:
        """The stored object, or Stripe's refusal when there is none."""
        wanted = self.id if identifier is None else identifier
        found = self.store.get(kind, wanted)
        if found is None:
            raise missing(kind.replace("_", " "), wanted, param=param)
        return found

    def suffers(self, outcome: str) -> bool:
        """Whether a test asked for this to end badly, used up by asking."""
        return self.faults is not None and self.faults.take_outcome(outcome)

    def emit(self, type: str, body: dict[str, Any]) -> None:
        """Record an event with the object as it is now; it leaves with the transaction that caused it."""
        event: dict[str, Any] = {
            "id": self.store.new_id("evt"),
            "object": "event",
            "api_version": API_VERSION,
            "created": self.now,
            "data": {"object": public(body)},
            "livemode": False,
            "pending_webhooks": 1,
            "request": {"id": self.request_id, "idempotency_key": self.key},
            "type": type,
        }
        self.store.add(event)
        self.store.queue_delivery(event["id"])
        self.events.append(event)

    def page(self, items: list[dict[str, Any]], path: str, *, newest_first: bool = True) -> dict[str, Any]:
        """One page of a list (https://docs.stripe.com/api/pagination); `items` come oldest first."""
        size = self.params.get("limit", 10)
        if not 1 <= size <= 100:
            raise invalid("Limit must be between 1 and 100", param="limit")
        ordered = list(reversed(items)) if newest_first else items
        if after := self.params.get("starting_after"):
            rest = ordered[_position(ordered, after, "starting_after") + 1 :]
            window, more = rest[:size], len(rest) > size
        elif before := self.params.get("ending_before"):
            rest = ordered[: _position(ordered, before, "ending_before")]
            window, more = rest[-size:], len(rest) > size
        else:
            window, more = ordered[:size], len(ordered) > size
        return {"object": "list", "data": window, "has_more": more, "url": path}


def public(body: dict[str, Any]) -> dict[str, Any]:
    """What Stripe would show of it: the sandbox's own notes left out, in a list's items too."""
    shown = {key: value for key, value in body.items() if not key.startswith("sandbox_")}
    if shown.get("object") == "list":
        shown["data"] = [public(item) for item in shown["data"]]
    return shown


def _position(items: list[dict[str, Any]], identifier: str, param: str) -> int:
    for index, item in enumerate(items):
        if item["id"] == identifier:
            return index
    raise missing("object", identifier, param=param)


def in_range(wanted: Any, created: int) -> bool:
    """Stripe's `created` filter: one instant or gt, gte, lt, lte."""
    if wanted is None:
        return True
    if isinstance(wanted, int):
        return created == wanted
    tests: dict[str, Callable[[int], bool]] = {
        "gt": lambda bound: created > bound,
        "gte": lambda bound: created >= bound,
        "lt": lambda bound: created < bound,
        "lte": lambda bound: created <= bound,
    }
    return all(tests[name](bound) for name, bound in wanted.items())


def merged_metadata(old: dict[str, str], new: Any) -> dict[str, str]:
    """New keys added, empty values removed, an empty string clears all; Stripe's limits enforced."""
    if new is None:
        return old
    if new == "":
        return {}
    for name, value in new.items():
        if len(name) > MAX_METADATA_NAME or "[" in name or "]" in name:
            raise invalid(f"Metadata keys can be at most {MAX_METADATA_NAME} characters long", param="metadata")
        if len(value) > MAX_METADATA_VALUE:
            raise invalid(
                f"Metadata values can have up to {MAX_METADATA_VALUE} characters, but you passed in a value that is "
                f"{len(value)} characters.",
                param=f"metadata[{name}]",
            )
    merged = {name: value for name, value in {**old, **new}.items() if value != ""}
    if len(merged) > MAX_METADATA_KEYS:
        raise invalid(f"You can only have {MAX_METADATA_KEYS} metadata keys", param="metadata")
    return merged
