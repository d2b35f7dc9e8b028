"""Lighthouse itself: installed by npm into .local, run as a process of its own against Debian's Chromium."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marketplace.local import processes
from marketplace.local.preflight import Problem

ROOT = Path(__file__).resolve().parents[2]
# 13 wants a newer Node than Debian's.
VERSION = "12.8.2"
FOLDER = ROOT / ".local" / "lighthouse"
CHROMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update"
    " --disable-sync --no-first-run"
)
INSTALL_SECONDS, RUN_SECONDS = 600, 180


class Failed(Exception):
    """A run ended without a report."""


class Lighthouse:
    """The installed program. Raises Problem where npm, Node or Chromium is missing, or npm cannot install it."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._program = folder / "node_modules" / ".bin" / "lighthouse"
        self._chromium = _first_of(CHROMES, "Chromium", "apt-get install chromium")
        _first_of(("node", "nodejs"), "Node", "apt-get install nodejs npm")
        if _installed_version(folder) != VERSION:
            _install(folder)

    def report(self, url: str, out: Path, headers: Mapping[str, str]) -> Mapping[str, Any]:
        """Load the page once as a phone does (Lighthouse's default profile) and read the report."""
        command = [
            str(self._program),
            url,
            "--quiet",
            "--output=json",
            f"--output-path={out}",
            f"--chrome-flags={FLAGS}",
        ]
        if headers:
            # From a file: a cookie on the command line could be read by everyone on the machine.
            private = out.with_name("headers.json")
            private.write_text(json.dumps(dict(headers)))
            command.append(f"--extra-headers={private}")
        out.unlink(missing_ok=True)
        said = _run(command, os.environ | {"CHROME_PATH": self._chromium})
        if not out.exists():
            raise Failed(said.strip()[-500:])
        return json.loads(out.read_text())


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    """What it said. Raises Failed when it takes too long; interrupted, it ends Chromium too."""
    process = subprocess.Popen(
        processes.tied_to_parent(command), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        return process.communicate(timeout=RUN_SECONDS)[1]
    except subprocess.TimeoutExpired:
        raise Failed(f"no report within {RUN_SECONDS} s") from None
    finally:
        processes.end(process, first=signal.SIGINT)


def _first_of(names: tuple[str, ...], what: str, remedy: str) -> str:
    for name in names:
        if found := shutil.which(name):
            return found
    raise Problem(f"Lighthouse needs {what}, which was not found. Install it: {remedy}")


def _installed_version(folder: Path) -> str:
    try:
        return json.loads((folder / "node_modules" / "lighthouse" / "package.json").read_text())["version"]
    except (OSError, ValueError, KeyError):
        return ""


def _install(folder: Path) -> None:
    npm = _first_of(("npm",), "npm", "apt-get install npm")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Installing lighthouse {VERSION} into {folder.relative_to(ROOT)} …", flush=True)
    command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", f"lighthouse@{VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Problem(f"npm did not install lighthouse within {INSTALL_SECONDS} s: is there a network?") from None
    if done.returncode or _installed_version(folder) != VERSION:
        raise Problem(f"npm could not install lighthouse@{VERSION}:\n{done.stderr.strip()[-1000:]}")
