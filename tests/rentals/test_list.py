"""The list of rentals: what narrows it, what each row says, and what it costs."""

from datetime import timedelta

import pgtrigger
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation

from marketplace.lib import clock
from orders.models import Subscription
from rentals.models import Rental, Utilisation
from tests import factories
from tests.billing import builders

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _english():
    with translation.override("en"):
        yield


@pytest.fixture
def owner():
    return factories.user()


@pytest.fixture
def organization(owner):
    return factories.organization(owner)


@pytest.fixture
def read(client, owner):
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    return lambda **query: client.get(reverse("rentals:list"), query)


def machine(of, *, status="running", name="gpu-1", **fields) -> Rental:
    made = builders.rental(of, name=name)
    with pgtrigger.ignore("rentals.Rental:status_moves"):
        Rental.objects.filter(pk=made.pk).update(status=status, **fields)
    made.refresh_from_db()
    return made


def names(answer) -> list[str]:
    return [row["rental"].name for row in answer.context["rows"]]


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("", ["f", "e", "d", "c", "b", "a"]),
        ("running", ["a"]),
        ("stopped", ["b"]),
        ("moving", ["c"]),
        ("attention", ["e", "d"]),
        ("over", ["f"]),
    ],
)
def test_it_is_narrowed_by_state(read, organization, state, shown):
    for name, status in zip("abcdef", ("running", "stopped", "booting", "lost", "failed", "gone"), strict=True):
        machine(organization, status=status, name=name)

    assert names(read(state=state)) == shown


def test_it_is_narrowed_by_project_and_name_together(read, organization):
    for name in ("train-1", "train-2", "serve-1"):
        machine(organization, name=name)
    research = organization.projects.create(name="科研")
    Rental.objects.filter(name__in=["train-1", "serve-1"]).update(project=research)

    answer = read(project=research.pk, q="TRAIN")

    assert names(answer) == ["train-1"]
    assert "科研" in answer.text


def test_nothing_that_fits_says_how_to_see_all(read, organization):
    machine(organization)

    answer = read(q="nothing")

    assert names(answer) == []
    assert "No machine fits" in answer.text


@pytest.mark.parametrize(
    "query", [{"state": "broken"}, {"project": "x"}, {"project": "9" * 30}, {"q": "x" * 61}, {"state": "<b>"}]
)
def test_what_cannot_be_read_is_told_beside_the_field_and_narrows_nothing(read, organization, query):
    machine(organization)
    organization.projects.create(name="科研")

    answer = read(**query)

    assert (answer.status_code, names(answer)) == (200, ["gpu-1"])
    assert list(answer.context["form"].errors) == list(query)
    assert "field__errors" in answer.text


def test_anothers_project_narrows_nothing(read, organization):
    machine(organization)
    organization.projects.create(name="科研")
    foreign = factories.organization(name="别家").projects.get()

    answer = read(project=foreign.pk)

    assert names(answer) == ["gpu-1"]
    assert "project" in answer.context["form"].errors


def test_other_pages_keep_what_narrows(read, organization, monkeypatch):
    monkeypatch.setattr("rentals.views.listing.PAGE", 1)
    machine(organization, name="gpu-1"), machine(organization, name="gpu-2")

    assert "?q=gpu&amp;page=2" in read(q="gpu").text


def test_a_row_says_how_busy_it_is_or_why_nobody_knows(read, organization):
    at = clock.now()
    read_now, silent = machine(organization, name="busy"), machine(organization, name="silent")
    machine(organization, name="off", status="stopped")
    old = machine(organization, name="old")
    for rental, ago in ((read_now, timedelta(0)), (old, timedelta(hours=1))):
        Utilisation.objects.create(
            rental=rental, asked_at=at - ago, read_at=at - ago, busy="61.50", busiest="80", memory="40", cards_read=1
        )

    answer = read()

    rows = {row["rental"].name: row["reading"] for row in answer.context["rows"]}
    assert rows["busy"]["utilisation"].busy == 61.5
    assert 'value="61"' in answer.text
    assert [rows[name]["why"] for name in ("silent", "off", "old")] == ["no reading", "not running", "no reading"]
    assert silent.name == "silent"


def test_a_running_machine_shows_its_command_and_its_next_charge(read, organization):
    at = clock.now()
    since = at.replace(microsecond=0) - timedelta(minutes=30)
    machine(organization, ssh_host="10.0.0.7", ssh_port=2222, running_at=since, meter="card_hour", metered_from=since)

    answer = read()

    assert 'data-copy="ssh -p 2222 root@10.0.0.7"' in answer.text
    assert "¥2.5000/h now" in answer.text
    day = clock.local_date(clock.next_month_start(at, organization.zone), organization.zone)
    assert f"{day:%Y-%m-%d}</time>" in answer.text
    assert "next invoice" in answer.text


def test_a_term_shows_its_last_second_and_that_it_is_paid(read, organization):
    rental = machine(organization)
    ends_at = builders.DECEMBER
    Subscription.objects.filter(pk=rental.subscription_id).update(
        term="month", rate=1280, started_at=builders.NOVEMBER, ends_at=ends_at
    )

    text = read().text

    assert "2026-11-30 23:59:59" in text
    assert "paid in advance" in text
    assert "¥1,280.00" in text


def test_the_list_costs_the_same_for_one_row_and_three_with_readings(read, organization):
    def one_more(number):
        rental = machine(organization, name=f"gpu-{number}")
        at = clock.now()
        Utilisation.objects.create(
            rental=rental, asked_at=at, read_at=at, busy="61.50", busiest="80", memory="40", cards_read=1
        )

    def count():
        with CaptureQueriesContext(connection) as asked:
            assert read().status_code == 200
        return len(asked)

    one_more(1)
    count()
    one = count()
    one_more(2), one_more(3)
    assert count() == one
