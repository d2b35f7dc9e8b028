"""What must hold before anything is installed or started; each failure says what to do.

Standard library only: the bootstrap uses this file before the virtual environment exists.
"""

import errno
import os
import shutil
import socket
import sys
from pathlib import Path

OLDEST_PYTHON = (3, 11)
MEGABYTE = 1024 * 1024
RUN_NEEDS_MB = 500
INSTALL_NEEDS_MB = 1200


class Problem(Exception):
    """Something the person at the terminal can fix; the message says how."""


def check_python() -> None:
    if sys.version_info[:2] < OLDEST_PYTHON:
        raise Problem(
            f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old; 3.11 or newer is needed.\n"
            "Install it (Debian, Ubuntu: apt install python3.11) or name one: make run PYTHON=/path/to/python3.11"
        )


def check_writable(folder: Path) -> None:
    """Creates the folder when it is missing and tries a write in it."""
    probe = folder / f".write-test-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as error:
        raise Problem(explain(error, folder)) from None


def check_space(folder: Path, megabytes: int) -> None:
    free = shutil.disk_usage(folder).free // MEGABYTE
    if free < megabytes:
        raise Problem(
            f"The disk of {folder} has {free} MB left; {megabytes} MB are needed. Free some space and try again."
        )


def check_port(host: str, port: int) -> None:
    if not 0 < port < 65536:
        raise Problem(f"PORT must be between 1 and 65535, not {port}.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                other = port + 1 if port < 65535 else 8001
                raise Problem(
                    f"Port {port} on {host} is taken by another program.\n"
                    f"Choose another one, for example: PORT={other} make run"
                ) from None
            if error.errno == errno.EACCES:
                raise Problem(f"Port {port} needs root. Choose one from 1024 up: PORT=8000 make run") from None
            raise Problem(f"Cannot listen on {host}:{port}: {error.strerror}.") from None


def explain(error: OSError, folder: Path) -> str:
    """A file error in words, with the way out."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"The disk that holds {folder} is full. Free some space and try again."
    if error.errno == errno.EROFS:
        return (
            f"{folder} is on a read-only file system. Copy the project to a folder you may write to and run it there."
        )
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"{folder} may not be written by this user. Copy the project to a folder you own and run it there."
    return f"{folder}: {error.strerror}."
