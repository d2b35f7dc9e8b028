"""The demo engine's driver: httpx, no waiting, the engine's answers translated into this house's words.

The engine stands on the same computer; that no GPU is attached is said by the machines themselves. All else is as with
any engine: objects are found by label, names come from ids, an answer that did not come is looked for.
"""

import functools
import logging
import ssl
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

import httpx

from rentals.drivers import exporter
from rentals.drivers import probe as ssh_probe
from rentals.drivers.base import (
    Cap,
    Capacity,
    CardReading,
    Connection,
    Destroyed,
    Endpoint,
    Health,
    MemberSpec,
    MemberState,
    Observed,
    ObservedMember,
    PowerVerb,
    Spec,
    machine_name,
)
from rentals.drivers.errors import (
    Ambiguous,
    AuthError,
    DriverError,
    ImageError,
    InvalidSpec,
    NoCapacity,
    NodeLost,
    Quota,
    Transient,
    UnknownOutcome,
    Unsupported,
)

log = logging.getLogger(__name__)

TIMEOUT = httpx.Timeout(5.0, connect=2.0)
# A reading is one of many in a row and soon asked for again.
READING_TIMEOUT = httpx.Timeout(2.0, connect=1.0)
# No request left this computer, so nothing can have been done.
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

REFUSALS: dict[str, type[DriverError]] = {
    "no_capacity": NoCapacity,
    "quota_exceeded": Quota,
    "image_not_found": ImageError,
    "not_running": InvalidSpec,
    "terminating": Transient,
}


class NameTaken(Transient):
    """The create met an object of its own name: look again."""


def _json(response: httpx.Response, failure: type[DriverError]) -> Any:
    try:
        return response.json()
    except ValueError:
        raise failure("the engine's answer is not JSON") from None


def _text(response: httpx.Response, _failure: type[DriverError]) -> str:
    return response.text


# What an answer holds, or the failure that an unreadable one is.
Reader = Callable[[httpx.Response, type[DriverError]], Any]


@functools.cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


