import pytest


@pytest.fixture
def shop(db):
    from tests.orders.builders import shop  # noqa: PLC0415 - models need a configured Django

    return shop()
