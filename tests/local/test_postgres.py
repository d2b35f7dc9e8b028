import contextlib
import os
import shutil
import signal
import stat
from pathlib import Path

import psycopg2
import pytest

from marketplace.local.postgres import Postgres, choose_mode


@contextlib.contextmanager
def connected(url):
    with contextlib.closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            yield cursor


@pytest.fixture
def cluster(tmp_path):
    """A folder for clusters; whatever the test started there is destroyed."""
    started = []

    def make(**options):
        server = Postgres(tmp_path / "postgres", **{"fsync": False, **options})
        started.append(server)
        return server

    yield make
    for server in started:
        server.destroy()


def one(cursor, query):
    cursor.execute(query)
    return cursor.fetchone()


def test_first_start_makes_a_utf8_database_on_loopback_behind_a_password(cluster):
    server = cluster()
    url = server.start()
    with connected(url) as cursor:
        assert one(cursor, "SHOW server_encoding") == ("UTF8",)
        assert one(cursor, "SHOW listen_addresses") == ("127.0.0.1",)
        assert one(cursor, "SHOW max_connections") == ("200",)
        assert one(cursor, "SHOW password_encryption") == ("scram-sha-256",)
        assert one(cursor, "SELECT current_database(), upper('é')") == ("marketplace", "É")
    with pytest.raises(psycopg2.OperationalError, match="password"):
        psycopg2.connect(f"postgres://postgres:wrong@127.0.0.1:{server.port}/marketplace")
    assert stat.S_IMODE((server.folder / "password").stat().st_mode) == 0o600


def test_data_and_address_stay_over_a_restart(cluster):
    first = cluster()
    url = first.start()
    with connected(url) as cursor:
        cursor.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    first.stop()

    second = cluster()
    assert second.start() == url
    with connected(url) as cursor:
        assert one(cursor, "SELECT answer FROM kept") == (42,)


def test_committed_rows_survive_a_killed_server(cluster):
    first = cluster(fsync=True)
    with connected(first.start()) as cursor:
        cursor.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert (first.data / "postmaster.pid").exists()

    with connected(cluster().start()) as cursor:
        assert one(cursor, "SELECT answer FROM kept") == (42,)


def test_a_pid_file_whose_number_now_belongs_to_another_program_is_no_obstacle(cluster):
    first = cluster()
    url = first.start()
    pid_file = first.data / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    first.stop()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")

    assert cluster().start() == url
    os.kill(os.getpid(), 0)


def test_a_server_left_behind_by_a_killed_run_is_ended_first(cluster):
    left_behind = cluster()
    url = left_behind.start()
    assert cluster().start() == url
    assert left_behind.process.wait(5) == 0


def test_an_interrupted_first_start_is_begun_again(cluster):
    server = cluster()
    (server.folder / "data.new").mkdir(parents=True)
    (server.folder / "data.new" / "PG_VERSION").write_text("18\n")
    server.data.mkdir()
    with connected(server.start()) as cursor:
        assert one(cursor, "SELECT 1") == (1,)


def modes_up_to_root(folder: Path) -> dict[Path, tuple[int, int]]:
    return {parent: (parent.stat().st_mode, parent.stat().st_uid) for parent in [folder, *folder.parents]}


def test_it_runs_below_a_closed_folder_and_changes_no_permission(tmp_path):
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    project = closed / "project"
    project.mkdir()
    before = modes_up_to_root(project)
    accounts = Path("/etc/passwd").read_bytes()
    with Postgres(project / ".local" / "postgres", fsync=False) as url, connected(url) as cursor:
        assert one(cursor, "SELECT 1") == (1,)
    assert modes_up_to_root(project) == before
    assert Path("/etc/passwd").read_bytes() == accounts


# Becoming another account is root's privilege, so for others there is nothing to test.
if os.geteuid() == 0:

    def test_where_namespaces_are_refused_root_uses_a_folder_of_nobody_and_says_where(cluster):
        server = cluster(mode="account")
        with connected(server.start()) as cursor:
            assert one(cursor, "SELECT 1") == (1,)
        assert server.home.parent in {Path("/var/lib"), Path("/var/tmp")}
        assert stat.S_IMODE(server.home.stat().st_mode) == 0o700
        assert Path(f"/proc/{server.process.pid}").stat().st_uid == server.home.stat().st_uid != 0
        assert server.where() == (
            f"PostgreSQL runs as nobody, because user namespaces are refused here; data in {server.data}"
        )
        server.destroy()
        assert not server.home.exists()


def test_an_ordinary_user_needs_neither(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert choose_mode() == "direct"


def test_root_without_namespaces_falls_back(monkeypatch, tmp_path):
    refusing = tmp_path / "unshare"
    refusing.write_text("#!/bin/sh\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert shutil.which("unshare") == str(refusing)
    assert choose_mode() == "account"
