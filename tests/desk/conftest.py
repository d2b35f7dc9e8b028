"""Staff of every group, each with a logged-in client."""

import pytest


@pytest.fixture(autouse=True)
def _own_files(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path


@pytest.fixture
def staff(db):
    """`staff("sales")` is a client logged in as a member of that group; "superuser" may do everything."""
    from django.contrib.auth.models import Group  # noqa: PLC0415 - settings must be complete first
    from django.test import Client  # noqa: PLC0415

    from accounts import actions  # noqa: PLC0415
    from tests import factories  # noqa: PLC0415

    actions.sync_staff_groups()

    def log_in(group: str, language: str = "en") -> Client:
        person = factories.user(f"{group}@staff.example", is_staff=True, is_superuser=group == "superuser")
        if group != "superuser":
            person.groups.add(Group.objects.get(name=group))
        client = Client(headers={"accept-language": language})
        client.cookies["django_language"] = language
        client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
        client.person = person
        return client

    return log_in


@pytest.fixture
def boss(staff):
    return staff("superuser")
