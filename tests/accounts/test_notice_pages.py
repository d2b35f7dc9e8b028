"""The console pages of notices: the list, reading, the badge, preferences."""

from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.models import Delivery, Membership, Notification, NotificationPreference
from accounts.permissions import ALLOWED
from tests import factories
from tests.accounts.test_notices import ready
from tests.factories import NOON

pytestmark = pytest.mark.django_db
BACKEND = "django.contrib.auth.backends.ModelBackend"
LIST = "accounts:notices"


@pytest.fixture
def organization():
    return factories.organization(name="甲")


@pytest.fixture
def owner(organization, client):
    person = organization.memberships.get().user
    client.force_login(person, backend=BACKEND)
    return person


def titles(client, page=1):
    return [said.title for _delivery, said in client.get(reverse(LIST), {"page": page}).context["rows"]]


def tell(organization, name, minutes=0, **changes):
    ready(organization, fact=name, params={"name": name}, at=NOON + timedelta(minutes=minutes), **changes)
    return Notification.objects.get(organization=organization, fact=name)


def test_unread_ones_stand_first_then_the_newest(client, organization, owner):
    for minute, name in enumerate("abcd"):
        tell(organization, name, minute)
    Delivery.objects.filter(notification__fact__in=("b", "d")).update(read_at=NOON)

    client.cookies["django_language"] = "en"

    assert titles(client) == ["“c” is ready", "“a” is ready", "“d” is ready", "“b” is ready"]


def test_it_is_paged(client, organization, owner):
    for minute in range(21):
        tell(organization, f"m{minute}", minute)

    assert len(titles(client)) == 20
    assert [said.split("”")[0] for said in titles(client, 2)] == ["“m0"]


def test_the_empty_list_says_what_will_come(client, owner):
    page = client.get(reverse(LIST)).text

    assert reverse("accounts:notice_preferences") in page
    assert reverse("accounts:read_notices") not in page


@pytest.mark.parametrize("rows", [1, 3])
def test_the_list_costs_the_same_for_any_length(client, organization, owner, rows, django_assert_num_queries):
    for number in range(rows):
        tell(organization, f"m{number}")

    with django_assert_num_queries(6):  # session, person, membership, how many, the page, how many unread
        client.get(reverse(LIST))


def test_opening_a_notice_reads_it_and_leads_to_its_page(client, organization, owner):
    notification = tell(organization, "a", page="accounts:keys")
    factories.member(organization)
    second = factories.member(organization)
    ready(organization, fact="b", page="no:such")

    answer = client.get(reverse("accounts:notice", args=[notification.key]))

    assert (answer.status_code, answer.url) == (302, reverse("accounts:keys"))
    first_read = Delivery.objects.get(notification=notification, user=owner).read_at
    assert first_read is not None
    client.get(reverse("accounts:notice", args=[notification.key]))
    assert Delivery.objects.get(notification=notification, user=owner).read_at == first_read
    gone = client.get(reverse("accounts:notice", args=[Notification.objects.get(fact="b").key]))
    assert (gone.status_code, gone.url) == (302, reverse(LIST))
    assert Delivery.objects.get(notification__fact="b", user=second).read_at is None


def test_opening_a_notice_of_ones_other_organization_acts_for_that_one(client, organization, owner):
    other = factories.organization(owner, name="乙")
    notification = tell(other, "a", page="accounts:organization")

    answer = client.get(reverse("accounts:notice", args=[notification.key]), follow=True)

    assert answer.context["organization"] == other


def test_one_is_marked_as_read_and_then_all(client, organization, owner):
    for name in "abc":
        tell(organization, name)
    colleague = factories.member(organization)
    tell(organization, "d")
    other = factories.organization(owner, name="乙")
    tell(other, "elsewhere")

    one = Notification.objects.get(fact="a")
    assert client.post(reverse("accounts:read_notice", args=[one.key])).url == reverse(LIST)
    unread = Delivery.objects.filter(read_at=None, user=owner)
    assert set(unread.values_list("notification__fact", flat=True)) == {"b", "c", "d", "elsewhere"}

    assert client.post(reverse("accounts:read_notices")).url == reverse(LIST)
    assert set(unread.values_list("notification__fact", flat=True)) == {"elsewhere"}
    assert Delivery.objects.filter(read_at=None, user=colleague).count() == 1


@pytest.mark.parametrize("name", ["read_notice", "read_notices"])
def test_reading_takes_a_post(client, organization, owner, name):
    notification = tell(organization, "a")
    args = [notification.key] if name == "read_notice" else []

    assert client.get(reverse(f"accounts:{name}", args=args)).status_code == 405
    assert Delivery.objects.get().read_at is None