class DemoDriver:
    capabilities = frozenset(
        {Cap.SLICE, Cap.WHOLE, Cap.CLUSTER, Cap.STOP, Cap.CONSOLE, Cap.FENCE, Cap.KEYS_LIVE, Cap.UTILISATION},
    )

    def __init__(self, connection: Connection) -> None:
        self._http = httpx.Client(
            base_url=connection.endpoint,
            headers={"Authorization": f"Bearer {connection.credential.reveal()}"},
            timeout=TIMEOUT,
            verify=_tls(),
            trust_env=False,  # a proxy or CA setting of the shell must not reach into the engine's network
        )

    def close(self) -> None:
        self._http.close()

    # --- questions -----------------------------------------------------------------------------------------------

    def offers(self, pool: str) -> Capacity:
        answer = self._ask("GET", "/v1/capacity")
        return Capacity(
            machines_free=answer["free"],
            cards_in_use={host["host"]: tuple(host["cards_in_use"]) for host in answer["hosts"]},
        )

    def observe(self, rental: UUID) -> Observed | None:
        """NodeLost while a host that carries a member does not report."""
        machines = self._find(rental=str(rental))
        return _newest(machines) if machines else None

    def list_owned(self, installation: str) -> Iterator[Observed]:
        """Objects with the installation's label but no readable rental are logged, not touched."""
        machines = [machine for machine in self._find(installation=installation) if _is_readable(machine)]
        machines.sort(key=_rental_and_generation)
        for _key, group in groupby(machines, key=_rental_and_generation):
            yield _observed(list(group))

    def console(self, rental: UUID, tail: int = 50) -> str:
        lines: list[str] = []
        for machine in self._find(rental=str(rental)):
            answer = self._ask(
                "GET", f"/v1/machines/{machine['name']}/console", params={"tail": min(max(tail, 1), 200)}
            )
            lines += answer["lines"] if answer else []
        return "\n".join(lines[-tail:])

    def probe(
        self, rental: UUID, *, public_keys: Sequence[str], cards: Sequence[str], host_keys: Sequence[str] = ()
    ) -> Health:
        return ssh_probe.probe(self, rental, public_keys=public_keys, cards=cards, host_keys=host_keys)

    def utilisation(self, rental: UUID) -> tuple[CardReading, ...]:
        """The exporters of all members, of the rental's own cards only."""
        readings: list[CardReading] = []
        for machine in self._find(rental=str(rental), timeout=READING_TIMEOUT):
            path = f"/v1/machines/{machine['name']}/metrics"
            text = self._ask("GET", path, absent=Transient, read=_text, timeout=READING_TIMEOUT)
            own = {card["serial"] for card in machine["cards"]}
            try:
                readings += [card for card in exporter.cards(text) if card.serial in own]
            except exporter.NotAnExporter as error:
                raise Transient(f"GET {path}: {error}") from None
        return tuple(readings)

    # --- verbs ---------------------------------------------------------------------------------------------------

    def ensure(self, spec: Spec) -> Observed:
        """Looks first, creates what is missing, adopts what matches. A name that turns out taken is looked at again."""
        present = self._present(spec)
        for member in spec.members:
            if member.ordinal in present:
                continue
            try:
                present[member.ordinal] = self._ask("POST", "/v1/machines", json=_wanted(spec, member))
            except NameTaken:
                present = self._present(spec)
                if member.ordinal not in present:
                    raise
        return _observed(list(present.values()))

    def _present(self, spec: Spec) -> dict[int, dict[str, Any]]:
        """Ordinal → machine of this generation. Ambiguous when one of the rental is not what we would have made."""
        present: dict[int, dict[str, Any]] = {}
        for machine in self._find(rental=str(spec.rental)):
            labels, name = machine["labels"], machine["name"]
            if labels.get("generation") != str(spec.generation):
                if machine["state"] == MemberState.TERMINATING:
                    continue
                raise Ambiguous(f"{name} is of another generation and still there")
            if machine["state"] == MemberState.TERMINATING:
                raise Transient(f"{name} is still being deleted", retry_after=1)
            if labels.get("spec-hash") != spec.hash or labels.get("installation") != spec.installation:
                raise Ambiguous(f"{name} was not made from this specification")
            ordinal = int(labels.get("ordinal", "-1"))
            if ordinal in present or name != spec.name(ordinal):
                raise Ambiguous(f"more than one machine for member {ordinal} of {spec.rental}")
            present[ordinal] = machine
        return present

    def power(self, rental: UUID, verb: PowerVerb, *, members: Sequence[MemberSpec] = ()) -> None:
        cards = {member.ordinal: member.cards for member in members}
        for machine in self._living(rental):
            body: dict[str, Any] = {"verb": verb.value}
            ordinal = int(machine["labels"]["ordinal"])
            if verb is PowerVerb.START and ordinal in cards:
                body["cards"] = _same_model(machine, cards[ordinal])
            self._ask("POST", f"/v1/machines/{machine['name']}/power", json=body, absent=InvalidSpec)

    def resize(self, rental: UUID, spec: Spec) -> Observed:
        raise Unsupported("demo machines keep their size")

    def set_keys(self, rental: UUID, public_keys: Sequence[str]) -> None:
        for machine in self._living(rental):
            body = {"public_keys": list(public_keys)}
            self._ask("PUT", f"/v1/machines/{machine['name']}/keys", json=body, absent=InvalidSpec)

    def destroy(self, rental: UUID) -> Destroyed:
        found = self._find(rental=str(rental), lost_hosts_count=True)
        for machine in found:
            if machine["state"] != MemberState.TERMINATING:
                self._ask("DELETE", f"/v1/machines/{machine['name']}")
        return Destroyed.NOT_YET if found else Destroyed.GONE

    def fence(self, node: str) -> None:
        self._ask("POST", f"/v1/hosts/{node}/fence")

    # --- the wire ------------------------------------------------------------------------------------------------

    def _living(self, rental: UUID) -> list[dict[str, Any]]:
        machines = [m for m in self._find(rental=str(rental)) if m["state"] != MemberState.TERMINATING]
        if not machines:
            raise InvalidSpec(f"there is no machine of {rental}")
        return machines

    def _find(
        self, *, lost_hosts_count: bool = False, timeout: httpx.Timeout | None = None, **labels: str
    ) -> list[dict[str, Any]]:
        machines: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = self._ask("GET", "/v1/machines", params={**labels, "after": after}, timeout=timeout)
            machines += page["machines"]
            after = page["next"]
        if "rental" in labels and not lost_hosts_count:
            for machine in machines:
                if not machine["host_ready"]:
                    raise NodeLost(f"host {machine['host']} does not report")
        return machines

    def _ask(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: dict[str, Any] | None = None,
        absent: type[DriverError] | None = None,
        read: Reader = _json,
        timeout: httpx.Timeout | None = None,
    ) -> Any:
        """The engine's answer; None for 404, unless `absent` names what that means here."""
        write = method != "GET"
        try:
            response = self._http.request(
                method, path, json=json, params=params, timeout=timeout or httpx.USE_CLIENT_DEFAULT
            )
        except NEVER_SENT as error:
            raise Transient(f"{method} {path}: {type(error).__name__}") from None
        except httpx.HTTPError as error:
            failure = UnknownOutcome if write else Transient
            raise failure(f"{method} {path}: {type(error).__name__}") from None
        if response.status_code == 404:
            if absent:
                raise absent(f"{method} {path}: not found")
            return None
        if response.is_success:
            return read(response, UnknownOutcome if write else Transient)
        raise _refusal(response, f"{method} {path}")


