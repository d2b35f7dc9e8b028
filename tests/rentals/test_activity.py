"""The feed: every event once, in plain words, by whom; the same as a file."""

import csv
import io
from datetime import timedelta

import pgtrigger
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation

from accounts.models import Membership
from billing import actions as billing
from billing.activity import activity as of_invoices
from billing.models import Invoice
from orders import actions as orders
from orders.activity import activity as of_orders
from rentals import actions
from rentals.actions.moving import note
from rentals.activity import activity as of_rentals
from rentals.models import Rental, RentalEvent
from tests import factories
from tests.billing import builders
from tests.factories import NOON

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _english():
    with translation.override("en"):
        yield


@pytest.fixture
def owner():
    return factories.user("alice@example.com")


@pytest.fixture
def organization(owner):
    return factories.organization(owner)


@pytest.fixture
def read(client, owner):
    def get(name="activity", person=owner, **query):
        client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
        return client.get(reverse(f"rentals:{name}"), query)

    return get


def told(answer) -> list[tuple[str, str]]:
    return [(one.line.text, one.who) for one in answer.context["lines"]]


def rows(answer) -> list[list[str]]:
    text = b"".join(answer.streaming_content).decode()
    assert text.startswith("\ufeff")
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"))))


def machine(of, name="gpu-1", *, status="running") -> Rental:
    made = builders.rental(of, name=name)
    with pgtrigger.ignore("rentals.Rental:status_moves"):
        Rental.objects.filter(pk=made.pk).update(status=status)
    made.refresh_from_db()
    return made


# --- what is told ----------------------------------------------------------------------------------------------------


def test_a_prepaid_order_is_told_from_placing_to_its_machine(read, organization, owner):
    order = factories.order(organization, factories.offer(), term="month", at=NOON)
    invoice = factories.invoice(order, at=NOON + MINUTE)
    billing.record_payment(
        invoice=invoice, method="bank_transfer", reference="B1", amount_minor=1280_00, currency="CNY",
        received_at=NOON + 2 * MINUTE,
    )  # fmt: skip
    actions.open_rentals(at=NOON + 3 * MINUTE)

    assert told(read()) == [
        (f"Order {order.number} was paid and confirmed.", "System"),
        (f"Invoice {invoice.number} over ¥1,280.00 was paid.", "System"),
        (f"Invoice {invoice.number} over ¥1,280.00 was issued.", "System"),
        (f"Order {order.number} was placed; ¥1,280.00 is to be paid in advance.", "alice@example.com"),
    ]


def test_an_order_that_is_given_up_and_one_whose_time_ran_out(read, organization, owner):
    offer = factories.offer()
    given_up, forgotten = (factories.order(organization, offer, term="month", at=NOON) for _ in range(2))
    orders.cancel_order(order_id=given_up.pk, actor=owner, at=NOON + MINUTE)
    orders.cancel_unpaid(order_id=given_up.pk, at=NOON + 2 * MINUTE)
    orders.begin_expiring(at=forgotten.hold_expires_at)

    assert told(read())[:3] == [
        (f"The time to pay order {forgotten.number} ran out.", "System"),
        (f"Order {given_up.number} was cancelled; its cards were released.", "System"),
        (f"Order {given_up.number} was given up.", "alice@example.com"),
    ]


def test_wishes_and_the_states_they_reach_are_told_but_no_steps_or_calls(read, organization, owner):
    order = factories.order(organization, factories.offer(), at=NOON)
    rental = factories.rental(order, at=NOON)
    name = rental.name
    for minute, (kind, what) in enumerate(
        [("status", "creating"), ("call", "ensure"), ("status", "booting"), ("status", "running")], start=1
    ):
        note(rental=rental, kind=kind, what=what, at=NOON + minute * MINUTE)
    with pgtrigger.ignore("rentals.Rental:status_moves"):
        Rental.objects.filter(pk=rental.pk).update(status="running")
    actions.request_stop(rental_id=rental.pk, actor=owner, at=NOON + 9 * MINUTE)

    assert told(read()) == [
        (f"A stop of {name} was requested.", "alice@example.com"),
        (f"{name} is running: login and cards were checked.", "System"),
        (f"Order {order.number} was placed.", "alice@example.com"),
    ]


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("start", "A start of gpu-1 was requested."),
        ("terminate", "The termination of gpu-1 was requested."),
        ("term_over", "The term of gpu-1 has ended."),
        ("kept_long_enough", "gpu-1 was kept for as long as agreed and is deleted now."),
        ("destroyed_by_operator", "gpu-1 was ended by our staff."),
    ],
)
def test_each_wish_has_its_sentence(read, organization, what, sentence):
    note(rental=machine(organization), kind=RentalEvent.Kind.WISH, what=what, at=NOON)

    assert told(read()) == [(sentence, "System")]


