"""Drivers: one per kind of engine, chosen by the pool's `engine` field. See base.py for what each promises."""

from django.conf import settings

from rentals.drivers.base import Connection, Driver
from rentals.drivers.demo import DemoDriver
from rentals.drivers.errors import Unsupported

_KINDS: dict[str, type[DemoDriver]] = {"demo": DemoDriver}


def connect(kind: str, connection: Connection) -> Driver:
    """A driver for one engine; close it after use. Opens no connection yet.

    Unsupported for an unknown kind, and for `demo` in production: nobody must pay for a machine without cards.
    """
    if kind not in _KINDS:
        raise Unsupported(f"no driver for {kind!r}")
    if kind == "demo" and not settings.DEBUG:
        raise Unsupported("demo machines exist only where DEBUG is on")
    return _KINDS[kind](connection)
