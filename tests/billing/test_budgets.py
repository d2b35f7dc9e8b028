"""Budgets: what a month has cost by project, told at 50, 80 and 100 percent, orders refused, machines stopped."""

from datetime import date, timedelta

import pytest
from django.db import IntegrityError, transaction

from accounts import budgets
from accounts.models import Budget, CreditLine, Notification, Project
from billing import actions
from billing.actions import budgets as sweep
from billing.spending import month_spending
from catalog.models import Host
from orders import actions as orders
from orders.models import Order
from rentals import actions as rentals
from rentals.actions import locked, move_rental
from rentals.models import Rental
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, JANUARY, NOVEMBER, rental, used
from tests.support.threads import at_once, outcomes, times

pytestmark = pytest.mark.django_db
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


@pytest.fixture
def organization():
    return factories.organization(credit_minor=100_000_000)


def project(organization, name="训练"):
    return Project.objects.create(organization=organization, name=name)


def budget(organization, amount_minor, *, of=None, on_reached="warn"):
    return budgets.set_budget(
        organization=organization, project=of, amount_minor=amount_minor, on_reached=on_reached, actor=None, at=NOVEMBER
    )


def running(organization, *, of=None, name="train-1", since=NOVEMBER):
    """A machine that burns ¥10 an hour, in a project."""
    made = rental(organization, rate="2.50", cards=4, name=name)
    changes = {"meter": "card_hour", "metered_from": since, "running_at": since}
    if of is not None:
        type(made.subscription).objects.filter(pk=made.subscription_id).update(project=of)
        changes["project"] = of
    Rental.objects.filter(pk=made.pk).update(**changes)
    return made


def told():
    found = Notification.objects.filter(kind="budget_reached").order_by("created_at", "pk")
    return [(one.params["name"], one.params["spent"], one.params["does"], one.created_at) for one in found]


# --- what a month has cost -------------------------------------------------------------------------------------------
def test_a_month_is_what_was_used_and_ordered_in_it_by_project(organization):
    train = project(organization)
    running(organization, of=train)
    other = rental(organization, name="other")
    used(other, NOVEMBER - 2 * HOUR, NOVEMBER)  # October's
    used(other, NOVEMBER, NOVEMBER + 4 * HOUR)
    offer = factories.offer(cards=1)
    factories.order(organization, offer, term="month", at=NOVEMBER + HOUR)
    gone = factories.order(organization, offer, term="month", at=NOVEMBER + HOUR)
    Order.objects.filter(pk=gone.pk).update(status="cancelled")

    month = month_spending(organization, at=NOVEMBER + 10 * HOUR)

    train_part, default = month.of(train.pk), month.of(organization.projects.get(is_default=True).pk)
    assert (train_part.used_minor, train_part.advance_minor, train_part.burn) == (10_000, 0, 10)
    assert (default.used_minor, default.advance_minor, default.burn) == (1_000, 128_000, 0)
    assert month.of(None).spent_minor == 139_000
    # 30 days of ¥10 an hour, and what was spent.
    assert month.forecast_minor(train_part) == 720_000
    assert month.forecast_minor(month.of(None)) == 720_000 + 129_000


def test_the_next_month_begins_at_nothing(organization):
    running(organization)

    assert month_spending(organization, at=DECEMBER).of(None).spent_minor == 0
    assert month_spending(organization, at=DECEMBER + HOUR).of(None).spent_minor == 1_000
    assert month_spending(organization, at=DECEMBER - MINUTE).of(None).spent_minor == 719_983


def test_it_takes_as_many_queries_for_many_projects(organization, django_assert_num_queries):
    for count in (1, 3):
        for number in range(count):
            running(organization, of=project(organization, f"p{count}{number}"))
        with django_assert_num_queries(3):
            month_spending(organization, at=NOVEMBER + HOUR)


