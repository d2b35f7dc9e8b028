"""What customers are told about money: with the fact, once, and not without it."""

from datetime import timedelta

import pytest
from django.db import transaction

from accounts.models import CreditLine, Notification
from billing import actions, tasks
from billing.actions import credit, telling
from billing.models import Invoice
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, order, rental, used
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def told(kind):
    return list(Notification.objects.filter(kind=kind).order_by("pk").values_list("params", flat=True))


# --- invoices --------------------------------------------------------------------------------------------------------
def usage_invoice(settings=None):
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)
    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    return invoice


def test_an_invoice_is_told_of_when_it_is_issued(settings):
    settings.INVOICE_DAYS_UNTIL_DUE = 15
    invoice = usage_invoice()
    actions.draft_usage_invoices(at=DECEMBER + HOUR)

    notice = Notification.objects.get()
    assert (notice.organization, notice.kind, notice.fact) == (invoice.organization, "invoice_issued", str(invoice.key))
    assert notice.params == {"number": "INV-2026-000001", "amount": "¥10.00", "date": "2026-12-16 00:00"}
    assert (notice.page, notice.page_args, notice.created_at) == ("billing:invoice", [str(invoice.key)], DECEMBER)


def test_a_prepaid_orders_invoice_is_told_of_with_the_end_of_its_hold():
    made = order()

    for _time in range(2):
        actions.draft_order_invoice(order=made, at=NOVEMBER)

    assert told("invoice_issued") == [
        {"number": "INV-2026-000001", "amount": "¥1,280.00", "date": "2026-11-01 00:30"},
    ]


@pytest.mark.django_db(transaction=True)
def test_an_invoice_that_is_issued_by_many_is_told_of_once():
    made = order()

    at_once(*times(5, lambda _n: actions.draft_order_invoice(order=made, at=NOVEMBER)))

    assert len(told("invoice_issued")) == 1


def test_an_invoice_that_is_rolled_back_is_told_nobody():
    made = order()
    with transaction.atomic():
        actions.draft_order_invoice(order=made, at=NOVEMBER)
        transaction.set_rollback(True)

    assert (Invoice.objects.count(), told("invoice_issued")) == (0, [])


def test_an_invoice_is_overdue_once_after_its_day():
    invoice = usage_invoice()

    assert actions.tell_of_overdue(at=invoice.due_at) == 0
    assert actions.tell_of_overdue(at=invoice.due_at + timedelta(seconds=1)) == 1
    assert actions.tell_of_overdue(at=invoice.due_at + DAY) == 0

    assert told("invoice_overdue") == [{"number": invoice.number, "amount": "¥10.00", "date": "2026-12-16 00:00"}]


def test_only_what_is_still_owed_is_told():
    invoice = usage_invoice()
    Invoice.objects.filter(pk=invoice.pk).update(paid_minor=400)

    actions.tell_of_overdue(at=invoice.due_at + DAY)

    assert told("invoice_overdue")[0]["amount"] == "¥6.00"


def test_what_is_paid_meanwhile_or_belongs_to_an_order_is_not_overdue(monkeypatch):
    invoice = usage_invoice()
    made = actions.draft_order_invoice(order=order(at=DECEMBER), at=DECEMBER)
    listed = list(telling._overdue(invoice.due_at + DAY).values_list("pk", flat=True))
    assert listed == [invoice.pk]
    assert made.due_at < invoice.due_at
    Invoice.objects.filter(pk=invoice.pk).update(paid_minor=invoice.total_minor)

    assert telling._tell_overdue(invoice_id=invoice.pk, at=invoice.due_at + DAY) is False
    assert told("invoice_overdue") == []


