"""The SSH door of one machine: its own host key, its own fixed port, its customer's keys and nobody else."""

import asyncio
import contextlib
import errno
import random
import socket
from pathlib import Path

import asyncssh

from marketplace.local.demo_engine import shell
from marketplace.local.demo_engine.store import Machine

USER = "root"
CONNECTIONS_PER_MACHINE = 8
CONNECTIONS = 1024
LOOPBACK = "127.0.0.1"
# Below the range from which the kernel takes ports for outgoing calls, so that a port is still free after a restart.
FIRST_PORT, LAST_PORT = 20000, 32000


def parse_keys(lines: list[str]) -> frozenset[bytes]:
    """The keys' wire form. Raises ValueError for a line that is not exactly one public key."""
    keys = set()
    for line in lines:
        if "\n" in line.strip() or not line.strip():
            raise ValueError("a public key is one line")
        try:
            keys.add(asyncssh.import_public_key(line).public_data)
        except (asyncssh.KeyImportError, ValueError):
            raise ValueError("not a public key in OpenSSH form") from None
    return frozenset(keys)


def new_host_key() -> tuple[str, str]:
    """(private, public line) in OpenSSH form."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    return key.export_private_key("openssh").decode(), key.export_public_key("openssh").decode().strip()


def _last_port() -> int:
    with contextlib.suppress(OSError, ValueError):
        lowest_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        return max(FIRST_PORT + 1000, min(LAST_PORT, lowest_outgoing - 1))
    return LAST_PORT


def new_port(taken: set[int]) -> socket.socket:
    """A socket bound, alone, to a port nobody else has. OSError when none is left."""
    last = _last_port()
    for _ in range(300):
        port = random.randint(FIRST_PORT, last)
        if port in taken:
            continue
        # Without SO_REUSEADDR: the bind fails while any other program has so much as bound the port.
        with contextlib.suppress(OSError):
            return _bound(port, reuse=False)
    raise OSError(errno.EADDRNOTAVAIL, "no free port for a machine")


def same_port(port: int) -> socket.socket:
    """The machine's own port after a restart, past connections that still linger. OSError while others have it."""
    return _bound(port, reuse=True)


def _bound(port: int, *, reuse: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if reuse:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, port))
        # Set afterwards too: its connections inherit it, and only then may the next process take the port past them.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


class Door:
    """Opens and closes. While closed it refuses connections but stays bound, so that nobody else takes the port."""

    open_connections = 0  # over all doors of the process

    def __init__(self, machine: Machine, sock: socket.socket) -> None:
        self.machine = machine
        self.keys = parse_keys(machine.public_keys)
        self._sock = sock
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self.sessions = 0  # shells and commands that run at this moment

    @property
    def is_open(self) -> bool:
        return self._acceptor is not None

    async def open(self) -> None:
        if self._acceptor:
            return
        listening = asyncio.ensure_future(self._listen())
        powered_off = False
        while not listening.done():
            try:
                await asyncio.wait([listening])
            except asyncio.CancelledError:  # twice, when stop and start follow at once
                powered_off = True
        self._acceptor = listening.result()
        if powered_off:
            self.close()  # nothing may be left listening
            raise asyncio.CancelledError

    async def _listen(self) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            sock=self._sock.dup(),
            server_factory=lambda: _Server(self),
            server_host_keys=[asyncssh.import_private_key(self.machine.host_key)],
            config=None,
            server_version="demo-machine",
            login_timeout=15,
            keepalive_interval=30,
            backlog=16,
            compression_algs=["none"],
            line_history=50,
            agent_forwarding=False,
            x11_forwarding=False,
            gss_host=None,
            error_handler=lambda connection, error: None,
            errors="replace",
        )

    def close(self) -> None:
        if self._acceptor:
            self._acceptor.close()
            self._acceptor = None
            with contextlib.suppress(OSError):
                # Ends listening but keeps the port bound.
                self._sock.shutdown(socket.SHUT_RDWR)
        for connection in list(self._connections):
            connection.abort()

    def give_up_port(self) -> None:
        self.close()
        self._sock.close()

    def admit(self, connection: asyncssh.SSHServerConnection) -> bool:
        if len(self._connections) >= CONNECTIONS_PER_MACHINE or Door.open_connections >= CONNECTIONS:
            return False
        self._connections.add(connection)
        Door.open_connections += 1
        return True

    def leave(self, connection: asyncssh.SSHServerConnection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            Door.open_connections -= 1


class _Server(asyncssh.SSHServer):
    """Public keys only; forwarding is refused by asyncssh's defaults, which this class leaves alone."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        if not self._door.admit(conn):
            asyncio.get_running_loop().call_soon(conn.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection:
            self._door.leave(self._connection)

    def begin_auth(self, username: str) -> bool:
        if self._connection:
            self._connection.send_auth_banner(shell.NOTICE)
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == USER and key.public_data in self._door.keys

    def session_requested(self) -> asyncssh.SSHServerProcess:
        return _Process(self._serve, None, 3, False)

    async def _serve(self, process: asyncssh.SSHServerProcess) -> None:
        self._door.sessions += 1
        try:
            await converse(self._door.machine, process)
        finally:
            self._door.sessions -= 1


class _Process(asyncssh.SSHServerProcess):
    def subsystem_requested(self, subsystem: str) -> bool:
        return False  # no sftp: there is no file on a demo machine

    def break_received(self, msec: int) -> bool:
        """Ctrl-C drops the typed line at once; what was typed behind it starts the next."""
        if isinstance(self.channel, asyncssh.SSHLineEditorChannel):
            self.channel.clear_input()
        return super().break_received(msec)


async def converse(machine: Machine, process: asyncssh.SSHServerProcess) -> None:
    """One session: an exec request, or lines until `exit`, with a prompt where there is a terminal."""
    with contextlib.suppress(BrokenPipeError, ConnectionError, asyncssh.ConnectionLost):
        if process.command is not None:
            text, code = shell.answer(machine, process.command)
            process.stdout.write(text)
            process.exit(code)
            return
        interactive = process.term_type is not None
        if interactive:
            process.stdout.write(shell.motd(machine))
        process.exit(await _read_lines(machine, process, interactive))


async def _read_lines(machine: Machine, process: asyncssh.SSHServerProcess, interactive: bool) -> int:
    code = 0
    prompt = f"{USER}@{machine.hostname}{shell.PROMPT_TAIL}" if interactive else ""
    while True:
        process.stdout.write(prompt)
        try:
            line = await process.stdin.readline()
        except asyncssh.TerminalSizeChanged:
            prompt = ""  # already on the screen
            continue
        except (asyncssh.BreakReceived, asyncssh.SignalReceived):
            process.stdout.write("\n")
            prompt = f"{USER}@{machine.hostname}{shell.PROMPT_TAIL}" if interactive else ""
            continue
        prompt = f"{USER}@{machine.hostname}{shell.PROMPT_TAIL}" if interactive else ""
        if not line or line.strip() in {"exit", "logout"}:
            return code
        text, code = shell.answer(machine, line)
        process.stdout.write(text)
        await process.stdout.drain()