def test_the_figures_are_written_down(organization):
    train = project(organization)
    running(organization, of=train)
    running(organization, name="other")
    whole, part = budget(organization, 1_000_000), budget(organization, 500_000, of=train)

    actions.enforce_budgets(at=NOVEMBER + 10 * HOUR)

    whole.refresh_from_db()
    part.refresh_from_db()
    assert (whole.month, whole.spent_minor, whole.forecast_minor) == (date(2026, 11, 1), 20_000, 1_440_000)
    assert (part.spent_minor, part.forecast_minor, part.refreshed_at) == (10_000, 720_000, NOVEMBER + 10 * HOUR)


# --- notices ---------------------------------------------------------------------------------------------------------
def test_50_80_and_100_percent_are_told_once_each_and_anew_next_month(organization):
    running(organization)
    budget(organization, 10_000)

    for minutes in range(0, 20 * 60, 30):
        actions.enforce_budgets(at=NOVEMBER + timedelta(minutes=minutes))
    assert told() == [
        ("福州智算科技", "¥50.00", "warn", NOVEMBER + 5 * HOUR),
        ("福州智算科技", "¥80.00", "warn", NOVEMBER + 8 * HOUR),
        ("福州智算科技", "¥100.00", "warn", NOVEMBER + 10 * HOUR),
    ]

    for hours in (1, 6, 7):
        actions.enforce_budgets(at=DECEMBER + hours * HOUR)
    assert told()[3:] == [("福州智算科技", "¥60.00", "warn", DECEMBER + 6 * HOUR)]


def test_a_leap_over_several_levels_is_told_as_the_highest(organization):
    running(organization)
    budget(organization, 10_000)

    actions.enforce_budgets(at=NOVEMBER + 9 * HOUR)

    assert [spent for _name, spent, _does, _at in told()] == ["¥90.00"]


def test_a_raised_budget_is_told_of_again_at_its_own_levels(organization):
    running(organization)
    one = budget(organization, 10_000)
    actions.enforce_budgets(at=NOVEMBER + 10 * HOUR)
    budgets.change_budget(budget_id=one.pk, amount_minor=20_000, on_reached="warn")

    actions.enforce_budgets(at=NOVEMBER + 11 * HOUR)
    actions.enforce_budgets(at=NOVEMBER + 12 * HOUR)

    assert [spent for _name, spent, _does, _at in told()] == ["¥100.00", "¥110.00"]


@pytest.mark.django_db(transaction=True)
def test_sweeps_at_once_tell_and_stop_once():
    organization = factories.organization(credit_minor=100_000_000)
    machine = running(organization)
    budget(organization, 10_000, on_reached="stop")

    stopped = at_once(*times(4, lambda _n: actions.enforce_budgets(at=NOVEMBER + 11 * HOUR)))

    assert (sum(stopped), len(told())) == (1, 1)
    assert list(machine.events.filter(kind="wish").values_list("what", flat=True)) == ["budget"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("where", "name"), [(sweep, "month_spending"), (sweep, "notify"), (sweep, "_stop"), (sweep.rentals, "request_stop")]
)
def test_killed_after_any_call_the_next_sweep_ends_it(monkeypatch, where, name):
    class Killed(BaseException):
        pass

    organization = factories.organization(credit_minor=100_000_000)
    machine = running(organization)
    one = budget(organization, 10_000, on_reached="stop")
    real = getattr(where, name)

    def dies(*arguments, **named):
        real(*arguments, **named)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(where, name, dies)
        with pytest.raises(Killed):
            actions.enforce_budgets(at=NOVEMBER + 11 * HOUR)
    actions.enforce_budgets(at=NOVEMBER + 11 * HOUR)

    machine.refresh_from_db()
    one.refresh_from_db()
    assert (machine.status, one.spent_minor, len(told())) == ("stopping", 11_000, 1)
    assert machine.windows.get().seconds == 11 * 3600


def test_one_organization_that_fails_stops_no_other(organization, monkeypatch, caplog):
    other = factories.organization(name="乙")
    first, second = budget(organization, 10_000), budget(other, 10_000)
    real = sweep.month_spending
    monkeypatch.setattr(sweep, "month_spending", lambda of, at: 1 / 0 if of == organization else real(of, at=at))

    actions.enforce_budgets(at=NOVEMBER + HOUR)

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.refreshed_at, second.refreshed_at) == (None, NOVEMBER + HOUR)
    assert "could not be written down" in caplog.text


