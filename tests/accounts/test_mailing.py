"""Mails about notices: the table is the queue, each goes out once, trouble with one holds up no other."""

import smtplib
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.db import connection
from django.urls import reverse
from django.utils import translation

from accounts import mailing, tasks
from accounts.models import Delivery, Membership, Notification, User
from tests import factories
from tests.accounts.test_notices import figures_of, ready
from tests.factories import NOON
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def drain(at=NOON):
    """Every mail that goes out now; how often something was done."""
    turns = 0
    while mailing.send_next(at=at):
        turns += 1
        assert turns < 50
    return turns


class Server(EmailBackend):
    """A mail server that refuses what the test says, by address; `None` refuses everybody."""

    troubles: dict = {}

    def send_messages(self, messages):
        for message in messages:
            trouble = self.troubles.get(message.to[0]) or self.troubles.get(None)
            if trouble:
                raise trouble
        return super().send_messages(messages)


@pytest.fixture
def server(settings):
    settings.EMAIL_BACKEND = f"{__name__}.Server"
    Server.troubles = {}
    return Server.troubles


def refused(address, code):
    return smtplib.SMTPRecipientsRefused({address: (code, b"no")})


def test_a_mail_in_the_persons_language_with_an_absolute_link(settings):
    settings.SITE_URL = "https://gpu.example.com/"
    organization = factories.organization(name="福州智算科技")
    owner, guest = organization.memberships.get().user, factories.member(organization, language="en")
    ready(organization)

    assert drain() == 2

    first, second = mail.outbox
    key = Notification.objects.get().key
    assert (first.to, second.to) == ([owner.email], [guest.email])
    assert "GPU Cloud" in second.subject
    assert "“train-1” is ready" in second.subject
    assert f"https://gpu.example.com/en/console/notifications/{key}/" in second.body.split()
    assert "https://gpu.example.com/en/console/notifications/preferences/" in second.body.split()
    assert f"https://gpu.example.com/console/notifications/{key}/" in first.body.split()
    assert "福州智算科技" in first.body
    assert first.extra_headers["Message-ID"].endswith("@gpu.example.com>")
    assert list(Delivery.objects.values_list("mail_due_at", "mailed_at", "attempts", "failed_reason")) == [
        (None, NOON, 1, ""),
        (None, NOON, 1, ""),
    ]


def test_nothing_is_sent_twice():
    ready(factories.organization())

    drain()
    drain(NOON + timedelta(days=1))

    assert len(mail.outbox) == 1


def test_what_is_due_at_once_to_one_member_is_one_mail():
    organization = factories.organization()
    User.objects.update(language="en")
    for number in range(3):
        ready(organization, fact=f"r{number}", params={"name": f"train-{number}"}, at=NOON + number * MINUTE)

    assert drain(NOON + 5 * MINUTE) == 1

    (sent,) = mail.outbox
    assert sent.subject == "[GPU Cloud] 3 notices"
    assert [sent.body.index(f"train-{number}") for number in range(3)] == sorted(
        sent.body.index(f"train-{number}") for number in range(3)
    )
    assert Delivery.objects.filter(mailed_at=NOON + 5 * MINUTE).count() == 3


def test_two_organizations_of_one_person_are_two_mails():
    person = factories.user()
    for name in ("甲", "乙"):
        ready(factories.organization(person, name=name))

    drain()

    assert [sent.to for sent in mail.outbox] == [[person.email], [person.email]]


def test_who_left_or_is_locked_out_or_unproven_or_may_not_know_gets_none():
    organization = factories.organization()
    people = {role: factories.member(organization, role) for role in ("engineer", "viewer", "admin", "finance")}
    ready(organization, kind="invoice_issued", params={"number": "I", "amount": "¥1", "date": "2026-12-15"})
    ready(organization)
    Membership.objects.filter(user=people["engineer"]).delete()
    User.objects.filter(pk=people["viewer"].pk).update(is_active=False)
    EmailAddress.objects.filter(user=people["admin"]).update(verified=False)
    Membership.objects.filter(user=people["finance"]).update(role="engineer")

    drain()

    owner = organization.memberships.get(role="owner").user
    assert [sent.to for sent in mail.outbox] == [[owner.email], [people["finance"].email]]
    assert "train-1" in mail.outbox[1].subject  # and nothing of money
    unsent = Delivery.objects.exclude(failed_reason="").order_by("pk")
    assert set(unsent.values_list("user", "failed_reason", "mail_due_at")) == {
        (people["engineer"].pk, "no_member", None),
        (people["viewer"].pk, "no_member", None),
        (people["admin"].pk, "not_verified", None),
        (people["finance"].pk, "role", None),
    }


def test_a_bad_address_stops_no_other_and_is_given_up(server):
    organization = factories.organization()
    owner, second = organization.memberships.get().user, factories.member(organization)
    server[owner.email] = refused(owner.email, 550)
    ready(organization)

    drain()

    assert [sent.to for sent in mail.outbox] == [[second.email]]
    row = Delivery.objects.get(user=owner)
    assert (row.mail_due_at, row.mailed_at, row.attempts, row.failed_reason) == (None, None, 1, "address")


