"""What every engine driver promises, in facts; its errors are in errors.py. Pure: no models, no engine, no clock.

A driver is thin and never waits. Each call is bounded by timeouts and returns what the engine said; waiting, retrying
and deciding belong to the reconciler.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import NoReturn, Protocol
from uuid import UUID

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from marketplace.lib import env
from rentals.drivers.errors import AuthError, InvalidSpec, Unsupported

# --- connections -----------------------------------------------------------------------------------------------------


class Secret:
    """A value that never shows in a repr, a log line or a pickle (and so not in a task's arguments)."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not to be sent anywhere; send its reference")


@dataclass(frozen=True)
class Connection:
    """Where an engine answers and with which credential."""

    endpoint: str
    credential: Secret


def resolve_credential(reference: str) -> Secret:
    """`env:NAME` (or the file that NAME_FILE points to) or `file:/path`. AuthError when there is nothing to be had."""
    scheme, _colon, place = reference.partition(":")
    value = ""
    try:
        if scheme == "env" and place:
            value = env.secret(place)
        elif scheme == "file" and place:
            value = Path(place).read_text(encoding="utf-8").strip()
        else:
            # Never echoed: somebody may have pasted the secret itself.
            raise AuthError("a credential reference starts with env: or file:")
    except (OSError, ValueError):
        raise AuthError(f"cannot read the credential {reference}") from None
    if not value:
        raise AuthError(f"the credential {reference} is empty")
    return Secret(value)


# --- what is wanted --------------------------------------------------------------------------------------------------


class Cap(StrEnum):
    SLICE = "slice"
    WHOLE = "whole"
    CLUSTER = "cluster"
    STOP = "stop"
    RESIZE = "resize"
    SNAPSHOT = "snapshot"
    CONSOLE = "console"
    FENCE = "fence"
    KEYS_LIVE = "keys_live"
    UTILISATION = "utilisation"


class PowerVerb(StrEnum):
    START = "start"
    STOP = "stop"
    REBOOT = "reboot"


class Destroyed(StrEnum):
    GONE = "gone"
    NOT_YET = "not_yet"


@dataclass(frozen=True)
class MemberSpec:
    """One machine of a rental: on which host, with which cards (serial numbers)."""

    ordinal: int
    host: str
    cards: tuple[str, ...]


@dataclass(frozen=True)
class Accelerator:
    """`count` is cards per member; `memory_gb` per card, as marketed, for display only."""

    vendor: str
    model: str
    resource_name: str
    count: int
    memory_gb: int | None = None


@dataclass(frozen=True)
class ImageSpec:
    slug: str
    digest: str
    framework: str = ""


@dataclass(frozen=True)
class Spec:
    """What a rental's generation is to be. CPU, memory and disk are per member, in whole units and GB."""

    installation: str
    rental: UUID
    generation: int
    kind: str
    members: tuple[MemberSpec, ...]
    accelerator: Accelerator
    vcpus: int
    memory_gb: int
    disk_gb: int
    image: ImageSpec
    public_keys: tuple[str, ...]
    hostname: str = ""

    def __post_init__(self) -> None:
        if not self.members or sorted(m.ordinal for m in self.members) != list(range(len(self.members))):
            raise InvalidSpec("members must be numbered from 0 without a gap")
        if any(len(set(m.cards)) != self.accelerator.count for m in self.members):
            raise InvalidSpec("each member needs exactly the accelerator's count of different cards")

    @property
    def hash(self) -> str:
        """Same for every spec that the same machines satisfy.

        Keys change while a machine runs, and host and cards may change between a stop and a start, so none of them
        counts; the probe compares the cards themselves.
        """
        facts = {
            "installation": self.installation,
            "rental": str(self.rental),
            "generation": self.generation,
            "kind": self.kind,
            "members": len(self.members),
            "accelerator": [self.accelerator.vendor, self.accelerator.resource_name, self.accelerator.model],
            "count": self.accelerator.count,
            "size": [self.vcpus, self.memory_gb, self.disk_gb],
            "image": [self.image.slug, self.image.digest],
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]

    def name(self, ordinal: int) -> str:
        return machine_name(self.rental, self.generation, ordinal)


def machine_name(rental: UUID, generation: int, ordinal: int) -> str:
    """The engine object's name, from ids only, so that a repeated create meets its own first attempt."""
    return f"r-{rental.hex[:12]}-g{generation}-{ordinal}"


# --- what is seen ----------------------------------------------------------------------------------------------------


class MemberState(StrEnum):
    CREATING = "creating"
    BOOTING = "booting"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"
    TERMINATING = "terminating"
    GONE = "gone"


# The state of a whole rental is its member's that is furthest from running: one missing member is a missing rental.
_WORST_FIRST = (
    MemberState.GONE,
    MemberState.FAILED,
    MemberState.TERMINATING,
    MemberState.STOPPED,
    MemberState.CREATING,
    MemberState.BOOTING,
    MemberState.RUNNING,
)


@dataclass(frozen=True)
class Endpoint:
    host: str
    port: int
    user: str


@dataclass(frozen=True)
class ObservedMember:
    """`host_key` is a public key line in OpenSSH form, `fingerprint` its SHA256:… print. Empty while not known."""

    ordinal: int
    name: str
    state: MemberState
    node: str = ""
    cards: tuple[str, ...] = ()
    endpoint: Endpoint | None = None
    host_key: str = ""
    reason: str = ""

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.host_key) if self.host_key else ""