# --- stopping --------------------------------------------------------------------------------------------------------
def test_a_used_up_budget_stops_its_machines_and_no_others(organization):
    train = project(organization)
    inside, outside = running(organization, of=train), running(organization, name="outside")
    budget(organization, 10_000, of=train, on_reached="stop")

    assert actions.enforce_budgets(at=NOVEMBER + 10 * HOUR - MINUTE) == 0
    assert actions.enforce_budgets(at=NOVEMBER + 10 * HOUR) == 1
    assert actions.enforce_budgets(at=NOVEMBER + 10 * HOUR + MINUTE) == 0

    inside.refresh_from_db()
    outside.refresh_from_db()
    assert (inside.status, inside.desired, outside.status) == ("stopping", "stopped", "running")
    assert told()[-1] == ("训练", "¥100.00", "stop", NOVEMBER + 10 * HOUR)


def test_what_it_stopped_is_not_started_again_until_there_is_room(organization):
    machine = running(organization)
    one = budget(organization, 10_000, on_reached="stop")
    actions.enforce_budgets(at=NOVEMBER + 10 * HOUR)
    with transaction.atomic():
        move_rental(rental=locked(machine.pk), to="stopped", at=NOVEMBER + 10 * HOUR, stopped_at=NOVEMBER + 10 * HOUR)

    with pytest.raises(rentals.BudgetSpent) as refusal:
        rentals.request_start(rental_id=machine.pk, actor=None, at=NOVEMBER + 11 * HOUR)
    assert str(refusal.value) == "“福州智算科技”本月预算已用完：已花费 ¥100.00，共 ¥100.00。"
    assert Rental.objects.get(pk=machine.pk).status == "stopped"

    budgets.change_budget(budget_id=one.pk, amount_minor=20_000, on_reached="stop")
    assert rentals.request_start(rental_id=machine.pk, actor=None, at=NOVEMBER + 11 * HOUR).status == "starting"


def test_in_the_next_month_it_starts_again_by_its_customer(organization):
    machine = running(organization)
    budget(organization, 10_000, on_reached="stop")
    actions.enforce_budgets(at=DECEMBER - HOUR)
    with transaction.atomic():
        move_rental(rental=locked(machine.pk), to="stopped", at=DECEMBER - HOUR, stopped_at=DECEMBER - HOUR)

    assert rentals.request_start(rental_id=machine.pk, actor=None, at=DECEMBER).status == "starting"


def test_a_term_is_not_stopped(organization):
    machine = running(organization)
    type(machine.subscription).objects.filter(pk=machine.subscription_id).update(term="month", ends_at=JANUARY)
    budget(organization, 1, on_reached="stop")
    Budget.objects.update(spent_minor=2, month=date(2026, 11, 1))

    assert actions.enforce_budgets(at=NOVEMBER + HOUR) == 0


# --- orders ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def offer():
    return factories.offer(cards=1)


@pytest.mark.parametrize("on_reached", ["block", "stop"])
def test_a_used_up_budget_refuses_orders_and_nothing_is_held(organization, offer, on_reached):
    running(organization)
    budget(organization, 10_000, on_reached=on_reached)
    actions.enforce_budgets(at=NOVEMBER + 12 * HOUR)
    before = Order.objects.count()

    for term in ("hour", "month"):
        with pytest.raises(orders.BudgetUsedUp) as refusal:
            factories.order(organization, offer, term=term, at=NOVEMBER + 12 * HOUR)

    assert refusal.value.code == "budget_used_up"
    assert "已花费 ¥120.00，共 ¥100.00" in str(refusal.value)
    assert Order.objects.count() == before
    assert CreditLine.objects.get(organization=organization).committed_minor == 0
    assert Host.objects.get(pool=offer.pool).cards_free == 8


def test_a_budget_that_only_warns_lets_orders_pass(organization, offer):
    running(organization)
    budget(organization, 10_000)
    actions.enforce_budgets(at=NOVEMBER + 12 * HOUR)

    assert factories.order(organization, offer, at=NOVEMBER + 12 * HOUR).status == "confirmed"