def test_a_wish_without_a_sentence_of_its_own_is_told_as_its_timeline_says_it(read, organization):
    rental = machine(organization)
    figures = {"minutes": 30, "percent": 5}
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="auto_stop_idle", at=NOON, details=figures)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="something_new", at=NOON - MINUTE)

    assert told(read()) == [
        ("gpu-1: Stopped by rule: idle 30 minutes below 5 %", "System"),
        ("gpu-1: something_new", "System"),
    ]


def test_notes_for_finance_are_not_told_but_part_payments_are(read, organization):
    invoice = factories.invoice(factories.order(organization, factories.offer(), term="month", at=NOON), at=NOON)
    for reference, amount in (("B1", 280_00), ("B2", 1100_00)):
        billing.record_payment(
            invoice=invoice, method="bank_transfer", reference=reference, amount_minor=amount, currency="CNY",
            received_at=NOON + MINUTE,
        )  # fmt: skip

    sentences = [text for text, _who in told(read()) if text.startswith(("Invoice", "A part"))]

    assert sentences == [
        f"Invoice {invoice.number} over ¥1,280.00 was paid.",
        f"A part payment for invoice {invoice.number} arrived.",
        f"Invoice {invoice.number} over ¥1,280.00 was issued.",
    ]


def test_people_of_the_provider_are_not_named(read, organization, owner):
    rental = machine(organization)
    both = factories.member(organization, email="dual@example.com", is_staff=True)
    for minute, person in enumerate((factories.user("ops@example.com", is_staff=True), both, owner, None)):
        note(rental=rental, kind=RentalEvent.Kind.WISH, what="stop", at=NOON + minute * MINUTE, actor=person)

    answer = read()

    assert [who for _text, who in told(answer)] == ["System", "alice@example.com", "dual@example.com", "Support staff"]
    assert "ops@example.com" not in answer.text


def test_the_thing_is_a_link_and_names_are_escaped(read, organization):
    rental = machine(organization, name="<b>x</b>")
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="stop", at=NOON)

    text = read().text

    assert f'<a href="{reverse("rentals:detail", args=[rental.key])}">&lt;b&gt;x&lt;/b&gt;</a>' in text
    assert "<b>x</b>" not in text


def test_chinese_is_complete(read, organization):
    note(rental=machine(organization), kind=RentalEvent.Kind.WISH, what="stop", at=NOON)

    with translation.override("zh-hans"):
        answer = read()

    assert '<html lang="zh-Hans">' in answer.text


# --- who sees it -----------------------------------------------------------------------------------------------------


def test_an_engineer_is_told_of_no_invoice(read, organization):
    order = factories.order(organization, factories.offer(), term="month", at=NOON)
    invoice = factories.invoice(order, at=NOON)
    engineer = factories.member(organization, Membership.Role.ENGINEER)

    for name in ("activity", "overview"):
        assert invoice.number not in read(name, engineer).text
    assert invoice.number not in str(rows(read("activity_export", engineer)))
    assert order.number in read(person=engineer).text
    assert invoice.number in read(person=factories.member(organization, Membership.Role.VIEWER)).text


def test_a_stranger_is_told_nothing_of_it(read, organization):
    factories.order(organization, factories.offer(), at=NOON)
    stranger = factories.user()
    factories.organization(stranger, name="路人")

    assert told(read(person=stranger)) == []
    assert "Nothing has happened yet" in read(person=stranger).text
    assert len(rows(read("activity_export", stranger))) == 1


