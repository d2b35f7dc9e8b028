"""Waiting for what another process does: asked again and again, for a bounded time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(question: Callable[[], T | None], *, seconds: float = 20, pause: float = 0.03) -> T:
    """The first true answer. Fails the test when none comes in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := question():
            return answer
        time.sleep(pause)
    raise AssertionError(f"nothing came within {seconds} s")