def test_an_order_in_advance_must_fit_into_what_is_left(organization, offer):
    one = budget(organization, 200_000, on_reached="block")

    factories.order(organization, offer, term="month", at=NOVEMBER)  # ¥1,280
    one.refresh_from_db()
    assert (one.spent_minor, one.month) == (128_000, date(2026, 11, 1))
    with pytest.raises(orders.BudgetUsedUp) as refusal:
        factories.order(organization, offer, term="month", at=NOVEMBER)

    assert refusal.value.code == "budget_used_up"
    assert "¥1,280.00" in str(refusal.value)
    assert "¥720.00" in str(refusal.value)
    assert factories.order(organization, offer, at=NOVEMBER).status == "confirmed"


def test_another_projects_budget_does_not_matter(organization, offer):
    train = project(organization)
    budget(organization, 100, of=train, on_reached="block")

    factories.order(organization, offer, term="month", at=NOVEMBER)
    with pytest.raises(orders.BudgetUsedUp):
        factories.order(organization, offer, term="month", project=train, at=NOVEMBER)


def test_last_months_figures_refuse_nothing(organization, offer):
    one = budget(organization, 200_000, on_reached="block")
    Budget.objects.update(spent_minor=500_000, month=date(2026, 10, 1))

    factories.order(organization, offer, term="month", at=NOVEMBER)

    one.refresh_from_db()
    assert (one.spent_minor, one.month) == (128_000, date(2026, 11, 1))


@pytest.mark.django_db(transaction=True)
def test_parallel_orders_do_not_pass_the_last_of_a_budget_together():
    organization, offer = factories.organization(credit_minor=100_000_000), factories.offer(cards=1)
    key = factories.ssh_key(organization)
    one = budget(organization, 300_000, on_reached="block")

    def try_it(number):
        if number % 3 == 2:
            return actions.enforce_budgets(at=NOVEMBER)
        return factories.order(organization, offer, term="month", keys=[key], at=NOVEMBER)

    results = outcomes(*times(9, try_it))

    made = [result for result in results if isinstance(result, Order)]
    assert len(made) == 2
    assert sum(isinstance(result, orders.BudgetUsedUp) for result in results) == 4
    actions.enforce_budgets(at=NOVEMBER)
    one.refresh_from_db()
    assert one.spent_minor == 256_000


# --- the budgets themselves ------------------------------------------------------------------------------------------
def test_a_scope_has_one_budget(organization):
    train = project(organization)
    budget(organization, 100)
    budget(organization, 100, of=train)

    for of in (None, train):
        with pytest.raises(budgets.BudgetRefused) as refusal:
            budget(organization, 200, of=of)
        assert (refusal.value.code, refusal.value.field) == ("budget_exists", "project")
    with pytest.raises(IntegrityError), transaction.atomic():
        Budget.objects.create(organization=organization, amount_minor=1, created_at=NOVEMBER)
    assert Budget.objects.count() == 2


@pytest.mark.parametrize("amount", [0, -1, 10**15 + 1])
def test_amounts_that_cannot_be(organization, amount):
    with pytest.raises(budgets.BudgetRefused):
        budget(organization, amount)
    assert Budget.objects.count() == 0


def test_another_organizations_project_is_refused(organization):
    with pytest.raises(budgets.BudgetRefused) as refusal:
        budget(organization, 100, of=project(factories.organization(name="乙")))
    assert refusal.value.field == "project"


def test_who_changed_it_is_kept(organization):
    one = budget(organization, 100)
    budgets.change_budget(budget_id=one.pk, amount_minor=200, on_reached="block")
    actions.enforce_budgets(at=NOVEMBER)
    budgets.delete_budget(budget_id=one.pk)

    events = one.events.model.objects.order_by("pgh_id")
    assert [(event.pgh_label, event.amount_minor, event.on_reached) for event in events] == [
        ("insert", 100, "warn"), ("update", 200, "block"), ("delete", 200, "block"),
    ]  # fmt: skip
