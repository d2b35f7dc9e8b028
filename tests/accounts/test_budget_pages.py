"""Pages of projects and budgets: figures of the month, forms, who may, whose they are."""

import pytest
from django.urls import reverse

from accounts import actions, budgets
from accounts.models import Budget, Project
from rentals.models import Rental
from tests import factories
from tests.billing.builders import HOUR, NOVEMBER, rental

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def now(time_machine):
    time_machine.move_to(NOVEMBER + 10 * HOUR, tick=False)


@pytest.fixture
def organization():
    return factories.organization()


@pytest.fixture
def page(client, organization):
    client.force_login(organization.members.get())
    client.cookies["django_language"] = "en"
    return client


def url(name, *args):
    return reverse(f"accounts:{name}", args=args)


def text(answer):
    return " ".join(answer.content.decode().split())


def running(organization, *, of=None, name="train-1"):
    """¥10 an hour since the month began."""
    made = rental(organization, rate="2.50", cards=4, name=name)
    project = of or made.project
    type(made.subscription).objects.filter(pk=made.subscription_id).update(project=project)
    Rental.objects.filter(pk=made.pk).update(meter="card_hour", metered_from=NOVEMBER, project=project)


def budget(organization, amount_minor, *, of=None, on_reached="warn"):
    return budgets.set_budget(
        organization=organization, project=of, amount_minor=amount_minor, on_reached=on_reached, actor=None, at=NOVEMBER
    )


# --- the list --------------------------------------------------------------------------------------------------------
def test_each_project_shows_what_it_spent_and_what_its_month_comes_to(page, organization):
    train = Project.objects.create(organization=organization, name="训练")
    running(organization, of=train)
    budget(organization, 1_000_000)
    budget(organization, 12_000, of=train, on_reached="stop")

    shown = text(page.get(url("budgets")))

    assert shown.count("¥100.00") == 2  # the project's and the whole
    assert "¥7,200.00" in shown
    assert "¥10,000.00" in shown
    assert "83&nbsp;%" in shown
    assert "Almost used up" in shown
    assert "Refuse new orders and stop machines" in shown


def test_a_budget_that_the_forecast_passes_says_so(page, organization):
    running(organization)
    budget(organization, 500_000)

    assert "Will not last" in text(page.get(url("budgets")))


def test_a_used_up_one_says_so(page, organization):
    running(organization)
    budget(organization, 10_000)

    assert "Used up" in text(page.get(url("budgets")))


def test_it_takes_as_many_queries_for_one_project_as_for_three(page, organization, django_assert_max_num_queries):
    counts = []
    for extra in (0, 2):
        for number in range(extra + 1):
            one = Project.objects.create(organization=organization, name=f"p{extra}{number}")
            running(organization, of=one)
            budget(organization, 10_000, of=one)
        with django_assert_max_num_queries(30) as captured:
            page.get(url("budgets"))
        counts.append(len(captured))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(("role", "status"), [("finance", 200), ("viewer", 200), ("engineer", 403)])
def test_who_sees_bills_sees_it(client, organization, role, status):
    client.force_login(factories.member(organization, role))

    assert client.get(url("budgets")).status_code == status


def test_a_viewer_is_offered_no_change(client, organization):
    running(organization)
    budget(organization, 10_000)
    client.force_login(factories.member(organization, "viewer"))

    shown = client.get(url("budgets")).content.decode()

    assert url("new_budget") not in shown
    assert "/budgets/new/" not in shown
    assert "/projects/" not in shown


# --- budgets ---------------------------------------------------------------------------------------------------------
def test_a_budget_is_set(page, organization):
    train = Project.objects.create(organization=organization, name="训练")
    assert page.get(f"{url('new_budget')}?project={train.pk}").status_code == 200

    answer = page.post(url("new_budget"), {"project": train.pk, "amount": "1234.50", "on_reached": "block"})

    assert (answer.status_code, answer.url) == (302, url("budgets"))
    made = Budget.objects.get()
    assert (made.project, made.amount_minor, made.on_reached, made.created_by) == (
        train, 123_450, "block", organization.members.get(),
    )  # fmt: skip


