"""A real engine process per test worker. Imports stand in the fixtures: settings must be complete before them."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    from marketplace.local.demo_engine import DemoEngine  # noqa: PLC0415

    with DemoEngine(tmp_path_factory.mktemp("engine"), boot_seconds=0.1, terminate_seconds=0.1) as running:
        yield running


@pytest.fixture(params=["demo"])
def bench(request, settings, engine):
    from tests.engines.bench import DemoBench  # noqa: PLC0415

    settings.DEBUG = True  # pytest-django turns it off, and demo machines exist only where it is on
    bench = DemoBench(engine)
    yield bench
    bench.heal()
    for machine in bench.admin.get("/v1/machines").json()["machines"]:
        bench.delete_by_hand(machine["name"])
    bench.close()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    from tests.engines.bench import CUSTOMER  # noqa: PLC0415

    path = tmp_path / "id"
    path.touch(mode=0o600)
    path.write_bytes(CUSTOMER.export_private_key("openssh"))
    return path
