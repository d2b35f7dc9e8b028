"""Makes the virtual environment and keeps it equal to the requirement files. Standard library only.

    python3 -I marketplace/local/bootstrap.py run|test

It is run by path and isolated, before anything of the project can be imported.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import preflight

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
# What each purpose installs: (file, extra options of pip install). A purpose includes the ones before it.
PURPOSES = {
    "run": [("requirements.txt", [])],
    "test": [("requirements-dev.txt", []), ("requirements-nodeps.txt", ["--no-deps"])],
}


def main(purpose: str) -> None:
    preflight.check_python()
    preflight.check_writable(ROOT)
    if is_current(purpose):
        return
    if not works():
        preflight.check_space(ROOT, preflight.INSTALL_NEEDS_MB)
        create()
    install(purpose)


def is_current(purpose: str) -> bool:
    """Whether the environment runs and was installed from these very files."""
    return all(read(stamp(step)) == digest(step) for step in steps(purpose)) and works()


def works() -> bool:
    """False too for an environment whose base Python is gone or that was moved here from another folder."""
    try:
        done = subprocess.run(
            [PYTHON, "-c", "import sys, pip; print(sys.prefix)"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    except OSError:
        return False
    return done.returncode == 0 and Path(done.stdout.strip()).resolve() == VENV.resolve()


def create() -> None:
    say(f"Making a virtual environment with Python {sys.version.split()[0]} …")
    shutil.rmtree(VENV, ignore_errors=True)
    if run([sys.executable, "-m", "venv", VENV], quiet=True) == 0:
        return
    shutil.rmtree(VENV, ignore_errors=True)
    if run([sys.executable, "-m", "venv", "--without-pip", VENV], quiet=True) == 0:
        wheel = bundled_pip()
        # A wheel is a zip file, and pip runs from inside it well enough to install itself.
        if wheel and run([PYTHON, wheel / "pip", "install", "--no-index", "--quiet", wheel], quiet=True) == 0:
            return
    shutil.rmtree(VENV, ignore_errors=True)
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    raise preflight.Problem(
        "This Python cannot make virtual environments with pip.\n"
        f"Install the one missing package and try again: apt-get install {package}"
    )


def bundled_pip() -> Path | None:
    """The wheel that Debian's python3-pip-whl keeps for virtual environments."""
    return next(iter(sorted(Path("/usr/share/python-wheels").glob("pip-*.whl"), reverse=True)), None)


def install(purpose: str) -> None:
    for step in steps(purpose):
        file, options = step
        if read(stamp(step)) == digest(step):
            continue
        say(f"Installing {file} …")
        command = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", *options]
        if run([*command, "-r", ROOT / file]) != 0:
            preflight.check_space(ROOT, preflight.INSTALL_NEEDS_MB // 2)
            raise preflight.Problem(
                f"pip could not install {file}; its message is above. It needs a package index: check the network, "
                "or name one with PIP_INDEX_URL."
            )
        stamp(step).write_text(digest(step), encoding="ascii")


def steps(purpose: str) -> list[tuple[str, list[str]]]:
    names = list(PURPOSES)
    return [step for name in names[: names.index(purpose) + 1] for step in PURPOSES[name]]


def stamp(step: tuple[str, list[str]]) -> Path:
    return VENV / f".installed-{step[0]}"


def digest(step: tuple[str, list[str]]) -> str:
    """Of the file, of those it includes, and of the interpreter's version."""
    hasher = hashlib.sha256(repr(sys.version_info[:2]).encode())
    waiting = [step[0]]
    while waiting:
        content = (ROOT / waiting.pop()).read_text(encoding="utf-8")
        hasher.update(content.encode())
        waiting += [line.split()[1] for line in content.splitlines() if line.startswith("-r ")]
    return hasher.hexdigest()


def read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except OSError:
        return ""


def run(command: list, *, quiet: bool = False) -> int:
    output = subprocess.DEVNULL if quiet else None
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    if not cache_is_writable():
        environment["PIP_NO_CACHE_DIR"] = "1"
    return subprocess.run(
        [str(word) for word in command], stdout=output, stderr=output, env=environment, check=False
    ).returncode


def cache_is_writable() -> bool:
    """pip warns at length when HOME is unset, empty or somebody else's."""
    home = os.environ.get("PIP_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME")
    if not home:
        return False
    try:
        with tempfile.TemporaryFile(dir=home):
            return True
    except OSError:
        return False


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except preflight.Problem as problem:
        sys.exit(str(problem))
    except OSError as error:
        sys.exit(preflight.explain(error, ROOT))
    except KeyboardInterrupt:
        sys.exit(130)