def test_an_address_that_is_refused_for_now_is_tried_again_after_growing_pauses(server):
    organization = factories.organization()
    owner = organization.memberships.get().user
    server[owner.email] = refused(owner.email, 450)
    ready(organization)
    at, pauses = NOON, []
    for _attempt in range(8):
        drain(at)
        due = Delivery.objects.get().mail_due_at
        pauses.append((due - at) // MINUTE)
        at = due

    server.clear()
    drain(at - timedelta(seconds=1))
    assert mail.outbox == []
    drain(at)

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    row = Delivery.objects.get()
    assert (len(mail.outbox), row.mailed_at, row.mail_due_at, row.failed_reason) == (1, at, None, "")


def test_after_three_days_it_is_given_up(server):
    organization = factories.organization()
    server[None] = ConnectionRefusedError()
    ready(organization)

    drain(NOON + timedelta(days=3))

    row = Delivery.objects.get()
    assert (row.mail_due_at, row.mailed_at, row.failed_reason) == (None, None, "server")


def test_a_server_that_does_not_answer_is_asked_once_a_sweep(server):
    organization = factories.organization()
    factories.member(organization)
    server[None] = TimeoutError()
    ready(organization)

    assert drain() == 0

    assert list(Delivery.objects.order_by("attempts").values_list("attempts", "mail_due_at")) == [
        (0, NOON),
        (1, NOON + MINUTE),
    ]


def test_a_notice_that_cannot_be_rendered_stops_no_other(caplog):
    organization = factories.organization()
    broken, whole = organization.memberships.get().user, factories.member(organization)
    ready(organization, kind="waitlist_free", params={"offer": "H100"}, page="no:such", user=broken)
    ready(organization, user=whole)

    drain()

    assert [sent.to for sent in mail.outbox] == [[whole.email]]
    assert Delivery.objects.get(user=broken).failed_reason == "fault"


def test_a_worker_killed_between_sending_and_marking_repeats_that_mail_alone(monkeypatch):
    organization = factories.organization()
    factories.member(organization)
    ready(organization)
    killed = pytest.MonkeyPatch()
    killed.setattr(mailing, "_settle", lambda *_rows, **_facts: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        mailing.send_next(at=NOON)
    killed.undo()

    drain(NOON)  # the lease still holds: only the other member's goes out
    assert len(mail.outbox) == 2
    drain(NOON + mailing.LEASE)
    drain(NOON + 10 * mailing.LEASE)

    assert len(mail.outbox) == 3
    assert mail.outbox[0].to == mail.outbox[2].to
    assert mail.outbox[0].extra_headers["Message-ID"] == mail.outbox[2].extra_headers["Message-ID"]


@pytest.mark.django_db(transaction=True)
def test_it_is_sent_outside_any_transaction(monkeypatch):
    ready_in_transaction(factories.organization())
    seen = []
    monkeypatch.setattr(Server, "send_messages", lambda _self, _messages: seen.append(connection.in_atomic_block) or 1)
    monkeypatch.setattr("django.conf.settings.EMAIL_BACKEND", f"{__name__}.Server")

    mailing.send_next(at=NOON)

    assert seen == [False]


@pytest.mark.django_db(transaction=True)
def test_many_workers_send_each_mail_once():
    organization = factories.organization()
    for _number in range(7):
        factories.member(organization)
    ready_in_transaction(organization)

    at_once(*times(4, lambda _n: drain()))

    assert len(mail.outbox) == len({sent.to[0] for sent in mail.outbox}) == 8
    assert not Delivery.objects.filter(mailed_at=None).exists()


def ready_in_transaction(organization):
    from django.db import transaction  # noqa: PLC0415

    with transaction.atomic():
        ready(organization)


def test_the_sweep_sends_what_is_due():
    ready(factories.organization(), at=NOON)

    tasks.send_notices()

    assert len(mail.outbox) == 1


@pytest.mark.parametrize("kind", Notification.Kind.values)
@pytest.mark.parametrize("language", ["zh-hans", "en"])
def test_every_kind_can_be_mailed(kind, language, settings):
    organization = factories.organization()
    User.objects.update(language=language)
    page, args = ("orders:quote", ["x" * 43]) if kind == "quote_sent" else ("catalog:offer", ["h100"])
    ready(organization, kind=kind, params=figures_of(kind), page=page, page_args=args)

    drain()

    (sent,) = mail.outbox
    assert "%" not in sent.subject + sent.body
    with translation.override(language):
        direct = settings.SITE_URL + reverse(page, args=args)
    assert (direct in sent.body) == (kind in {"quote_sent", "waitlist_free"})


def test_the_language_of_mails_is_the_one_last_chosen_while_signed_in(client):
    person = factories.user()
    other = factories.user()
    client.post(reverse("set_language"), {"language": "en", "next": "/"})
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    person.refresh_from_db()
    assert person.language == "zh-hans"

    client.post(reverse("set_language"), {"language": "en", "next": "/"})
    client.post(reverse("set_language"), {"language": "xx", "next": "/"})

    assert {user.pk: user.language for user in User.objects.all()} == {person.pk: "en", other.pk: "zh-hans"}


def test_who_signs_up_in_english_is_written_to_in_english(client):
    client.post(reverse("set_language"), {"language": "en", "next": "/"})
    client.post(
        reverse("account_signup"),
        {"email": "wang@example.com", "password1": "qixing-2026-ok", "organization": "Lab", "currency": "USD"},
    )

    assert User.objects.get().language == "en"