def test_a_notice_for_a_colleague_alone_is_not_found(client, organization, owner):
    notification = tell(organization, "a", user=factories.member(organization))

    assert client.get(reverse("accounts:notice", args=[notification.key])).status_code == 404
    assert client.post(reverse("accounts:read_notice", args=[notification.key])).status_code == 404
    assert titles(client) == []
    assert Delivery.objects.get().read_at is None


def test_who_left_finds_nothing(client, organization, owner):
    notification = tell(organization, "a")
    factories.organization(owner, name="乙")
    Membership.objects.filter(user=owner, organization=organization).delete()

    assert client.get(reverse("accounts:notice", args=[notification.key])).status_code == 404
    assert titles(client) == []


def test_what_a_role_may_not_see_any_more_is_not_listed(client, organization, owner):
    ready(organization, kind="credit_low", params={"hours": 72, "left": "¥1.00"})
    assert len(titles(client)) == 1
    Membership.objects.filter(user=owner).update(role="engineer")
    assert "engineer" not in ALLOWED["bills"]

    page = client.get(reverse(LIST))

    assert (page.context["rows"], page.context["request"].unread_notices == 0) == ([], True)


def test_the_badge_counts_what_is_unread_up_to_99(client, organization, owner):
    address = reverse("accounts:keys")
    assert "nav-badge" not in client.get(address).text
    for number in range(3):
        tell(organization, f"m{number}")
    assert '<span class="nav-badge" aria-hidden="true">3</span>' in client.get(address).text
    for number in range(3, 101):
        tell(organization, f"m{number}")
    assert '<span class="nav-badge" aria-hidden="true">99+</span>' in client.get(address).text


def asked_about_deliveries(client, name):
    with CaptureQueriesContext(connection) as queries:
        assert client.get(reverse(name)).status_code == 200
    return len([query for query in queries if "accounts_delivery" in query["sql"]])


def test_the_badge_costs_a_member_one_query_and_a_stranger_none(client, organization):
    for name in ("home", "catalog:list"):
        assert asked_about_deliveries(client, name) == 0
    client.force_login(organization.memberships.get().user, backend=BACKEND)
    for name in ("accounts:keys", "orders:list"):
        assert asked_about_deliveries(client, name) == 1


# --- preferences -----------------------------------------------------------------------------------------------------
PREFERENCES = "accounts:notice_preferences"


def test_preferences_are_kept_for_the_person(client, organization, owner):
    colleague = factories.member(organization)

    answer = client.post(reverse(PREFERENCES), {"machines_app": "on", "orders_mail": "on", "money_mail": "on"})

    assert (answer.status_code, answer.url) == (302, reverse(PREFERENCES))
    wishes = NotificationPreference.objects.filter(user=owner).order_by("pk")
    assert list(wishes.values_list("group", "in_app", "mail")) == [
        ("machines", True, False),
        ("rules", False, False),
        ("terms", False, False),
        ("orders", False, True),
        ("money", True, True),
    ]
    assert not NotificationPreference.objects.filter(user=colleague).exists()
    form = client.get(reverse(PREFERENCES)).context["form"]
    assert {name: box.initial for name, box in form.fields.items() if name.startswith("machines")} == {
        "machines_app": True,
        "machines_mail": False,
    }


def test_saving_again_changes_the_same_rows(client, owner):
    for _time in range(2):
        client.post(reverse(PREFERENCES), {"machines_app": "on"})

    assert NotificationPreference.objects.filter(user=owner).count() == 5


def test_money_cannot_be_taken_out_of_the_console(client, owner):
    page = client.get(reverse(PREFERENCES))
    assert page.context["form"].fields["money_app"].disabled

    client.post(reverse(PREFERENCES), {"money_app": ""})

    wish = NotificationPreference.objects.get(user=owner, group="money")
    assert (wish.in_app, wish.mail) == (True, False)


def test_an_engineer_chooses_among_what_an_engineer_may_see(client, organization):
    engineer = factories.member(organization)
    NotificationPreference.objects.create(user=engineer, group="money", in_app=True, mail=False)
    client.force_login(engineer, backend=BACKEND)

    assert [group.name for group, *_boxes in client.get(reverse(PREFERENCES)).context["form"].rows()] == [
        "machines", "rules", "terms", "orders",
    ]  # fmt: skip
    client.post(reverse(PREFERENCES), {"money_mail": "on"})

    assert NotificationPreference.objects.get(user=engineer, group="money").mail is False


def test_an_unproven_address_is_pointed_out(client, owner):
    address = reverse("account_email")
    assert address not in client.get(reverse(PREFERENCES)).text.split("<main")[1]
    EmailAddress.objects.filter(user=owner).update(verified=False)
    assert address in client.get(reverse(PREFERENCES)).text.split("<main")[1]


@pytest.mark.parametrize("name", [LIST, PREFERENCES])
def test_a_visitor_is_asked_to_log_in(client, name):
    answer = client.get(reverse(name))
    assert (answer.status_code, answer.url.split("?")[0]) == (302, reverse("account_login"))