def test_one_invoice_that_cannot_be_told_of_stops_no_other(monkeypatch, caplog):
    first, second = usage_invoice(), None
    used(rental(factories.organization(name="乙")), NOVEMBER, NOVEMBER + 4 * HOUR)
    (second,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    real = telling._notice
    monkeypatch.setattr(telling, "_notice", lambda invoice, *rest: 1 / 0 if invoice == first else real(invoice, *rest))

    assert actions.tell_of_overdue(at=second.due_at + DAY) == 1
    assert f"invoice {first.pk}" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_overdue_sweeps_at_once_tell_once():
    invoice = usage_invoice()

    counts = at_once(*times(5, lambda _n: actions.tell_of_overdue(at=invoice.due_at + DAY)))

    assert sum(counts) == 1
    assert len(told("invoice_overdue")) == 1


def test_the_sweep_reads_the_clock(time_machine):
    invoice = usage_invoice()
    time_machine.move_to(invoice.due_at + DAY, tick=False)

    tasks.tell_of_overdue()

    assert len(told("invoice_overdue")) == 1


# --- credit ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def machine():
    """Burns ¥10 an hour from NOVEMBER on, on a limit of ¥1,000: 72 hours are left after 28, 24 after 76."""
    one = rental(factories.organization(credit_minor=100_000), rate="2.50", cards=4)
    run(one)
    return one


def run(machine, at=NOVEMBER):
    type(machine).objects.filter(pk=machine.pk).update(meter="card_hour", metered_from=at)


def rest(machine, since, at):
    """Stop the meter and keep what it has cost."""
    used(machine, since, at)
    type(machine).objects.filter(pk=machine.pk).update(meter="", metered_from=None)


def refresh(machine, hours):
    credit.refresh_credit(organization_id=machine.organization_id, at=NOVEMBER + hours * HOUR)
    return [params["hours"] for params in told("credit_low")]


def test_low_credit_is_told_once_a_crossing(machine):
    assert refresh(machine, 27) == []
    assert refresh(machine, 28) == [72]
    assert [refresh(machine, hours) for hours in (28, 29, 60, 75)] == [[72]] * 4
    assert refresh(machine, 76) == [72, 24]
    assert [refresh(machine, hours) for hours in (77, 99, 101, 200)] == [[72, 24]] * 4

    assert told("credit_low") == [{"hours": 72, "left": "¥720.00"}, {"hours": 24, "left": "¥240.00"}]
    notice = Notification.objects.filter(kind="credit_low").first()
    assert (notice.page, notice.page_args) == ("billing:overview", [])


def test_a_fall_past_both_marks_is_told_as_the_lower_one(machine):
    assert refresh(machine, 80) == [24]
    assert refresh(machine, 81) == [24]


def test_spent_credit_is_not_told_as_less_than_nothing(machine):
    refresh(machine, 120)

    assert told("credit_low") == [{"hours": 24, "left": "¥0.00"}]


def test_credit_that_rose_is_told_of_at_the_next_crossing(machine):
    refresh(machine, 80)
    CreditLine.objects.filter(organization=machine.organization).update(limit_minor=200_000)
    assert refresh(machine, 81) == [24]  # ¥1,190 are left, for 119 hours

    assert refresh(machine, 127) == [24]
    assert refresh(machine, 128) == [24, 72]
    assert refresh(machine, 176) == [24, 72, 24]


def test_credit_that_rose_a_little_is_told_of_at_the_lower_mark_again(machine):
    refresh(machine, 80)
    CreditLine.objects.filter(organization=machine.organization).update(limit_minor=120_000)

    assert refresh(machine, 81) == [24]  # for 39 hours: below 72, which was passed on the way up
    assert refresh(machine, 96) == [24, 24]


def test_stopping_and_starting_does_not_repeat_a_warning_within_a_day(machine):
    assert refresh(machine, 30) == [72]
    rest(machine, NOVEMBER, NOVEMBER + 30 * HOUR)
    assert refresh(machine, 31) == [72]
    run(machine, NOVEMBER + 31 * HOUR)
    assert refresh(machine, 32) == [72]

    rest(machine, NOVEMBER + 31 * HOUR, NOVEMBER + 32 * HOUR)
    assert refresh(machine, 55) == [72]
    run(machine, NOVEMBER + 55 * HOUR)
    assert refresh(machine, 56) == [72, 72]


def test_nothing_that_runs_needs_no_credit():
    organization = factories.organization(credit_minor=0)

    credit.refresh_credit(organization_id=organization.pk, at=NOVEMBER)

    assert told("credit_low") == []


@pytest.mark.django_db(transaction=True)
def test_refreshes_at_once_warn_once():
    machine = rental(factories.organization(credit_minor=100_000), rate="2.50", cards=4)
    run(machine)

    at_once(*times(6, lambda _n: refresh(machine, 30)))

    assert [params["hours"] for params in told("credit_low")] == [72]


def test_a_refresh_that_is_rolled_back_warns_nobody_and_the_next_one_does(machine):
    with transaction.atomic():
        assert refresh(machine, 30) == [72]
        transaction.set_rollback(True)
    assert told("credit_low") == []

    assert refresh(machine, 30) == [72]
