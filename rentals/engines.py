"""From a pool's row to a connected driver, and what an engine's refusal means for the pool."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from catalog.models import Pool
from marketplace.lib import env
from rentals import drivers
from rentals.drivers.base import (
    Connection,
    Destroyed,
    Driver,
    Health,
    Secret,
    resolve_credential,
)
from rentals.drivers.errors import AuthError, DriverError

# Written into Pool.paused_reason by the platform itself, and taken away by it when the engine lets us in again.
CREDENTIALS_REFUSED = "engine_credentials"


def connection_of(pool: Pool) -> Connection:
    """The pool's endpoint and credential. Both may be references; a setting of that name (itself read from the
    environment) wins over the bare environment. AuthError where there is nothing to be had."""
    endpoint = pool.endpoint
    if endpoint.startswith("env:"):
        name = endpoint.removeprefix("env:")
        endpoint = getattr(settings, name, "") or env.text(name)
    if not endpoint:
        raise AuthError(f"pool {pool.code} has no endpoint")
    return Connection(endpoint=endpoint, credential=_credential(pool.credential_ref))


def _credential(reference: str) -> Secret:
    known = getattr(settings, reference.removeprefix("env:"), "") if reference.startswith("env:") else ""
    return Secret(known) if known else resolve_credential(reference)


@contextmanager
def driver_of(pool: Pool) -> Iterator[Driver]:
    """A driver for the pool's engine, closed afterwards."""
    driver = drivers.connect(pool.driver, connection_of(pool))
    try:
        yield driver
    finally:
        driver.close()


def pause(pool: Pool) -> None:
    """The engine refuses our credential: sell nothing from this pool until it lets us in again."""
    Pool.objects.filter(pk=pool.pk, paused_reason="").update(paused_reason=CREDENTIALS_REFUSED)


def resume(pool: Pool) -> None:
    """Undo `pause`; a pause that a person wrote stays."""
    if pool.paused_reason == CREDENTIALS_REFUSED:
        Pool.objects.filter(pk=pool.pk, paused_reason=CREDENTIALS_REFUSED).update(paused_reason="")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the engine, for the rental's timeline."""

    what: str
    outcome: str
    milliseconds: int

    @property
    def is_worth_noting(self) -> bool:
        """Looking and finding all in order is not."""
        return self.what != "observe" or self.outcome != "ok"


class Recorder:
    """Stands before a driver and keeps what was called, how it ended and how long it took."""

    def __init__(self, driver: Driver, calls: list[Call]) -> None:
        self._driver = driver
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Any] = getattr(self._driver, name)

        def recorded(*arguments: Any, **named: Any) -> Any:
            started, outcome = time.monotonic(), "ok"
            try:
                result = method(*arguments, **named)
                outcome = _outcome(result)
            except DriverError as error:
                outcome = error.code
                raise
            finally:
                self._calls.append(Call(name, outcome, int((time.monotonic() - started) * 1000)))
            return result

        return recorded


def _outcome(result: Any) -> str:
    """ok, or the answer's own word: gone or not_yet of a delete, a probe's fault."""
    if isinstance(result, Destroyed):
        return result.value
    if isinstance(result, Health) and result.reason:
        return result.reason.value
    return "ok"
