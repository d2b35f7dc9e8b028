"""Where the console begins: figures that agree with the meters, what needs attention, and a way in for newcomers."""

from datetime import datetime, timedelta

import pgtrigger
import pytest
import time_machine
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation

from accounts.models import CreditLine, Membership
from billing import actions as billing
from billing.models import Invoice
from billing.queries import paid_in_advance_minor, used_since_minor
from orders.models import Order, Subscription
from rentals import queries
from rentals.models import Rental
from tests import factories
from tests.billing import builders
from tests.billing.builders import HOUR, NOVEMBER
from tests.trust import builders as trust

pytestmark = pytest.mark.django_db
# 12:00 on 15 November in Shanghai.
NOW = NOVEMBER + timedelta(days=14, hours=12)


@pytest.fixture(autouse=True)
def _english():
    with translation.override("en"):
        yield


@pytest.fixture
def buyer():
    return factories.user()


@pytest.fixture
def organization(buyer):
    return factories.organization(buyer, credit_minor=1_000_00)


@pytest.fixture
def page(client, buyer, organization):
    """The overview as the owner reads it at NOW."""

    def read(person=buyer, at: datetime = NOW):
        with time_machine.travel(at, tick=False):
            client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
            return client.get(reverse("rentals:overview"))

    return read


def put(rental: Rental, **fields) -> Rental:
    """The rental in a state without its whole past."""
    with pgtrigger.ignore("rentals.Rental:status_moves"):
        Rental.objects.filter(pk=rental.pk).update(**fields)
    rental.refresh_from_db()
    return rental


def running(organization, *, since: datetime = NOW - HOUR, **fields) -> Rental:
    return put(builders.rental(organization, **fields), meter="card_hour", metered_from=since, running_at=since)


def stopped(organization, **fields) -> Rental:
    return put(
        builders.rental(organization, **fields), status="stopped", meter="disk_gb_hour", metered_from=NOW - HOUR,
        stopped_at=NOW - HOUR,
    )  # fmt: skip


def on_term(organization, *, ends_at: datetime, **fields) -> Rental:
    made = builders.rental(organization, **fields)
    Subscription.objects.filter(pk=made.subscription_id).update(term="month", started_at=NOVEMBER, ends_at=ends_at)
    return made


def texts(answer) -> list[str]:
    return [alert.text for alert in answer.context["alerts"]]


# --- the way in ------------------------------------------------------------------------------------------------------


def test_login_leads_to_the_overview():
    assert str(settings.LOGIN_REDIRECT_URL) == reverse("rentals:overview")


def test_a_new_organization_sees_three_steps(page, organization):
    text = page().text

    assert "Three steps to your first machine" in text
    assert [f'href="{reverse(name)}"' in text for name in ("accounts:keys", "catalog:list")] == [True, True]
    assert "data-done" not in text
    assert "Burn per hour" not in text

    factories.ssh_key(organization)
    assert page().text.count("data-done") == 1


def test_the_steps_go_with_the_first_order(page, organization):
    factories.order(organization, factories.offer(), at=NOW)

    text = page().text

    assert "Three steps" not in text
    assert "Nothing is running, and nothing is metered." in text
    assert "Nothing uses it up: no meter is running." in text


# --- figures ---------------------------------------------------------------------------------------------------------


def test_machines_and_cards_are_counted_by_model_with_their_burn(page, organization):
    first = factories.offer(cards=2)
    running(organization, rate="2.50", cards=2, offer=first)
    running(organization, rate="1.98", cards=2, offer=first)
    h100 = factories.pool(model=factories.gpu_model("h100", name="NVIDIA H100"))
    running(organization, rate="22.00", cards=8, offer=factories.offer(h100, cards=8))
    stopped(organization)

    answer = page()

    fleet = answer.context["fleet"]
    assert [(one.name, one.machines, one.cards) for one in fleet.models] == [
        ("NVIDIA H100", 1, 8), ("NVIDIA GeForce RTX 4090 24GB", 2, 4),
    ]  # fmt: skip
    assert [burn for _one, burn in answer.context["rows"]] == ["¥176.0000", "¥8.9600"]
    assert (fleet.disks.machines, answer.context["disks_burn"]) == (1, "¥0.0500")
    assert answer.context["burn"] == "¥185.0100"
    assert fleet.burn * 100 == queries.burn_per_hour(organization.pk).minor


