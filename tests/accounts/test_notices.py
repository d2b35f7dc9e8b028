"""Notices: written once with their fact, for the members who may know it."""

import pytest
from django.db import transaction
from django.utils import translation

from accounts import notices
from accounts.models import Delivery, Notification, NotificationPreference
from tests import factories
from tests.factories import NOON
from tests.support.threads import at_once, times

Kind = Notification.Kind


def ready(organization, *, fact="r1", **changes):
    given = {
        "organization": organization, "kind": Kind.RENTAL_READY, "fact": fact, "params": {"name": "train-1"},
        "page": "rentals:list", "page_args": [], "at": NOON,
    }  # fmt: skip
    return notices.notify(**given | changes)


@pytest.mark.django_db
def test_a_fact_is_told_once_to_every_member():
    organization = factories.organization()
    owner, engineer = organization.memberships.get().user, factories.member(organization)

    assert [ready(organization), ready(organization), ready(organization, fact="r2")] == [True, False, True]

    assert list(Notification.objects.order_by("pk").values_list("kind", "fact", "params", "created_at")) == [
        ("rental_ready", "r1", {"name": "train-1"}, NOON),
        ("rental_ready", "r2", {"name": "train-1"}, NOON),
    ]
    first = Delivery.objects.filter(notification__fact="r1").order_by("pk")
    assert list(first.values_list("user", "in_app", "read_at", "mail_due_at", "attempts")) == [
        (owner.pk, True, None, NOON, 0),
        (engineer.pk, True, None, NOON, 0),
    ]


@pytest.mark.django_db
def test_the_same_fact_of_another_organization_is_another():
    assert ready(factories.organization(name="甲"))
    assert ready(factories.organization(name="乙"))


@pytest.mark.django_db(transaction=True)
def test_two_at_once_write_one():
    organization = factories.organization()

    def tell(_n):
        with transaction.atomic():
            return ready(organization)

    assert sorted(at_once(*times(6, tell))) == [False] * 5 + [True]
    assert Notification.objects.count() == Delivery.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_it_is_gone_with_its_fact():
    organization = factories.organization()

    with transaction.atomic():
        ready(organization)
        transaction.set_rollback(True)

    assert not Notification.objects.exists()
    assert not Delivery.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_outside_a_transaction_it_is_refused():
    organization = factories.organization()

    with pytest.raises(RuntimeError):
        ready(organization)

    assert not Notification.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (Kind.RENTAL_READY, {}),
        (Kind.RENTAL_EXPIRING, {"name": "x", "date": "2026-12-01", "days": 2}),
        (Kind.AUTO_STOPPED, {"name": "x", "rule": "bored"}),
    ],
)
def test_a_notice_that_could_not_be_said_is_refused_when_it_is_written(kind, params):
    organization = factories.organization()

    with pytest.raises(KeyError):
        ready(organization, kind=kind, params=params)

    assert not Notification.objects.exists()


@pytest.mark.django_db
def test_money_is_told_to_those_who_may_see_bills():
    organization = factories.organization()
    owner = organization.memberships.get().user
    factories.member(organization, "engineer")
    finance = factories.member(organization, "finance")

    ready(organization, kind=Kind.INVOICE_ISSUED, params={"number": "I1", "amount": "¥1.00", "date": "2026-12-15"})

    assert list(Delivery.objects.order_by("pk").values_list("user", flat=True)) == [owner.pk, finance.pk]


@pytest.mark.django_db
def test_one_member_alone_can_be_told_and_nobody_who_is_none():
    organization = factories.organization()
    engineer, stranger = factories.member(organization), factories.user()

    ready(organization, user=engineer)
    ready(organization, fact="r2", user=stranger)

    assert list(Delivery.objects.values_list("notification__fact", "user")) == [("r1", engineer.pk)]


@pytest.mark.django_db
def test_who_is_locked_out_is_told_nothing():
    organization = factories.organization()
    factories.member(organization, is_active=False)

    ready(organization)

    assert Delivery.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "wish", "told"),
    [
        (Kind.RENTAL_READY, (True, False), [(True, None)]),
        (Kind.RENTAL_READY, (False, True), [(False, NOON)]),
        (Kind.RENTAL_READY, (False, False), []),
        (Kind.CREDIT_LOW, (False, False), [(True, None)]),  # money stays in the console
    ],
)
def test_preferences_are_heeded(kind, wish, told):
    organization = factories.organization()
    in_app, mail = wish
    NotificationPreference.objects.create(
        user=organization.memberships.get().user, group=notices.GROUP_OF[kind].name, in_app=in_app, mail=mail
    )

    ready(organization, kind=kind, params={"name": "x", "hours": 72, "left": "¥1.00"})

    assert list(Delivery.objects.values_list("in_app", "mail_due_at")) == told


EVERYTHING = {
    "name": "训练-1", "outcome": "gone", "rule": "idle", "days": 7, "date": "2026-12-07 00:00", "number": "X1",
    "offer": "8 × H100", "amount": "¥1,234.50", "hours": 72, "left": "¥10.00", "now": "in_time",
    "spent": "¥800.00", "forecast": "¥1,500.00", "does": "stop",
    "how": "transfer", "what": "again", "reason": "R-1.", "invoice": "INV-1",
}  # fmt: skip


def figures_of(kind):
    """Every figure, with a code that this kind knows."""
    codes = notices.WORDS[kind].codes
    return EVERYTHING | {name: next(iter(words)) for name, words in codes.items()}


@pytest.mark.parametrize("kind", Kind.values)
@pytest.mark.parametrize("language", ["zh-hans", "en"])
def test_every_kind_has_words_and_a_group(kind, language):
    with translation.override(language):
        said = notices.say(Notification(kind=kind, params=figures_of(kind)))

    assert said.title
    assert said.text
    assert said.link
    assert "%" not in said.title + said.text
    assert kind in notices.GROUP_OF


@pytest.mark.parametrize(("kind", "name"), [(k, n) for k, w in notices.WORDS.items() for n in w.codes])
def test_every_code_of_a_kind_has_words(kind, name):
    for code in notices.WORDS[kind].codes[name]:
        assert notices.say(Notification(kind=kind, params={**EVERYTHING, name: code})).text