@dataclass(frozen=True)
class Observed:
    """One generation of a rental as the engine described it. A member the engine no longer knows is GONE."""

    installation: str
    rental: UUID
    generation: int
    spec_hash: str
    members: tuple[ObservedMember, ...]

    @property
    def state(self) -> MemberState:
        return min((member.state for member in self.members), key=_WORST_FIRST.index)

    @property
    def reason(self) -> str:
        return "; ".join(member.reason for member in self.members if member.reason)

    @property
    def cards(self) -> tuple[str, ...]:
        return tuple(card for member in self.members for card in member.cards)

    @property
    def endpoint(self) -> Endpoint | None:
        """Where the customer logs in: member 0."""
        return self.members[0].endpoint

    @property
    def host_key(self) -> str:
        return self.members[0].host_key

    @property
    def fingerprint(self) -> str:
        return self.members[0].fingerprint


def fingerprint(public_line: str) -> str:
    """SHA256:… as `ssh-keygen -l` prints it."""
    blob = base64.b64decode(public_line.split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


class Fault(StrEnum):
    """Why a probe was not content."""

    NOT_RUNNING = "not_running"
    UNREACHABLE = "unreachable"
    HOST_KEY_CHANGED = "host_key_changed"
    LOGIN_REFUSED = "login_refused"
    CARDS_UNREADABLE = "cards_unreadable"
    CARDS_DIFFER = "cards_differ"


FAULT_MESSAGES: dict[Fault, str | Promise] = {
    Fault.NOT_RUNNING: _("The machine is not running yet."),
    Fault.UNREACHABLE: _("The machine does not answer over SSH yet."),
    Fault.HOST_KEY_CHANGED: _("The machine shows another host key than before."),
    Fault.LOGIN_REFUSED: _("The machine refused our login."),
    Fault.CARDS_UNREADABLE: _("The machine did not list its cards."),
    Fault.CARDS_DIFFER: _("The cards inside the machine are not the ones of this rental."),
}


@dataclass(frozen=True)
class Health:
    """What a login showed. `ok`: every member was logged into, has the right host key and exactly the right cards."""

    ok: bool
    logged_in: bool = False
    cards_seen: tuple[str, ...] = ()
    host_key_matches: bool = False
    banner: str = ""
    reason: Fault | None = None
    detail: str = field(default="", compare=False)

    @property
    def message(self) -> str | Promise:
        return FAULT_MESSAGES[self.reason] if self.reason else ""


@dataclass(frozen=True)
class Capacity:
    """`machines_free` machines may still be made in the pool; `cards_in_use` are plugged in now, by host."""

    machines_free: int
    cards_in_use: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class CardReading:
    """What its vendor's exporter says of one card, None where it is not published. `busy` in percent, memory in MiB,
    temperature in °C, power in W. `serial` is the exporter's name of the card, `index` its number on the host."""

    serial: str
    index: int | None = None
    busy: Decimal | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    temperature: int | None = None
    power: Decimal | None = None


# --- the promise -----------------------------------------------------------------------------------------------------


class Driver(Protocol):
    """One engine. Every method may raise any DriverError; those that change something also UnknownOutcome."""

    capabilities: frozenset[Cap]

    def offers(self, pool: str) -> Capacity: ...

    def ensure(self, spec: Spec) -> Observed:
        """Creates or adopts; returns at once, perhaps before the machine runs. Safe to repeat after any outcome."""

    def observe(self, rental: UUID) -> Observed | None:
        """The newest generation. None only if the engine itself said that it has nothing of this rental."""

    def list_owned(self, installation: str) -> Iterator[Observed]:
        """Everything that carries the installation's label, one entry a rental and generation."""

    def power(self, rental: UUID, verb: PowerVerb, *, members: Sequence[MemberSpec] = ()) -> None:
        """A start may name the members' cards, because a stopped machine's own may be rented out by now."""

    def resize(self, rental: UUID, spec: Spec) -> Observed: ...

    def set_keys(self, rental: UUID, public_keys: Sequence[str]) -> None:
        """Exactly these keys may log in from now on."""

    def destroy(self, rental: UUID) -> Destroyed:
        """All generations. Absent is GONE, so it may be repeated until it says so."""

    def console(self, rental: UUID, tail: int = 50) -> str: ...

    def probe(
        self, rental: UUID, *, public_keys: Sequence[str], cards: Sequence[str], host_keys: Sequence[str] = ()
    ) -> Health:
        """Logs in with a one-time key and counts the cards; see `probe.probe`."""

    def fence(self, node: str) -> None:
        """Cuts off every machine of the node. Returns only when the engine confirmed it."""

    def utilisation(self, rental: UUID) -> tuple[CardReading, ...]:
        """What the rental's own cards do now, by the vendor's exporter; a card it does not report is left out.

        Nobody may take silence for idleness: an exporter that does not answer is Transient, never zero percent.
        """
        raise Unsupported("no exporter is read here")

    def close(self) -> None: ...


# --- keys ------------------------------------------------------------------------------------------------------------

_KEY_TYPE = re.compile(r"(ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)|sk-[a-z0-9-]+@openssh\.com)")


def key_type_and_blob(public_line: str) -> str:
    """The part of a public key line that names the key; comments do not count when keys are compared."""
    words = public_line.split()
    if len(words) < 2 or not _KEY_TYPE.fullmatch(words[0]):
        raise InvalidSpec("not a public key line")
    return f"{words[0]} {words[1]}"