def test_a_term_runs_without_burn(page, organization):
    on_term(organization, ends_at=NOW + timedelta(days=20))

    answer = page()

    assert [(one.machines, one.burn) for one in answer.context["fleet"].models] == [(1, 0)]
    assert "paid in advance" in answer.text
    assert "nothing is metered now" in answer.text


def test_credit_lasts_until_burn_has_eaten_it(page, organization):
    running(organization, rate="10.00")

    answer = page()

    # ¥1,000 less the hour that was used, at ¥10 an hour.
    assert answer.context["available_minor"] == 990_00
    assert answer.context["lasts_until"] == NOW + timedelta(hours=99)
    assert "lasts until" in answer.text
    assert "2026-11-19 15:00" in answer.text
    assert "4 d 3 h" in answer.text


def test_a_credit_line_that_is_frozen_or_missing_is_said_in_words(page, organization):
    running(organization)
    CreditLine.objects.update(standing="frozen")
    assert "The credit line is frozen." in page().text

    CreditLine.objects.update(standing="good", limit_minor=0, available_minor=0)
    assert "No credit line; terms are paid in advance." in page().text


def test_the_month_is_what_was_used_and_paid_in_it_and_its_forecast(page, organization):
    rental = running(organization, rate="3.00", since=NOW - HOUR)
    builders.used(rental, NOVEMBER - HOUR, NOVEMBER)  # October
    builders.used(rental, NOVEMBER, NOVEMBER + 2 * HOUR)
    paid = builders.order(organization, rate="1280", status="confirmed")
    Order.objects.filter(pk=paid.pk).update(paid_at=NOW - HOUR)
    before = builders.order(organization, rate="1280", status="confirmed")
    Order.objects.filter(pk=before.pk).update(paid_at=NOVEMBER - HOUR)

    month = page().context["month"]

    assert (month["used"], month["advance"], month["spent"]) == (9_00, 1280_00, 1289_00)
    # Fifteen and a half days are left of November.
    assert month["forecast"] == 1289_00 + 372 * 3_00


def test_what_was_used_since_a_midnight_leaves_out_what_an_open_meter_used_before(organization):
    running(organization, rate="3.00", since=NOVEMBER - 2 * HOUR)

    assert used_since_minor(organization=organization, since=NOVEMBER, at=NOVEMBER + HOUR) == 3_00
    assert paid_in_advance_minor(organization=organization, since=NOVEMBER, at=NOW) == 0


def test_a_billed_window_still_counts_for_its_month(organization):
    rental = builders.rental(organization, rate="30.00")
    window = builders.used(rental, NOVEMBER, NOVEMBER + HOUR)
    builders.used(rental, NOVEMBER + HOUR / 2, NOVEMBER + HOUR, reverses=window)

    billing.run_billing(at=builders.DECEMBER + timedelta(days=3))

    assert Invoice.objects.get().total_minor == 15_00
    assert used_since_minor(organization=organization, since=NOVEMBER, at=NOW) == 15_00


# --- what needs attention --------------------------------------------------------------------------------------------


def test_nothing_needs_attention(page, organization):
    running(organization)

    answer = page()

    assert answer.context["alerts"] == []
    assert "Nothing needs your attention." in answer.text


def test_machines_in_trouble_come_first_with_their_reason(page, organization):
    put(builders.rental(organization, name="lost-1"), status="lost", failure="vanished", running_at=NOVEMBER)
    put(builders.rental(organization, name="old"), status="failed", failure="boot_failed", ended_at=NOVEMBER)
    put(builders.rental(organization, name="new"), status="failed", failure="boot_failed", ended_at=NOW - HOUR)
    on_term(organization, name="term-1", ends_at=NOW + timedelta(days=7))
    on_term(organization, name="later", ends_at=NOW + timedelta(days=7, seconds=1))

    found = page().context["alerts"]

    assert [(alert.tone, alert.text.partition("”")[0].partition("“")[2]) for alert in found] == [
        ("bad", "new"), ("bad", "lost-1"), ("warn", "term-1"),
    ]  # fmt: skip
    assert "Lost. The data centre no longer has this machine." in found[1].text
    assert found[2].due == NOW + timedelta(days=7) - timedelta(seconds=1)


