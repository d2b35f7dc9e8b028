"""`make run`: the whole product in the foreground. Ctrl-C ends all of it; data stays in `.local`.

A worker or beat that dies is started again, after 1, 2, 4 … 30 seconds: every task is safe to repeat. When any other
part dies, everything stops with its name and status, because the rest would only fail in its stead.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

from marketplace.lib import env
from marketplace.local.demo_data import DEMO_LOGINS, DEMO_PASSWORD
from marketplace.local.preflight import Problem, explain
from marketplace.local.stack import OUTSIDE, ROOT, Stack

RESTARTED = {"worker", "beat"}
SETTLED_SECONDS = 60.0
LONGEST_PAUSE = 30.0
COLOURS = {"web": 36, "worker": 33, "beat": 35, "stripe": 32, "engine": 34, "prepare": 90, "run": 1}


class Printer:
    """Prefixed lines from many threads, one at a time; coloured on a terminal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def __call__(self, name: str, line: str) -> None:
        prefix = f"{name:<7} |"
        if self._colour:
            prefix = f"\033[{COLOURS.get(name, 0)}m{prefix}\033[0m"
        with self._lock:
            try:
                print(prefix, line, flush=True)
            except (BrokenPipeError, ValueError):
                # Nobody reads any more; the product goes on until it is told to stop.
                sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the rest of the process


class Supervisor:
    """Watches a started stack: restarts what may be restarted, reports what may not."""

    def __init__(self, stack: Stack, say: Printer) -> None:
        self._stack = stack
        self._say = say
        self._pause: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._started: dict[str, float] = {}

    def watch(self) -> str:
        """Returns only when a part died that the others cannot do without: what to tell about it."""
        while True:
            now = time.monotonic()
            for name in self._stack.dead():
                status = self._stack.processes[name].returncode
                if name not in RESTARTED:
                    return f"{name} ended unexpectedly (status {status}), so everything stops; its words are above."
                self._plan_restart(name, status, now)
            for name in [name for name, due in self._due.items() if due <= now]:
                del self._due[name]
                self._started[name] = now
                self._stack.restart(name)
            time.sleep(0.2)

    def _plan_restart(self, name: str, status: int, now: float) -> None:
        if name in self._due:
            return
        settled = now - self._started.get(name, float("-inf")) > SETTLED_SECONDS
        pause = 1.0 if settled else min(self._pause[name] * 2, LONGEST_PAUSE)
        self._pause[name] = pause
        self._due[name] = now + pause
        self._say("run", f"{name} ended unexpectedly (status {status}); starting it again in {pause:.0f} s.")


def main(folder: Path = ROOT / ".local") -> int:
    say = Printer()
    try:
        stack = Stack(
            folder,
            web_port=env.integer("PORT", 8000, minimum=1),
            host=env.text("HOST", "127.0.0.1"),
            environ={name: env.secret(name) for name in OUTSIDE},
            say=say,
        )
    except env.BadSetting as error:
        print(error, file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        say("run", "Starting …")
        stack.start()
        say_welcome(stack, say)
        message = Supervisor(stack, say).watch()
    except KeyboardInterrupt:
        message = ""
    except Problem as problem:
        message = str(problem)
    except OSError as error:
        message = explain(error, stack.folder)
    # From here on nothing may cut the shutdown short, however often Ctrl-C is pressed.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if not message:
        say("run", "Stopping …")
    stack.stop()
    if message:
        print(f"\n{message}", file=sys.stderr, flush=True)
        return 1
    say("run", "Stopped. The data stays in .local; `make reset` forgets it.")
    return 0


def say_welcome(stack: Stack, say: Printer) -> None:
    lines = [
        "",
        *stack.notes,
        f"Ready: {stack.url}",
        f"Logins, all with the password {DEMO_PASSWORD}:",
        *(
            f"  {login.role:<11} {login.email}" + ("  (desk: /admin/)" if login.is_staff else "")
            for login in DEMO_LOGINS
        ),
        "Ctrl-C ends everything.",
        "",
    ]
    for line in lines:
        say("run", line)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
