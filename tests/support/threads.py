"""Races: work in threads with a database connection each, all let go at the same moment."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

from django.db import connection

# How long a test waits for its own threads before it calls that a failure.
PATIENCE = 60


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """What each of them returned, in order; the first error of any is raised."""
    return [future.result() for future in _run(acts)]


def outcomes(*acts: Callable[[], Any]) -> list[Any]:
    """What each of them returned or the exception it met, in order."""
    return [future.exception() or future.result() for future in _run(acts)]


def times(count: int, act: Callable[[int], Any]) -> list[Callable[[], Any]]:
    """`act(0)` … `act(count - 1)`, to be raced."""
    return [partial(act, number) for number in range(count)]


def _run(acts: tuple[Callable[[], Any], ...]) -> list[Future]:
    start = Barrier(len(acts))

    def run(act: Callable[[], Any]) -> Any:
        try:
            start.wait(PATIENCE)
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as threads:
        return [threads.submit(run, act) for act in acts]