def test_orders_wait_for_payment_with_their_deadline(page, organization):
    order = factories.order(organization, factories.offer(), term="month", at=NOW)
    factories.invoice(order, at=NOW)

    (alert,) = page().context["alerts"]

    assert alert.text == (
        f"Order {order.number} over ¥1,280.00 waits for payment; its cards are held until the deadline."
    )
    assert (alert.due, alert.address) == (order.hold_expires_at, reverse("orders:detail", args=[order.key]))


def test_an_invoice_is_told_and_told_louder_when_overdue(page, organization):
    rental = builders.rental(organization, rate="30.00")
    builders.used(rental, NOVEMBER - HOUR, NOVEMBER)
    billing.run_billing(at=NOVEMBER + timedelta(days=3))
    invoice = Invoice.objects.get(kind="usage")
    assert invoice.due_at is not None

    before = page(at=invoice.due_at).context["alerts"]
    after = page(at=invoice.due_at + timedelta(seconds=1)).context["alerts"]

    assert [(alert.tone, alert.text) for alert in before] == [("warn", f"Invoice {invoice.number}: pay ¥30.00.")]
    assert [(alert.tone, alert.text) for alert in after] == [("bad", f"Invoice {invoice.number} is overdue: ¥30.00.")]


@pytest.mark.parametrize(
    ("limit_minor", "standing", "told"),
    [
        (1_000_00, "frozen", "Your credit line is frozen: nothing more can be rented by the hour."),
        (10_00, "good", "Your credit is used up: nothing more can be rented by the hour."),
        (730_00, "good", "Your credit runs out if everything keeps running as now."),
        (731_00, "good", None),
    ],
)
def test_low_credit_is_told_in_time(page, organization, limit_minor, standing, told):
    running(organization, rate="10.00")
    CreditLine.objects.update(limit_minor=limit_minor, available_minor=0, standing=standing)

    assert texts(page()) == ([told] if told else [])


def test_maintenance_is_told_where_there_are_machines(page, organization):
    rental = running(organization)
    trust.maintenance(rental.pool.region, start="2026-11-20 02:00", end="2026-11-20 04:00", title_en="New switches")
    trust.maintenance(rental.pool.region, start="2026-12-20 02:00", end="2026-12-20 04:00", title_en="Too far off")
    trust.maintenance(start="2026-11-20 02:00", end="2026-11-20 04:00", title_en="Elsewhere")

    assert texts(page()) == ["Maintenance: New switches"]


def test_many_of_a_kind_are_counted(page, organization):
    for number in range(7):
        on_term(organization, name=f"term-{number}", ends_at=NOW + timedelta(days=1))

    found = texts(page())

    assert len(found) == 6
    assert "2 more terms end within 7 days." in found


# --- who may see what ------------------------------------------------------------------------------------------------


def test_an_engineer_sees_machines_but_no_bills(page, organization):
    rental = running(organization, rate="10.00")
    builders.used(rental, NOVEMBER - HOUR, NOVEMBER)
    billing.run_billing(at=NOVEMBER + timedelta(days=3))
    number = Invoice.objects.get().number

    answer = page(factories.member(organization, Membership.Role.ENGINEER))

    assert "¥10.0000" in answer.text
    assert number not in answer.text
    assert "Credit available" not in answer.text
    assert number in page(factories.member(organization, Membership.Role.FINANCE)).text


def test_a_stranger_sees_nothing_of_it(page, organization):
    rental = put(builders.rental(organization, name="secret-1"), status="lost")
    stranger = factories.user()
    factories.organization(stranger, name="路人")

    assert rental.name not in page(stranger).text


def test_visitors_are_asked_to_sign_in(client):
    assert client.get(reverse("rentals:overview")).url.startswith(reverse("account_login"))


def test_the_overview_costs_the_same_for_one_of_each_and_three(page, organization):
    def one_more():
        running(organization)
        put(builders.rental(organization), status="lost", failure="vanished")
        on_term(organization, ends_at=NOW + timedelta(days=1))
        factories.order(organization, factories.offer(), term="month", at=NOW)

    def count():
        with CaptureQueriesContext(connection) as asked:
            page()
        return len(asked)

    one_more()
    count()
    one = count()
    one_more()
    one_more()
    assert count() == one
