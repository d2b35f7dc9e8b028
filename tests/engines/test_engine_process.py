"""The engine as a program: its settings, its state folder, its manners on the wire."""

import os
import socket
import sqlite3
import stat
import subprocess
import sys

import httpx
import pytest

from marketplace.local.demo_engine import DemoEngine
from tests.support.waiting import wait_for


def start(**settings):
    """Runs the program until it ends by itself."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEMO_ENGINE_")}
    return subprocess.run(
        [sys.executable, "-m", "marketplace.local.demo_engine"],
        env={**environment, **settings},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "DEMO_ENGINE_TOKEN must be set"),
        ({"DEMO_ENGINE_TOKEN": "t", "DEMO_ENGINE_PORT": "many"}, "DEMO_ENGINE_PORT must be a whole number"),
        ({"DEMO_ENGINE_TOKEN": "t", "DEMO_ENGINE_BOOT_SECONDS": "-1"}, "DEMO_ENGINE_BOOT_SECONDS must be"),
    ],
)
def test_a_bad_setting_is_named(settings, words):
    ended = start(**settings)

    assert ended.returncode == 2
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_taken_port_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = start(DEMO_ENGINE_TOKEN="t", DEMO_ENGINE_PORT=port, DEMO_ENGINE_STATE=str(tmp_path))

    assert ended.returncode == 2
    assert f"port {port}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_two_engines_never_share_a_state_folder(engine):
    ended = start(DEMO_ENGINE_TOKEN="t", DEMO_ENGINE_PORT="0", DEMO_ENGINE_STATE=str(engine.state_dir))

    assert ended.returncode == 2
    assert "another demo engine uses" in ended.stderr


def test_it_is_never_imported_in_production():
    ended = start(DEBUG="0", DEMO_ENGINE_TOKEN="t")

    assert ended.returncode != 0
    assert "marketplace.local is for development and tests only" in ended.stderr


def test_the_state_is_private_and_the_token_is_not_in_it(engine):
    for name in ("lock", "machines.sqlite3"):
        assert stat.S_IMODE((engine.state_dir / name).stat().st_mode) == 0o600
    for file in engine.state_dir.iterdir():
        assert engine.token.encode() not in file.read_bytes()


def test_an_engine_ends_with_the_process_that_started_it(tmp_path):
    script = (
        "import sys, time\n"
        "from marketplace.local.demo_engine import DemoEngine\n"
        "engine = DemoEngine(sys.argv[1])\n"
        "engine.start()\n"
        "print(engine.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))


def test_sigterm_ends_it_cleanly(tmp_path):
    with DemoEngine(tmp_path) as engine:
        url = engine.url
    assert (tmp_path / "engine.log").read_text() == f"Demo machines: engine on {url}\n"
    with sqlite3.connect(tmp_path / "machines.sqlite3") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


@pytest.fixture
def wire(engine):
    with httpx.Client(
        base_url=engine.url, headers={"Authorization": f"Bearer {engine.token}"}, trust_env=False
    ) as client:
        yield client


def test_every_path_but_health_wants_the_token(engine):
    with httpx.Client(base_url=engine.url, trust_env=False) as stranger:
        assert stranger.get("/healthz").status_code == 200
        for method, path in (("GET", "/v1/machines"), ("POST", "/v1/machines"), ("PUT", "/admin/faults")):
            for header in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {engine.token}"}):
                assert stranger.request(method, path, headers=header).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("GET", "/nothing", b"", 404),
        ("GET", "/v1/machines/none", b"", 404),
        ("POST", "/v1/machines", b"{", 400),
        ("POST", "/v1/machines", b"[" * 100_000, 400),
        ("POST", "/v1/machines", b"[]", 422),
        ("POST", "/v1/machines", b'{"name": "../x"}', 422),
        ("POST", "/v1/machines", b" " * 2_000_000, 413),
        ("GET", "/v1/machines?limit=9999", b"", 422),
        ("PUT", "/admin/faults", b'{"explode": 1}', 422),
        ("POST", "/v1/machines/none/power", b'{"verb": "explode"}', 422),
    ],
)
def test_a_bad_request_is_refused_with_a_code(wire, method, path, content, status):
    try:
        answer = wire.request(method, path, content=content)
    except httpx.WriteError:  # hung up on before all of a too large body was sent
        assert status == 413
    else:
        assert answer.status_code == status
        assert set(answer.json()["error"]) == {"code", "message"}
    assert wire.get("/healthz").json()["ok"] is True


def test_a_duplicate_name_is_a_conflict(bench):
    bench.running(spec := bench.spec())
    view = bench.view(spec.name(0))
    again = {
        "name": view["name"],
        "hostname": "x",
        "host": "other",
        "vendor": "NVIDIA",
        "cards": [],
        "image": {"slug": "x"},
        "vcpus": 1,
        "memory_gb": 1,
        "disk_gb": 1,
        "public_keys": [],
        "labels": {},
    }

    answer = bench.admin.post("/v1/machines", json=again)

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "name_taken")
    assert bench.view(view["name"]) == view


def test_garbage_on_the_wire_does_not_end_it(engine, wire):
    port = int(engine.url.rpartition(":")[2])
    for garbage in (
        b"\x00\xff\r\n\r\n",
        b"GET\r\n\r\n",
        b"A" * 50_000,
        b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", port), 5) as sock:
            sock.sendall(garbage)
            sock.shutdown(socket.SHUT_WR)
            sock.settimeout(5)
            try:
                while sock.recv(4096):
                    pass
            except ConnectionError:
                pass
    assert wire.get("/healthz").status_code == 200


def test_hundreds_of_machines_are_listed_page_by_page(bench):
    one = {
        "hostname": "x",
        "host": "h",
        "vendor": "NVIDIA",
        "cards": [],
        "image": {"slug": "x"},
        "vcpus": 1,
        "memory_gb": 1,
        "disk_gb": 1,
        "public_keys": [],
    }
    for number in range(210):
        spec = bench.spec(cards=0)
        labels = {"installation": "many", "rental": str(spec.rental), "generation": "1", "ordinal": "0", "members": "1"}
        bench.admin.post("/v1/machines", json={**one, "name": f"m-{number}", "labels": labels}).raise_for_status()

    assert len({observed.rental for observed in bench.driver.list_owned("many")}) == 210
