"""The desk's staff work here too."""

from tests.desk.conftest import staff  # noqa: F401 - a fixture
