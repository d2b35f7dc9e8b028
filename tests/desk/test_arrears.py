"""The desk of arrears, and what staff may do with a suspended machine."""

from datetime import timedelta

import pytest
from django.urls import reverse

from billing import actions as billing
from billing.models import Arrears
from marketplace.lib import clock
from rentals.models import Rental
from tests import factories
from tests.billing.builders import NOVEMBER
from tests.desk import world

pytestmark = pytest.mark.django_db


def press(client, row, name, **data):
    label = f"{row._meta.app_label}_{row._meta.model_name}"
    return client.post(reverse(f"admin:{label}_press", args=[row.pk, name]), data, follow=True)


@pytest.fixture
def arrears():
    return Arrears.objects.create(account=billing.account_of(organization=factories.organization()), opened_at=NOVEMBER)


def test_finance_holds_and_lets_go(staff, arrears):
    finance = staff("finance")

    press(finance, arrears, "hold", days=7)
    arrears.refresh_from_db()
    assert abs(arrears.held_until - clock.now() - timedelta(days=7)) < timedelta(minutes=1)

    press(finance, arrears, "hold", days=0)
    arrears.refresh_from_db()
    assert arrears.held_until is None


@pytest.mark.parametrize("group", ["sales", "auditor", "operations"])
def test_others_hold_nothing(staff, arrears, group):
    assert press(staff(group), arrears, "hold", days=7).status_code in {403, 404}
    arrears.refresh_from_db()
    assert arrears.held_until is None


def test_operations_suspends_and_resumes_a_machine(staff):
    machine, operations = world.rental(), staff("operations")

    press(operations, machine, "suspend")
    machine.refresh_from_db()
    assert (machine.status, machine.suspension) == ("stopping", "operator")
    wish = machine.events.get(kind="wish")
    assert (wish.what, wish.actor.groups.get().name) == ("suspend_operator", "operations")

    Rental.objects.filter(pk=machine.pk).update(status="suspended")
    press(operations, machine, "resume")
    machine.refresh_from_db()
    assert (machine.status, machine.suspension) == ("starting", "")


def test_what_cannot_be_suspended_is_refused_in_words(staff):
    machine = world.rental(status="lost")

    press(staff("operations"), machine, "suspend")

    machine.refresh_from_db()
    assert (machine.status, machine.suspension) == ("lost", "")
