"""The platform's own login: proof that a machine is reachable, the one it was, and has its cards, before it is billed.

A fresh key is made for each probe, admitted beside the customer's keys, used once and taken away again. It lives in
this process's memory only. If the process dies in between, the next probe (or any `set_keys`) replaces the
whole list and so removes the orphan.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncssh

from rentals.drivers.base import Driver, Fault, Health, MemberState, ObservedMember, key_type_and_blob

COMMENT = "one-time-probe"
TOTAL_SECONDS = 10.0
SSH_SECONDS = 5.0
# What giving the keys back may take.
RESERVE_SECONDS = 2.0
BANNER_CHARACTERS = 2000
LIST_CARDS = "cards --json"


@dataclass
class _Seen:
    logged_in: bool = False
    host_key_matches: bool = False
    cards: tuple[str, ...] = ()
    banner: str = ""
    fault: Fault | None = None
    detail: str = ""


def probe(
    driver: Driver,
    rental: UUID,
    *,
    public_keys: Sequence[str],
    cards: Sequence[str],
    host_keys: Sequence[str] = (),
) -> Health:
    """Logs into every member and compares the cards inside with `cards` (serial numbers of the whole rental).

    `public_keys` are the customer's, all of them: exactly these are left behind. `host_keys` are the public lines seen
    at the first verification, if there was one; the machine must show one of them. Takes about ten seconds at most
    while the engine answers. Raises what the driver raises; a probe that cannot take its key away again is no success.
    """
    started = time.monotonic()
    observed = driver.observe(rental)
    if observed is None or observed.state is not MemberState.RUNNING:
        state = "absent" if observed is None else str(observed.state)
        return Health(ok=False, reason=Fault.NOT_RUNNING, detail=state)
    if host_keys and not _all_known(observed.members, host_keys):
        return Health(ok=False, reason=Fault.HOST_KEY_CHANGED, detail=observed.fingerprint)
    key = asyncssh.generate_private_key("ssh-ed25519", comment=COMMENT)
    one_time = key.export_public_key("openssh").decode().strip()
    try:
        driver.set_keys(rental, [*public_keys, one_time])
        spent = time.monotonic() - started
        seconds = max(1.0, min(SSH_SECONDS, TOTAL_SECONDS - RESERVE_SECONDS - spent))
        seen = asyncio.run(_visit_all(observed.members, key, seconds))
    finally:
        driver.set_keys(rental, public_keys)
    return _judge(seen, cards)


def _all_known(members: Sequence[ObservedMember], host_keys: Sequence[str]) -> bool:
    known = {key_type_and_blob(line) for line in host_keys}
    return all(key_type_and_blob(member.host_key) in known for member in members)


def _judge(seen: Sequence[_Seen], cards: Sequence[str]) -> Health:
    found = tuple(card for one in seen for card in one.cards)
    failed = next((one for one in seen if one.fault), None)
    reason = failed.fault if failed else None
    if reason is None and sorted(found) != sorted(cards):
        reason = Fault.CARDS_DIFFER
    return Health(
        ok=reason is None,
        logged_in=all(one.logged_in for one in seen),
        cards_seen=found,
        host_key_matches=all(one.host_key_matches for one in seen),
        banner=seen[0].banner,
        reason=reason,
        detail=failed.detail if failed else "",
    )


async def _visit_all(members: Sequence[ObservedMember], key: asyncssh.SSHKey, seconds: float) -> list[_Seen]:
    return list(await asyncio.gather(*(_visit(member, key, seconds) for member in members)))


class _Client(asyncssh.SSHClient):
    def __init__(self, seen: _Seen) -> None:
        self._seen = seen

    def auth_banner_received(self, msg: str, lang: str) -> None:
        self._seen.banner = (self._seen.banner + msg)[:BANNER_CHARACTERS]


async def _visit(member: ObservedMember, key: asyncssh.SSHKey, seconds: float) -> _Seen:
    seen = _Seen()
    try:
        async with asyncio.timeout(seconds):
            await _log_in_and_count(member, key, seen)
    except asyncssh.HostKeyNotVerifiable as error:
        seen.fault, seen.detail = Fault.HOST_KEY_CHANGED, str(error)
    except asyncssh.PermissionDenied as error:
        seen.host_key_matches = True  # it was checked before the login was tried
        seen.fault, seen.detail = Fault.LOGIN_REFUSED, str(error)
    except (OSError, TimeoutError, asyncssh.Error) as error:
        seen.fault = Fault.CARDS_UNREADABLE if seen.logged_in else Fault.UNREACHABLE
        seen.detail = f"{type(error).__name__}: {error}"
    except (ValueError, KeyError, TypeError) as error:
        seen.fault, seen.detail = Fault.CARDS_UNREADABLE, f"{type(error).__name__}: {error}"
    return seen


async def _log_in_and_count(member: ObservedMember, key: asyncssh.SSHKey, seen: _Seen) -> None:
    endpoint = member.endpoint
    if endpoint is None:
        raise OSError("the engine named no address")
    host_key = asyncssh.import_public_key(member.host_key)
    async with asyncssh.connect(
        endpoint.host,
        endpoint.port,
        username=endpoint.user,
        client_factory=lambda: _Client(seen),
        client_keys=[key],
        known_hosts=([host_key], [], []),
        config=None,
        agent_path=None,
        preferred_auth="publickey",
    ) as connection:
        seen.logged_in = seen.host_key_matches = True
        answer = await connection.run(LIST_CARDS, check=True)
        listed = json.loads(str(answer.stdout))
        seen.cards = tuple(str(card["serial"]) for card in listed["cards"])