def _refusal(response: httpx.Response, call: str) -> DriverError:
    status = response.status_code
    try:
        error = response.json()["error"]
        code, words = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        code, words = "", ""
    detail = f"{call}: {status} {code} {words}"
    if code == "name_taken":
        return NameTaken(detail, retry_after=1)
    if code in REFUSALS:
        return REFUSALS[code](detail)
    if status in {401, 403}:
        return AuthError(detail)
    if status in {408, 425, 429} or status >= 500:
        return Transient(detail)
    return InvalidSpec(detail)


# --- translation -----------------------------------------------------------------------------------------------------


def _wanted(spec: Spec, member: MemberSpec) -> dict[str, Any]:
    accelerator = spec.accelerator
    name = spec.name(member.ordinal)
    return {
        "name": name,
        "hostname": spec.hostname or name,
        "host": member.host,
        "vendor": accelerator.vendor,
        "cards": [
            {"serial": serial, "model": accelerator.model, "memory_gb": accelerator.memory_gb}
            for serial in member.cards
        ],
        "image": {"slug": spec.image.slug, "digest": spec.image.digest, "framework": spec.image.framework},
        "vcpus": spec.vcpus,
        "memory_gb": spec.memory_gb,
        "disk_gb": spec.disk_gb,
        "public_keys": list(spec.public_keys),
        "labels": {
            "installation": spec.installation,
            "rental": str(spec.rental),
            "generation": str(spec.generation),
            "spec-hash": spec.hash,
            "members": str(len(spec.members)),
            "ordinal": str(member.ordinal),
        },
    }


def _same_model(machine: dict[str, Any], serials: Sequence[str]) -> list[dict[str, Any]]:
    """The machine's cards with other serial numbers; a start never changes what kind of card it is."""
    if len(serials) != len(machine["cards"]):
        raise InvalidSpec(f"{machine['name']} needs {len(machine['cards'])} card(s), not {len(serials)}")
    return [{**card, "serial": serial} for card, serial in zip(machine["cards"], serials, strict=True)]


def _is_readable(machine: dict[str, Any]) -> bool:
    try:
        _rental_and_generation(machine)
    except (KeyError, ValueError):
        log.warning("demo engine: %s carries our label but names no rental", machine["name"])
        return False
    return True


def _rental_and_generation(machine: dict[str, Any]) -> tuple[str, int]:
    labels = machine["labels"]
    int(labels["ordinal"]), int(labels["members"])
    return str(UUID(labels["rental"])), int(labels["generation"])


def _newest(machines: list[dict[str, Any]]) -> Observed:
    """The newest generation that is not on its way out; else the newest that is."""
    unreadable = [machine["name"] for machine in machines if not _is_readable(machine)]
    if unreadable:
        raise Ambiguous(f"labels cannot be read: {', '.join(unreadable)}")
    living = [machine for machine in machines if machine["state"] != MemberState.TERMINATING] or machines
    newest = max(_rental_and_generation(machine)[1] for machine in living)
    return _observed([machine for machine in machines if _rental_and_generation(machine)[1] == newest])


def _observed(machines: list[dict[str, Any]]) -> Observed:
    """Machines of one generation. A member that the labels promise and the engine does not have is GONE."""
    labels = machines[0]["labels"]
    if len({machine["labels"].get("spec-hash") for machine in machines}) > 1:
        raise Ambiguous(f"machines of {labels['rental']} were made from different specifications")
    rental, generation = UUID(labels["rental"]), int(labels["generation"])
    seen: dict[int, ObservedMember] = {}
    for machine in machines:
        member = _member(machine)
        if member.ordinal in seen:
            raise Ambiguous(f"{member.name} and {seen[member.ordinal].name} are the same member")
        seen[member.ordinal] = member
    for ordinal in range(int(labels["members"])):
        if ordinal not in seen:
            seen[ordinal] = ObservedMember(ordinal, machine_name(rental, generation, ordinal), MemberState.GONE)
    return Observed(
        installation=labels.get("installation", ""),
        rental=rental,
        generation=generation,
        spec_hash=labels.get("spec-hash", ""),
        members=tuple(seen[ordinal] for ordinal in sorted(seen)),
    )


def _member(machine: dict[str, Any]) -> ObservedMember:
    ssh = machine["ssh"]
    return ObservedMember(
        ordinal=int(machine["labels"]["ordinal"]),
        name=machine["name"],
        state=MemberState(machine["state"]),
        node=machine["host"],
        cards=tuple(card["serial"] for card in machine["cards"]),
        endpoint=Endpoint(ssh["host"], ssh["port"], ssh["user"]),
        host_key=machine["host_key"],
        reason=machine["reason"],
    )
