"""The whole product, running: one stack for the journeys and the browser tests of a worker.

A pytest plugin; tests/conftest.py names it. `make test` sends everything that asks for `stack` to the same worker.
"""

import os
from collections.abc import Iterator

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "stack" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("stack"))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    # Only importable once the test session has set DEBUG.
    from marketplace.local.stack import Stack  # noqa: PLC0415

    outside = {name: os.environ.pop(name, None) for name in ("DATABASE_URL", "REDIS_URL")}
    try:
        with Stack(tmp_path_factory.mktemp("stack"), fsync=False) as running:
            yield running
    finally:
        os.environ.update({name: value for name, value in outside.items() if value})
