"""Test session: its own servers, then Django.

The settings read the environment once, so it is complete before Django is configured; that is why the settings module
is named here and not in pyproject.toml. Import models inside fixtures, never at this file's top.
"""

import os
from contextlib import ExitStack

import pytest

from tests.support import servers

pytest_plugins = ["tests.support.product"]

_session = ExitStack()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("help", False) or config.getoption("version", 0):
        return
    os.environ["DEBUG"] = "1"
    os.environ.setdefault("LOG_LEVEL", "WARNING")
    # Months are issued at their end; the tests of the grace ask for one.
    os.environ["INVOICE_GRACE_HOURS"] = "0"
    # Nothing of the developer's own accounts may be touched by a test.
    for name in ("STRIPE_API_KEY", "STRIPE_API_BASE", "STRIPE_WEBHOOK_SECRET", "DEMO_ENGINE_URL", "DEMO_ENGINE_TOKEN"):
        if not servers.is_worker():
            os.environ.pop(name, None)
    if not servers.is_worker():
        servers.start(_session)
        _compile_translations()
    os.environ["DJANGO_SETTINGS_MODULE"] = "marketplace.settings"
    _configure_django()


def pytest_unconfigure(config: pytest.Config) -> None:
    _session.close()


def _compile_translations() -> None:
    from marketplace.local import translations  # noqa: PLC0415 - refuses to load before DEBUG is set

    translations.compile_stale()


def _configure_django() -> None:
    from django.conf import settings  # noqa: PLC0415 - only now is the environment complete

    # The real hasher takes 0.2 s a password on purpose; tests log in hundreds of times.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    # Rate limits of one test are no business of the next, nor of the other worker.
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "tests"}}
    # An address nobody listens on: a test that forgets its own engine or Stripe fails at once instead of finding a
    # running stack's.
    settings.STRIPE_API_BASE = "http://127.0.0.1:9"
    settings.DEMO_ENGINE_URL = "http://127.0.0.1:9"

    from tests.support import emptying  # noqa: PLC0415

    emptying.install()


@pytest.fixture(autouse=True)
def _no_memory_of_other_tests() -> None:
    from django.core.cache import cache  # noqa: PLC0415 - only now is Django configured
    from django.utils import translation  # noqa: PLC0415

    cache.clear()
    # A request leaves its language behind, and addresses name it.
    translation.deactivate()