def test_an_empty_choice_is_the_whole_organization(page):
    page.post(url("new_budget"), {"project": "", "amount": "100", "on_reached": "warn"})

    assert Budget.objects.get().project is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("amount", "0"), ("amount", "-1"), ("amount", "1.234"), ("amount", "x"), ("amount", ""), ("amount", "1e99"),
        ("amount", "NaN"), ("on_reached", "burn"), ("on_reached", ""), ("project", "999999"), ("project", "x"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_beside_its_field(page, field, value):
    good = {"project": "", "amount": "100", "on_reached": "warn"}

    answer = page.post(url("new_budget"), good | {field: value})

    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert Budget.objects.count() == 0


def test_a_second_one_for_the_same_is_refused(page, organization):
    budget(organization, 100)

    answer = page.post(url("new_budget"), {"project": "", "amount": "100", "on_reached": "warn"})

    assert answer.status_code == 422
    assert "There is a budget for this already" in text(answer)


def test_a_budget_is_changed_and_deleted(page, organization):
    one = budget(organization, 100)
    assert 'value="1.00"' in text(page.get(url("budget", one.key)))

    page.post(url("budget", one.key), {"amount": "2.50", "on_reached": "stop"})
    one.refresh_from_db()
    assert (one.amount_minor, one.on_reached) == (250, "stop")

    assert "Delete the budget" in text(page.get(url("delete_budget", one.key)))
    assert page.post(url("delete_budget", one.key)).status_code == 302
    assert Budget.objects.count() == 0


@pytest.mark.parametrize("role", ["engineer", "viewer"])
def test_who_may_not_pay_changes_nothing(client, organization, role):
    one = budget(organization, 100)
    client.force_login(factories.member(organization, role))

    for address in (url("new_budget"), url("budget", one.key), url("delete_budget", one.key)):
        assert client.post(address, {"amount": "9", "on_reached": "warn"}).status_code == 403
    one.refresh_from_db()
    assert one.amount_minor == 100


def test_a_form_of_another_organization_changes_nothing(page, organization):
    one = budget(organization, 100)
    other = factories.organization(name="乙")

    answer = page.post(url("budget", one.key), {"amount": "9", "on_reached": "warn", "acting_for": str(other.key)})

    assert answer.status_code == 409
    one.refresh_from_db()
    assert one.amount_minor == 100


def test_another_organizations_project_is_no_choice(page):
    strange = Project.objects.create(organization=factories.organization(name="乙"), name="theirs")

    answer = page.post(url("new_budget"), {"project": strange.pk, "amount": "9", "on_reached": "warn"})

    assert answer.status_code == 422
    assert Budget.objects.count() == 0


# --- projects --------------------------------------------------------------------------------------------------------
def test_a_project_is_opened_and_renamed(page, organization):
    assert page.post(url("new_project"), {"name": " 推理 "}).status_code == 302
    made = organization.projects.get(name="推理")

    assert page.post(url("project", made.pk), {"name": "推理二"}).status_code == 302
    made.refresh_from_db()
    assert (made.name, made.is_default) == ("推理二", False)


@pytest.mark.parametrize("name", ["", "  ", "x" * 61, "a\u202eb"])
def test_names_that_cannot_be(page, organization, name):
    assert page.post(url("new_project"), {"name": name}).status_code == 422
    assert organization.projects.count() == 1


def test_two_projects_do_not_share_a_name(page, organization):
    actions.create_project(organization=organization, name="推理")

    answer = page.post(url("new_project"), {"name": "推理"})

    assert answer.status_code == 422
    assert "Another project has this name" in text(answer)
    assert organization.projects.count() == 2


@pytest.mark.parametrize("role", ["engineer", "viewer", "finance"])
def test_only_who_manages_names_projects(client, organization, role):
    client.force_login(factories.member(organization, role))

    assert client.post(url("new_project"), {"name": "x"}).status_code == 403
    assert client.post(url("project", organization.projects.get().pk), {"name": "x"}).status_code == 403
    assert organization.projects.exclude(name="x").count() == 1
