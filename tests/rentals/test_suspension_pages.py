"""A suspended machine on its pages: why, what to do, and no button that cannot work."""

from datetime import timedelta

import pytest
from django.urls import reverse

from billing import actions as billing
from billing.models import Arrears
from rentals.models import Rental
from tests import factories
from tests.billing.builders import NOVEMBER, rental

pytestmark = pytest.mark.django_db


@pytest.fixture
def organization():
    return factories.organization()


@pytest.fixture
def page(client, organization):
    client.force_login(organization.members.get())
    client.cookies["django_language"] = "en"
    return client


@pytest.fixture
def machine(organization):
    return suspended(rental(organization))


def suspended(one, reason="arrears"):
    Rental.objects.filter(pk=one.pk).update(
        status="stopping", suspension=reason, suspended_at=NOVEMBER, running_at=NOVEMBER, meter="disk_gb_hour",
        metered_from=NOVEMBER,
    )  # fmt: skip
    Rental.objects.filter(pk=one.pk).update(status="suspended")
    one.refresh_from_db()
    return one


def text(answer):
    return " ".join(answer.content.decode().split())


def url(name, rental):
    return reverse(f"rentals:{name}", args=[rental.key])


def test_its_page_says_why_what_to_do_and_until_when(page, machine, settings):
    settings.ARREARS_RETENTION_DAYS = 15
    shown = text(page.get(url("detail", machine)))

    assert "is suspended because your balance is below zero. Its disk is kept." in shown
    assert "Top up or pay what is open; the machine then goes on by itself." in shown
    assert f'href="{reverse("billing:balance")}"' in shown
    assert url("start", machine) not in shown
    assert url("stop", machine) not in shown
    assert url("terminate", machine) in shown
    assert "The cards have been released." in shown
    assert 'data-status="suspended"' in shown
    assert "Disk kept until" in shown


def test_who_sees_no_bills_is_not_led_to_them(client, organization, machine):
    client.force_login(factories.member(organization, "engineer"))
    client.cookies["django_language"] = "en"

    shown = text(client.get(url("detail", machine)))

    assert "is suspended because your balance is below zero" in shown
    assert "Top up or pay</" not in shown


def test_one_that_our_staff_suspended_says_so(page, organization):
    shown = text(page.get(url("detail", suspended(rental(organization), "operator"))))

    assert "was suspended by our staff. Its disk is kept." in shown
    assert "Please contact us." in shown
    assert "Top up or pay</" not in shown


@pytest.mark.parametrize("verb", ["start", "stop"])
def test_a_click_of_an_old_page_is_refused_with_the_way_out(page, machine, verb):
    answer = page.post(url(verb, machine))

    assert answer.status_code == 409
    assert "Top up or pay what is open" in text(answer)
    machine.refresh_from_db()
    assert machine.status == "suspended"


def test_the_list_finds_suspended_machines(page, organization, machine):
    other = rental(organization, name="other")

    shown = text(page.get(f"{reverse('rentals:list')}?state=suspended"))

    assert machine.name in shown
    assert other.name not in shown


def test_a_bulk_stop_says_why_not(page, machine):
    answer = page.post(reverse("rentals:bulk_stop"), {"rental": [machine.key]})

    assert "It is suspended: it is off already." in text(answer)


def test_the_console_begins_with_it(page, organization, machine):
    Arrears.objects.create(account=billing.account_of(organization=organization), opened_at=NOVEMBER)
    assert "machines by the hour are suspended unless it is topped up" in text(page.get(reverse("rentals:overview")))

    Arrears.objects.update(status="suspended", suspended_at=NOVEMBER)
    assert "Machines by the hour are suspended: the balance is below zero." in text(
        page.get(reverse("rentals:overview"))
    )
    suspended(rental(organization, name="m2"), "operator")
    assert "“m2” was suspended by our staff. Please contact us." in text(page.get(reverse("rentals:overview")))


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("open", "run on and are billed until 01 Nov 2026, 02:00; then they are suspended"),
        ("suspended", "Disks and data are kept until"),
        ("releasing", "Disks and data are kept until"),
        ("released", "Your suspended machines were deleted"),
    ],
)
def test_billing_says_how_far_it_has_come(page, organization, status, said):
    Arrears.objects.create(
        account=billing.account_of(organization=organization), opened_at=NOVEMBER, status=status,
        suspended_at=None if status == "open" else NOVEMBER + timedelta(hours=2),
    )  # fmt: skip

    shown = page.get(reverse("billing:overview")).content.decode()

    assert said.split(" until ")[0] in shown


def test_settled_arrears_are_not_told(page, organization):
    Arrears.objects.create(
        account=billing.account_of(organization=organization), opened_at=NOVEMBER, status="cleared", cleared_at=NOVEMBER
    )

    assert "below zero" not in text(page.get(reverse("billing:overview")))
