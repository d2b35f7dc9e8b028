"""Logging in as a customer would, with a host key pinned."""

import asyncio
import subprocess
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from rentals.drivers.base import ObservedMember


@dataclass(frozen=True)
class Said:
    out: str
    code: int | None


def run(member: ObservedMember, key: asyncssh.SSHKey, command: str, *, user: str = "root") -> Said:
    """One command over SSH. asyncssh.PermissionDenied when the key is not admitted."""

    async def visit() -> Said:
        async with _connect(member, key, user) as connection:
            answer = await connection.run(command)
            return Said(str(answer.stdout), answer.exit_status)

    return asyncio.run(_bounded(visit()))


async def _bounded(visit):
    async with asyncio.timeout(15):
        return await visit


def _connect(member: ObservedMember, key: asyncssh.SSHKey, user: str = "root"):
    return asyncssh.connect(
        member.endpoint.host,
        member.endpoint.port,
        username=user,
        client_keys=[key],
        known_hosts=([asyncssh.import_public_key(member.host_key)], [], []),
        config=None,
        agent_path=None,
    )


def attempt(member: ObservedMember, key: asyncssh.SSHKey, visit):
    """Whatever `visit(connection)` makes of a logged-in connection."""

    async def go():
        async with _connect(member, key) as connection:
            return await visit(connection)

    return asyncio.run(_bounded(go()))


def openssh(member: ObservedMember, key_file: Path, *command: str, typed: str = "", terminal: bool = False):
    """The system's own client."""
    known_hosts = key_file.parent / "known_hosts"
    known_hosts.write_text(f"[{member.endpoint.host}]:{member.endpoint.port} {member.host_key}\n")
    arguments = ["ssh", "-F", "/dev/null", "-i", str(key_file), "-p", str(member.endpoint.port)]
    arguments += ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={known_hosts}"]
    arguments += ["-o", "IdentitiesOnly=yes", "-tt" if terminal else "-T"]
    arguments += [f"{member.endpoint.user}@{member.endpoint.host}", *command]
    return subprocess.run(arguments, input=typed, capture_output=True, text=True, timeout=20, check=False)
