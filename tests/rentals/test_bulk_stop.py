"""Stopping several machines: shown first, then each through the one action, and never another organization's."""

import uuid
from datetime import timedelta

import pgtrigger
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation

from accounts.models import Membership
from marketplace.lib import clock
from orders.models import Subscription
from rentals import actions
from rentals.models import Rental, RentalEvent
from tests import factories
from tests.billing import builders

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _english():
    with translation.override("en"):
        yield


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    """Whom the page nudged a worker for."""
    nudged = []
    monkeypatch.setattr("rentals.tasks.step.apply_async", lambda **message: nudged.append(message["kwargs"]))
    return nudged


@pytest.fixture
def owner():
    return factories.user()


@pytest.fixture
def organization(owner):
    return factories.organization(owner)


@pytest.fixture
def send(client, owner):
    """POST keys as the owner; `confirmed` stops."""
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")

    def post(*rentals, confirmed: bool = False, **headers):
        keys = [str(getattr(one, "key", one)) for one in rentals]
        data = {"rental": keys, **({"confirmed": "yes"} if confirmed else {})}
        return client.post(reverse("rentals:bulk_stop"), data, **headers)

    return post


def machine(of, *, status="running", **fields) -> Rental:
    """A metered hourly machine of 2 cards in a state without its whole past."""
    made = builders.rental(of, **{"cards": 2, "name": f"gpu-{uuid.uuid4().hex[:6]}", **fields})
    meter = {"running": "card_hour", "stopped": "disk_gb_hour"}.get(status, "")
    since = clock.now().replace(microsecond=0) - timedelta(hours=1) if meter else None
    with pgtrigger.ignore("rentals.Rental:status_moves"):
        Rental.objects.filter(pk=made.pk).update(
            status=status, meter=meter, metered_from=since, desired="stopped" if status == "stopped" else "running"
        )
    made.refresh_from_db()
    return made


def statuses(*rentals: Rental) -> list[str]:
    return [Rental.objects.get(pk=rental.pk).status for rental in rentals]


def everything() -> tuple:
    return list(Rental.objects.order_by("pk").values()), RentalEvent.objects.count()


def test_the_question_lists_what_stops_what_it_keeps_costing_and_what_cannot(send, organization):
    first, second = machine(organization, name="train-1"), machine(organization, name="train-2")
    term = machine(organization, name="term-1")
    Subscription.objects.filter(pk=term.subscription_id).update(term="month")
    stopped = machine(organization, name="old", status="stopped")
    booting = machine(organization, name="young", status="booting")
    lost = machine(organization, name="ghost", status="lost")
    before = everything()

    answer = send(first, second, term, stopped, booting, lost)

    assert answer.status_code == 200
    # 2 × ¥2.50 an hour less 100 GB × ¥0.0005.
    assert [(plan.rental.name, saves, keeps) for plan, saves, keeps in answer.context["plans"]] == [
        ("term-1", "¥0.0000", "¥0.0000"), ("train-2", "¥4.9500", "¥0.0500"), ("train-1", "¥4.9500", "¥0.0500"),
    ]  # fmt: skip
    assert (answer.context["saves"], answer.context["keeps"]) == ("¥9.9000", "¥0.1000")
    assert [(rental.name, str(why)) for rental, why in answer.context["others"]] == [
        ("ghost", "Our staff looks after it; it can be terminated, but not stopped."),
        ("young", "It is not ready yet; it can be stopped once it runs."),
        ("old", "It is stopped or stopping already."),
    ]
    assert "Stop 3 machines?" in answer.text
    assert answer.text.count('type="hidden" name="rental"') == 3
    assert everything() == before


def test_a_confirmed_question_stops_each_and_nudges_for_each(
    send, organization, owner, sent, django_capture_on_commit_callbacks
):
    rentals = [machine(organization) for _ in range(3)]
    other = machine(organization)

    with django_capture_on_commit_callbacks(execute=True):
        answer = send(*rentals, confirmed=True)

    assert answer.status_code == 200
    assert "3 machines are being stopped." in answer.text
    assert statuses(*rentals, other) == ["stopping"] * 3 + ["running"]
    for rental in rentals:
        assert rental.events.get(kind="wish", what="stop").actor == owner
        assert Rental.objects.get(pk=rental.pk).meter == "disk_gb_hour"
    assert sorted(one["rental_id"] for one in sent) == sorted(rental.pk for rental in rentals)


