import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from marketplace.local import processes
from marketplace.local.preflight import Problem
from marketplace.local.run import Supervisor
from marketplace.local.stack import Service, Stack

ROOT = Path(__file__).resolve().parents[2]


def program(source):
    return [sys.executable, "-c", source]


SLEEPER = "import time; time.sleep(600)"


class SmallStack(Stack):
    """The real tree-keeping around programs that start at once and need no servers."""

    programs = {"web": SLEEPER, "worker": SLEEPER, "beat": SLEEPER}

    def _start_servers(self):
        self.env = dict(os.environ)
        self.services = {name: Service(name, program(source)) for name, source in self.programs.items()}

    def _prepare(self):
        pass

    def _wait_for_web(self):
        pass


@pytest.fixture
def lines():
    return []


@pytest.fixture
def stack(tmp_path, lines):
    stack = SmallStack(tmp_path / "local", say=lambda name, line: lines.append((name, line)))
    yield stack
    stack.stop()


def eventually(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_stop_ends_every_process(stack):
    stack.start()
    pids = [process.pid for process in stack.processes.values()]
    assert len(pids) == 3
    stack.stop()
    assert [processes.is_alive(pid) for pid in pids] == [False, False, False]
    assert stack.processes == {}


def test_grandchildren_end_with_their_parent(stack, lines):
    parent = "import subprocess; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); p.wait()"
    stack.programs = {"web": parent}
    stack.start()
    eventually(lambda: lines)
    grandchild = int(lines[0][1])
    assert processes.is_alive(grandchild)
    stack.stop()
    eventually(lambda: not processes.is_alive(grandchild))


def test_a_process_that_ignores_the_signal_is_killed(tmp_path):
    source = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(program(source), stdout=subprocess.PIPE, start_new_session=True)
    with process.stdout as output:
        assert output.readline() == b"up\n"
        assert processes.end(process, grace=0.2) == -signal.SIGKILL


def test_a_killed_worker_can_be_started_again(stack):
    stack.start()
    first = stack.processes["worker"]
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert list(stack.dead()) == ["worker"]
    second = stack.restart("worker")
    assert second.pid != first.pid
    assert stack.processes["worker"] is second
    assert list(stack.dead()) == []


def test_the_supervisor_restarts_a_worker_and_gives_up_when_web_dies(stack, lines):
    stack.start()
    supervisor = Supervisor(stack, lambda name, line: lines.append((name, line)))
    verdict = []
    watching = threading.Thread(target=lambda: verdict.append(supervisor.watch()))
    watching.start()
    worker, web = stack.processes["worker"], stack.processes["web"]
    os.kill(worker.pid, signal.SIGKILL)
    eventually(lambda: stack.processes.get("worker", worker) is not worker)
    assert lines == [("run", "worker ended unexpectedly (status -9); starting it again in 1 s.")]
    os.kill(web.pid, signal.SIGKILL)
    watching.join(10)
    assert verdict == ["web ended unexpectedly (status -9), so everything stops; its words are above."]


def test_two_stacks_do_not_share_a_folder(stack):
    stack.start()
    with pytest.raises(Problem) as refusal:
        SmallStack(stack.folder).start()
    assert str(refusal.value) == (
        f"The product already runs from {stack.folder} (process {os.getpid()}). Stop that one first, with Ctrl-C."
    )
    assert list(stack.dead()) == []


def test_a_start_that_fails_leaves_nothing_behind(stack, monkeypatch):
    def fail():
        raise Problem("the database cannot be prepared")

    started = []
    monkeypatch.setattr(stack, "_prepare", lambda: (started.extend(stack.processes.values()), fail()))
    stack.programs = {"engine": SLEEPER}
    with pytest.raises(Problem, match="the database cannot be prepared"):
        stack.start()
    assert [process.poll() for process in started] == [-signal.SIGTERM]


def run_command(folder, port):
    code = f"import sys, pathlib; from marketplace.local import run; sys.exit(run.main(pathlib.Path({str(folder)!r})))"
    env = {**os.environ, "PORT": str(port), "DATABASE_URL": "", "REDIS_URL": ""}
    return subprocess.run(program(code), env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_run_says_which_port_is_taken_and_starts_nothing(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = run_command(tmp_path / "local", port)
    assert done.returncode == 1
    assert done.stderr == (
        f"\nPort {port} on 127.0.0.1 is taken by another program.\n"
        f"Choose another one, for example: PORT={port + 1} make run\n"
    )
    assert not (tmp_path / "local" / "postgres").exists()


def test_run_refuses_a_port_that_is_no_number(tmp_path):
    done = run_command(tmp_path / "local", "http")
    assert (done.returncode, done.stderr) == (1, "PORT must be a whole number, not 'http'\n")


def test_the_stand_ins_refuse_to_load_when_debug_is_off():
    env = {name: value for name, value in os.environ.items() if name != "DEBUG"}
    command = [sys.executable, "-c", "import marketplace.local"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(
        "ImportError: marketplace.local is for development and tests only; set DEBUG=1 to use it\n"
    )
