"""Every mail speaks one language, the reader's."""

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.urls import reverse
from django.utils import translation

from accounts import mailing
from accounts.models import Notification, User
from tests import factories
from tests.accounts.test_notices import figures_of, ready
from tests.factories import NOON
from tests.site.test_languages import chinese_in, english_in

pytestmark = pytest.mark.django_db
GIVEN = {"A100", "Unspecified"}  # the test's browser has no name


@pytest.fixture(params=["zh-hans", "en"])
def language(request):
    return request.param


def leaks(language):
    lines = [line for sent in mail.outbox for line in (sent.subject, *sent.body.splitlines())]
    lines = [line for line in lines if not line.strip().startswith("http")]
    return english_in(lines, GIVEN) if language == "zh-hans" else chinese_in(lines, GIVEN)


@pytest.mark.parametrize("several", [False, True])
def test_notices(language, several):
    organization = factories.organization(name="A100")
    User.objects.update(language=language)
    for number, kind in enumerate(Notification.Kind.values):
        figures = figures_of(kind) | {"name": "r-1", "offer": "8 × A100"}
        ready(organization, kind=kind, fact=f"f{number}", params=figures, page="catalog:list")
        if not several:
            mailing.send_next(at=NOON)
    mailing.send_next(at=NOON)

    assert len(mail.outbox) == (1 if several else len(Notification.Kind))
    assert leaks(language) == []


def test_what_changes_a_sign_in_is_mailed(client, language):
    person = factories.user("wang@example.com")
    factories.organization(person, name="A100")
    EmailAddress.objects.create(user=person, email="old@example.com", verified=True)
    with translation.override(language):  # so that the addresses name it
        login, emails, password = map(reverse, ("account_login", "account_email", "account_change_password"))
    client.post(login, {"login": person.email, "password": factories.PASSWORD})
    client.post(emails, {"action_remove": "", "email": "old@example.com"})
    client.post(
        password, {"oldpassword": factories.PASSWORD, "password1": "another-2026-ok", "password2": "another-2026-ok"}
    )

    assert [(sent.to, len(sent.body.splitlines()) > 5) for sent in mail.outbox] == [
        (["wang@example.com"], True),
        (["wang@example.com"], True),
    ]
    assert leaks(language) == []
