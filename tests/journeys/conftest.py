"""Buyers for journeys through the running product (the `stack` fixture of tests/support/product.py)."""

import json

import pytest

from tests.journeys import buyers


@pytest.fixture
def new_buyers(stack):
    """Makes verified people, each with an organization, credit and a key; gives back their e-mail addresses."""

    def make(*names: str, credit_minor: int = 10_000_000) -> list[str]:
        wanted = json.dumps({"names": names, "credit_minor": credit_minor})
        stack.manage("shell", "--no-imports", "-c", f"from tests.journeys import buyers; buyers.make({wanted!r})")
        return [buyers.address(name) for name in names]

    return make


@pytest.fixture
def browser(stack):
    """Logs a person in, without scripts."""
    from marketplace.local.browser import Browser  # noqa: PLC0415

    opened: list[Browser] = []

    def log_in(email: str) -> Browser:
        one = Browser(stack.url)
        opened.append(one)
        one.open("/accounts/login/")
        one.submit("login", login=email, password=buyers.PASSWORD)
        return one

    yield log_in
    for one in opened:
        one.close()
