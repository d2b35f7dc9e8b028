"""The engine as a child process, for tests and the one-command stack. Needs only the standard library."""

import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

PROJECT = Path(__file__).resolve().parents[3]


class DemoEngine:
    """`with DemoEngine(folder) as engine:` then `engine.url` and `engine.token`; the state stays in the folder."""

    def __init__(
        self,
        state_dir: Path | str,
        *,
        token: str | None = None,
        port: int = 0,
        boot_seconds: float = 2.0,
        terminate_seconds: float = 0.5,
    ) -> None:
        self.state_dir = Path(state_dir)
        self.token = token or secrets.token_urlsafe(24)
        self.url = ""
        self._port = port
        self._boot_seconds, self._terminate_seconds = boot_seconds, terminate_seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the demo engine is not running")
        return self._process.pid

    def start(self) -> None:
        """Returns once the engine answers. A later start takes the port of the first, so that `url` stays true."""
        self.state_dir.mkdir(parents=True, exist_ok=True)
        (self.state_dir / "address").unlink(missing_ok=True)
        settings = {
            "DEBUG": "1",
            "DEMO_ENGINE_STATE": str(self.state_dir),
            "DEMO_ENGINE_TOKEN": self.token,
            "DEMO_ENGINE_PORT": str(self._port),
            "DEMO_ENGINE_BOOT_SECONDS": str(self._boot_seconds),
            "DEMO_ENGINE_TERMINATE_SECONDS": str(self._terminate_seconds),
            "DEMO_ENGINE_PARENT": str(os.getpid()),
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("DEMO_ENGINE_")}
        with (self.state_dir / "engine.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "marketplace.local.demo_engine"],
                cwd=PROJECT,
                env={**inherited, **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_until_it_answers()
        self._port = int(self.url.rpartition(":")[2])

    def _wait_until_it_answers(self, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        address = self.state_dir / "address"
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            if address.exists():
                self.url = address.read_text(encoding="utf-8")
                if self._answers():
                    return
            time.sleep(0.03)
        log = (self.state_dir / "engine.log").read_text(encoding="utf-8", errors="replace")[-2000:]
        self.kill()
        raise RuntimeError(f"the demo engine did not start:\n{log}")

    def _answers(self) -> bool:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(f"{self.url}/healthz", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """SIGKILL, as a power cut would."""
        if self._process and self._process.poll() is None:
            self._process.kill()
        self._wait()

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.terminate()
        self._wait()

    def _wait(self) -> None:
        if self._process:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)
            self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()
