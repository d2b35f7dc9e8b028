import errno
import shutil
import socket
from collections import namedtuple
from pathlib import Path

import pytest

from marketplace.local import preflight
from marketplace.local.preflight import Problem


def test_a_taken_port_is_named_with_the_way_out():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Problem) as refusal:
            preflight.check_port("127.0.0.1", port)
    assert str(refusal.value) == (
        f"Port {port} on 127.0.0.1 is taken by another program.\n"
        f"Choose another one, for example: PORT={port + 1} make run"
    )


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_must_be_one(port):
    with pytest.raises(Problem, match="between 1 and 65535"):
        preflight.check_port("127.0.0.1", port)


def test_an_old_python_is_told_what_is_needed(monkeypatch):
    monkeypatch.setattr("sys.version_info", namedtuple("V", "major minor micro")(3, 9, 2))
    with pytest.raises(Problem, match=r"^Python 3\.9 is too old; 3\.11 or newer is needed\."):
        preflight.check_python()


def test_a_nearly_full_disk_is_refused_with_the_figures(monkeypatch, tmp_path):
    usage = namedtuple("usage", "total used free")(10**9, 10**9, 100 * 1024 * 1024)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(Problem) as refusal:
        preflight.check_space(tmp_path, 500)
    assert str(refusal.value) == (
        f"The disk of {tmp_path} has 100 MB left; 500 MB are needed. Free some space and try again."
    )


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Problem, match="Not a directory"):
        preflight.check_writable(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "The disk that holds /x is full."),
        (errno.EROFS, "/x is on a read-only file system."),
        (errno.EACCES, "/x may not be written by this user."),
    ],
)
def test_file_errors_become_advice(number, words):
    assert preflight.explain(OSError(number, "whatever"), Path("/x")).startswith(words)
