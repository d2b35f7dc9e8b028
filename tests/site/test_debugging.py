"""Django's error page of DEBUG shows the settings; none of our secrets is among them."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.views.debug import get_exception_reporter_filter

SECRETS = (
    "SECRET_KEY", "REDIS_URL", "CELERY_BROKER_URL", "STRIPE_API_KEY", "STRIPE_WEBHOOK_SECRET", "DEMO_ENGINE_TOKEN",
    "EMAIL_HOST_PASSWORD",
)  # fmt: skip


@pytest.fixture
def shown():
    return get_exception_reporter_filter(None).get_safe_settings()


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_setting_is_hidden(shown, name):
    assert set(shown[name]) == {"*"}


def test_passwords_within_settings_are_hidden(shown):
    assert set(shown["DATABASES"]["default"]["PASSWORD"]) == {"*"}
    assert set(shown["CACHES"]["default"]["LOCATION"]) == {"*"}


def test_every_secret_of_the_environment_is_known_here():
    text = Path(settings.BASE_DIR, "marketplace/settings.py").read_text(encoding="utf-8")
    assert set(re.findall(r'env\.secret\("([A-Z_]+)"', text)) <= {*SECRETS, "DATABASE_URL"}


def test_templates_read_the_portal_and_not_allauths_site():
    """`site` exists on allauth's pages only; elsewhere it is silently empty."""
    for path in Path(settings.BASE_DIR, "templates").rglob("*.html"):
        assert not re.search(r"[{%=\s]site\.", path.read_text(encoding="utf-8")), path
