"""A stranger's first minutes: a clean clone, an empty HOME, only Python and make."""

import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from marketplace.local import ports, processes

ROOT = Path(__file__).resolve().parents[2]
COLD_SECONDS, WARM_SECONDS = 240.0, 15.0

pytestmark = pytest.mark.slow


@pytest.fixture
def clone(tmp_path):
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(tmp_path / "clone")], check=True)
    yield tmp_path / "clone"
    shutil.rmtree(tmp_path / "clone", ignore_errors=True)


class MakeRun:
    """`make run` in a clone; `until_ready` is the seconds until it said where it answers."""

    def __init__(self, clone: Path, log: Path, port: int) -> None:
        home = clone.parent / "home"
        home.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PATH", "PIP_", "SSL_"))}
        self.log = log
        self.began = time.monotonic()
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                ["make", "run"],
                cwd=clone,
                env={**kept, "HOME": str(home), "PORT": str(port)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self, seconds: float) -> tuple[float, str]:
        def ready() -> bool:
            return "Ready: http" in self.log.read_text(errors="replace")

        processes.wait_until(ready, self.process, what="make run", seconds=seconds, log=str(self.log))
        url = re.search(r"Ready: (http\S+)", self.log.read_text())[1]
        return time.monotonic() - self.began, url

    def interrupt(self) -> None:
        """Ctrl-C: the terminal signals the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(60)

    def kill(self) -> None:
        processes.end(self.process, grace=30)


def page(url: str) -> str:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=30) as answer:
        assert answer.status == 200
        return answer.read().decode()


def programs_below(folder: Path) -> list[str]:
    """Command lines of processes that run from the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found


def test_a_clean_clone_runs_ends_with_ctrl_c_and_starts_again_quickly(clone, tmp_path):
    port = ports.find_free()
    for name, limit in (("cold", COLD_SECONDS), ("warm", WARM_SECONDS)):
        run = MakeRun(clone, tmp_path / f"{name}.log", port)
        try:
            seconds, url = run.wait_ready(limit + 60)
            assert seconds < limit, f"{name} start took {seconds:.0f} s"
            assert '<html lang="zh-hans"' in page(url).lower()
            print(f"{name} start: {seconds:.1f} s")  # noqa: T201 - the figure is wanted
            run.interrupt()
            text = run.log.read_text(errors="replace")
            assert "Stopped. The data stays in .local" in text
            assert "Traceback" not in text
            assert programs_below(clone) == []
        finally:
            run.kill()

    command = ["make", "--no-print-directory", "reset"]
    reset = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=True)
    assert reset.stdout == "The local data is gone.\n"
    assert not (clone / ".local").exists()