def test_visitors_are_asked_to_sign_in(client):
    for name in ("activity", "activity_export"):
        assert client.get(reverse(f"rentals:{name}")).url.startswith(reverse("account_login"))


# --- pages -----------------------------------------------------------------------------------------------------------


def test_pages_tell_every_line_once_even_of_one_instant(read, organization, monkeypatch):
    monkeypatch.setattr("rentals.views.activity.PAGE", 2)
    rental = machine(organization)
    for _ in range(3):
        factories.order(organization, factories.offer(), at=NOON)
        note(rental=rental, kind=RentalEvent.Kind.WISH, what="stop", at=NOON)
    everything = [str(line.cursor) for source in (of_rentals, of_orders, of_invoices)
                  for line in source(organization, None, 10)]  # fmt: skip

    found, before = [], ""
    while True:
        answer = read(**({"before": before} if before else {}))
        found += [str(one.line.cursor) for one in answer.context["lines"]]
        before = answer.context["older"]
        if not before:
            break

    assert found == everything
    assert len(set(found)) == 6


@pytest.mark.parametrize("before", ["x", "1-2", "9" * 40, "-1-1-1", "<script>"])
def test_a_cursor_that_cannot_be_read_begins_at_the_top(read, organization, before):
    factories.order(organization, factories.offer(), at=NOON)

    assert len(told(read(before=before))) == 1


def test_below_the_oldest_line_there_is_a_way_back(read, organization):
    factories.order(organization, factories.offer(), at=NOON)

    answer = read(before="1-1-1")

    assert told(answer) == []
    assert f'href="{reverse("rentals:activity")}"' in answer.text


def test_the_feed_costs_the_same_for_one_line_and_three(read, organization):
    def one_more():
        order = factories.order(organization, factories.offer(), term="month", at=NOON)
        factories.invoice(order, at=NOON)
        note(rental=machine(organization), kind=RentalEvent.Kind.WISH, what="stop", at=NOON)

    def count():
        with CaptureQueriesContext(connection) as asked:
            assert read().status_code == 200
        return len(asked)

    one_more()
    count()
    one = count()
    one_more()
    one_more()
    assert count() == one


# --- the file --------------------------------------------------------------------------------------------------------


def test_the_file_tells_the_same_in_local_time_and_utc(read, organization, settings):
    settings.SITE_URL = "https://gpu.example.com"
    order = factories.order(organization, factories.offer(), at=NOON)

    answer = read("activity_export")
    found = rows(answer)

    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"].startswith('attachment; filename="activity-')
    assert found == [
        ["Time (Asia/Shanghai)", "Time (UTC)", "What", "Object", "By", "Address"],
        [
            "2026-11-30 12:00:00", "2026-11-30 04:00:00", f"Order {order.number} was placed.", order.number,
            "alice@example.com", f"https://gpu.example.com{reverse('orders:detail', args=[order.key])}",
        ],
    ]  # fmt: skip


def test_the_file_holds_more_than_one_read_of_it(read, organization, monkeypatch):
    monkeypatch.setattr("rentals.views.activity.BATCH", 2)
    rental = machine(organization)
    for _ in range(5):
        note(rental=rental, kind=RentalEvent.Kind.WISH, what="stop", at=NOON)

    assert len(rows(read("activity_export"))) == 6


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "＝1", "\t=1"])
def test_nothing_in_the_file_runs_as_a_formula(read, organization, name):
    note(rental=machine(organization, name=name), kind=RentalEvent.Kind.STATUS, what="running", at=NOON)

    _head, row = rows(read("activity_export"))

    assert row[2] == f"'{name} is running: login and cards were checked."
    assert row[3] == f"'{name}"


def test_a_void_and_an_uncollectible_invoice_are_told(organization):
    invoice = factories.invoice(factories.order(organization, factories.offer(), term="month", at=NOON), at=NOON)
    for status in (Invoice.Status.VOID, Invoice.Status.UNCOLLECTIBLE):
        invoice.events.create(status=status, at=NOON + MINUTE, actor=None)

    assert [line.text.split()[-1] for line in of_invoices(organization, None, 9)] == [
        "collected.",
        "voided.",
        "issued.",
    ]