def test_a_double_submit_changes_nothing_more(send, organization):
    rentals = [machine(organization) for _ in range(2)]
    send(*rentals, rentals[0], confirmed=True)
    before = everything()

    again = send(*rentals, confirmed=True)

    assert again.status_code == 200
    assert "2 machines are being stopped." in again.text
    assert everything() == before


def test_one_that_cannot_be_stopped_holds_up_no_other(send, organization):
    running, booting = machine(organization, name="train-1"), machine(organization, name="young", status="booting")

    answer = send(booting, running, confirmed=True)

    assert answer.status_code == 409
    assert statuses(running, booting) == ["stopping", "booting"]
    assert "1 machine is being stopped." in answer.text
    assert "1 machine could not be stopped and is as it was." in answer.text
    assert "“young” is Booting; this is not possible now." in answer.text


def test_one_that_changed_since_the_question_is_reported(send, organization, owner):
    rental = machine(organization)
    assert send(rental).status_code == 200
    actions.request_terminate(rental_id=rental.pk, actor=owner, at=clock.now())

    answer = send(rental, confirmed=True)

    assert (answer.status_code, statuses(rental)) == (409, ["destroying"])


@pytest.mark.parametrize("confirmed", [False, True])
def test_anothers_machine_is_not_found_and_nothing_is_stopped(send, organization, confirmed):
    mine, theirs = machine(organization), machine(factories.organization(name="别家"))
    before = everything()

    assert send(mine, theirs, confirmed=confirmed).status_code == 404
    assert send(mine, uuid.uuid4(), confirmed=confirmed).status_code == 404
    assert send(mine, "not-a-key", confirmed=confirmed).status_code == 404
    assert everything() == before


@pytest.mark.parametrize("confirmed", [False, True])
def test_too_many_or_none_are_refused(send, organization, confirmed):
    mine = machine(organization)
    before = everything()

    none = send(confirmed=confirmed)
    many = send(mine, *(uuid.uuid4() for _ in range(100)), confirmed=confirmed)

    assert (none.status_code, many.status_code) == (422, 422)
    assert "Choose the machines to stop in the list first." in none.text
    assert "At most 100 machines can be stopped together." in many.text
    assert everything() == before


@pytest.mark.parametrize("role", [Membership.Role.FINANCE, Membership.Role.VIEWER])
@pytest.mark.parametrize("confirmed", [False, True])
def test_those_who_only_look_cannot_stop(client, organization, role, confirmed):
    rental = machine(organization)
    client.force_login(factories.member(organization, role), backend="django.contrib.auth.backends.ModelBackend")
    before = everything()
    data = {"rental": str(rental.key)} | ({"confirmed": "yes"} if confirmed else {})

    assert client.post(reverse("rentals:bulk_stop"), data).status_code == 403
    assert everything() == before
    page = client.get(reverse("rentals:list")).text
    assert rental.name in page
    assert 'name="rental"' not in page
    assert reverse("rentals:bulk_stop") not in page


def test_visitors_are_asked_to_sign_in_and_reading_is_not_allowed(client, organization, owner):
    rental = machine(organization)

    answer = client.post(reverse("rentals:bulk_stop"), {"rental": str(rental.key), "confirmed": "yes"})

    assert answer.url.startswith(reverse("account_login"))
    assert statuses(rental) == ["running"]
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    assert client.get(reverse("rentals:bulk_stop")).status_code == 405


def test_only_what_can_be_chosen_has_a_box(client, organization, owner):
    machine(organization), machine(organization, status="gone"), machine(organization, status="failed")
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")

    assert client.get(reverse("rentals:list")).text.count('type="checkbox" name="rental"') == 1


def test_the_question_costs_the_same_for_one_machine_and_three(send, organization):
    rentals = [machine(organization) for _ in range(3)]

    def count(*chosen):
        with CaptureQueriesContext(connection) as asked:
            assert send(*chosen).status_code == 200
        return len(asked)

    count(rentals[0])
    assert count(*rentals) == count(rentals[0])
