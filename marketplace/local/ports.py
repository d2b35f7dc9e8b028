"""Free TCP ports on loopback, and the ones a folder remembers, so that stored addresses keep working."""

import json
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        # As servers do: a port whose last connections are in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def find_free() -> int:
    """A port nobody listens on, chosen by the kernel."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]


def remembered(file: Path, name: str) -> int:
    """The port the file holds for the name while it is free, else a new one, which is then remembered."""
    known = _read(file)
    port = known.get(name)
    if not isinstance(port, int) or not is_free(port):
        port = find_free()
        file.write_text(json.dumps({**known, name: port}, indent=1), encoding="utf-8")
    return port


def _read(file: Path) -> dict[str, int]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
