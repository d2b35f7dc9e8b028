"""A demo engine of the session's own, and an organization with something to rent."""

import pytest


@pytest.fixture(scope="session")
def demo_engine(tmp_path_factory):
    from marketplace.local.demo_engine import DemoEngine  # noqa: PLC0415 - settings must be complete first

    with DemoEngine(tmp_path_factory.mktemp("engine"), boot_seconds=0.1, terminate_seconds=0.1) as running:
        yield running


@pytest.fixture
def engine(demo_engine, settings):
    """The engine, connected to the pools of this test; its faults are healed and its machines removed afterwards."""
    from tests.rentals.support import Engine  # noqa: PLC0415

    settings.DEBUG = True  # pytest-django turns it off, and demo machines exist only where it is on
    settings.DEMO_ENGINE_URL, settings.DEMO_ENGINE_TOKEN = demo_engine.url, demo_engine.token
    with Engine(demo_engine) as handle:
        yield handle


@pytest.fixture
def shop(db):
    from tests.rentals.support import Shop  # noqa: PLC0415

    return Shop()
