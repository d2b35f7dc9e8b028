"""Starting and ending child processes, each in a group of its own so that its children end with it."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable

from marketplace.local.preflight import Problem

GRACE_SECONDS = 10.0


def tied_to_parent(command: list[str], death_signal: str = "TERM") -> list[str]:
    """The command, wrapped so that the kernel signals it when its parent is killed outright (Linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", death_signal, "--", *command] if setpriv else command


def end(
    process: subprocess.Popen, *, first: signal.Signals = signal.SIGTERM, grace: float = GRACE_SECONDS
) -> int | None:
    """Ask the process's group to stop, insist after `grace` seconds, and wait; its exit status."""
    if process.poll() is None:
        _signal_group(process.pid, first)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            _signal_group(process.pid, signal.SIGKILL)
            process.wait(grace)
    # Grandchildren that outlived their parent.
    _signal_group(process.pid, signal.SIGKILL)
    return process.returncode


def wait_until(
    ready: Callable[[], bool],
    process: subprocess.Popen,
    *,
    what: str,
    seconds: float,
    log: str = "",
    pause: float = 0.05,
) -> None:
    """Poll until `ready`; a Problem that shows the log's end when the process dies or the time is over."""
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None:
            raise Problem(f"{what} ended while it was starting (status {process.returncode}).\n{log_tail(log)}")
        if time.monotonic() > deadline:
            raise Problem(f"{what} did not become ready within {seconds:.0f} seconds.\n{log_tail(log)}")
        time.sleep(pause)


def log_tail(path: str, lines: int = 15) -> str:
    """The last lines of a log, indented, with its name; nothing to add where the lines went to the terminal."""
    if not path:
        return "Its words are above."
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            kept = file.read().splitlines()[-lines:]
    except OSError:
        return f"(no log at {path})"
    return "\n".join([f"The end of {path}:", *(f"  {line}" for line in kept)])


def is_alive(pid: int) -> bool:
    """Whether a process with this id exists, zombies not counted."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
        return stat.read().rpartition(")")[2].split()[0] != "Z"
    return True


def wait_gone(pid: int, seconds: float) -> bool:
    """Wait for a process that is not our child to end; False when it is still there after the time."""
    deadline = time.monotonic() + seconds
    while is_alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
