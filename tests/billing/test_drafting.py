"""Usage and orders become invoices: the right month, the right amount, once."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from billing import actions, ledger, queries
from billing.models import BilledWindow, Invoice, InvoiceLine, NumberSeries
from billing.numbering import next_number
from orders import pricing
from rentals import actions as rentals_actions
from rentals import metering
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, JANUARY, NOVEMBER, order, rental, used

SECOND = timedelta(seconds=1)
pytestmark = pytest.mark.django_db


def lines(invoice):
    return list(
        invoice.lines.order_by("position").values_list(
            "meter", "quantity", "seconds", "rate", "amount_minor", "tax_minor"
        )
    )


# --- months -------------------------------------------------------------------------------------------------
def test_a_month_becomes_one_invoice_with_a_line_for_each_meter():
    machine = rental(rate="2.50", cards=2)
    used(machine, NOVEMBER, NOVEMBER + HOUR)
    used(machine, NOVEMBER + 24 * HOUR, NOVEMBER + 27 * HOUR)
    used(machine, NOVEMBER + 30 * HOUR, NOVEMBER + 130 * HOUR, meter="disk_gb_hour")

    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices

    assert (invoice.kind, invoice.status, invoice.number) == ("usage", "issued", "INV-2026-000001")
    assert (invoice.period_start, invoice.period_end) == (NOVEMBER, DECEMBER)
    assert lines(invoice) == [
        ("card_hour", 2, 4 * 3600, Decimal("2.5"), 2000, 113),
        ("disk_gb_hour", 100, 100 * 3600, Decimal("0.0005"), 500, 28),
    ]
    assert (invoice.total_minor, invoice.tax_minor) == (2500, 141)
    assert (invoice.issued_at, invoice.due_at) == (DECEMBER, DECEMBER + timedelta(days=15))
    assert BilledWindow.objects.count() == 3


def test_the_month_ends_at_local_midnight_and_not_a_second_before():
    machine = rental()
    used(machine, NOVEMBER, NOVEMBER + 2 * HOUR)

    assert actions.draft_usage_invoices(at=DECEMBER - SECOND).invoices == []
    assert len(actions.draft_usage_invoices(at=DECEMBER).invoices) == 1


def test_an_organization_elsewhere_has_its_own_months():
    tokyo = factories.organization(name="東京")
    type(tokyo).objects.filter(pk=tokyo.pk).update(zone="Asia/Tokyo")
    tokyo.refresh_from_db()
    end = datetime(2026, 11, 30, 15, tzinfo=UTC)
    used(rental(tokyo), end - 2 * HOUR, end)
    used(rental(), end - 2 * HOUR, end)

    (invoice,) = actions.draft_usage_invoices(at=end).invoices

    assert invoice.organization == tokyo
    assert (invoice.period_start, invoice.period_end) == (datetime(2026, 10, 31, 15, tzinfo=UTC), end)


def test_two_months_behind_are_two_invoices():
    machine = rental()
    used(machine, NOVEMBER, NOVEMBER + 2 * HOUR)
    used(machine, DECEMBER, DECEMBER + 4 * HOUR)

    first, second = actions.draft_usage_invoices(at=JANUARY).invoices

    assert (first.period_start, first.total_minor) == (NOVEMBER, 500)
    assert (second.period_start, second.total_minor) == (DECEMBER, 1000)
    assert (first.number, second.number) == ("INV-2027-000001", "INV-2027-000002")  # 1 January in Shanghai


def test_running_it_again_changes_nothing():
    used(rental(), NOVEMBER, NOVEMBER + 2 * HOUR)
    actions.draft_usage_invoices(at=DECEMBER)
    before = (list(Invoice.objects.values()), list(InvoiceLine.objects.values()), list(BilledWindow.objects.values()))

    again = actions.draft_usage_invoices(at=DECEMBER)

    assert (again.invoices, again.carried, again.failed) == ([], [], [])
    assert before == (
        list(Invoice.objects.values()),
        list(InvoiceLine.objects.values()),
        list(BilledWindow.objects.values()),
    )


def test_what_comes_after_the_invoice_stands_on_the_next_one_as_a_line_of_its_own():
    machine = rental()
    used(machine, NOVEMBER, NOVEMBER + 2 * HOUR)
    (november,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    used(machine, NOVEMBER + 50 * HOUR, NOVEMBER + 51 * HOUR)
    used(machine, DECEMBER, DECEMBER + 4 * HOUR)

    assert actions.draft_usage_invoices(at=DECEMBER + 24 * HOUR).invoices == []
    (december,) = actions.draft_usage_invoices(at=JANUARY).invoices

    assert lines(december) == [
        ("card_hour", 1, 3600, Decimal("2.5"), 250, 14),
        ("card_hour", 1, 4 * 3600, Decimal("2.5"), 1000, 57),
    ]
    late, usage = december.lines.order_by("position")
    assert (late.kind, late.period_start, late.period_end) == ("late", NOVEMBER + 50 * HOUR, NOVEMBER + 51 * HOUR)
    assert (usage.kind, usage.period_start, usage.period_end) == ("usage", DECEMBER, DECEMBER + 4 * HOUR)
    november.refresh_from_db()
    assert november.total_minor == 500


def test_a_correction_lowers_the_next_invoice():
    machine = rental()
    wrong = used(machine, NOVEMBER, NOVEMBER + 2 * HOUR)
    actions.draft_usage_invoices(at=DECEMBER)
    used(machine, NOVEMBER, NOVEMBER + 2 * HOUR, reverses=wrong)
    used(machine, DECEMBER, DECEMBER + 10 * HOUR)

    (december,) = actions.draft_usage_invoices(at=JANUARY).invoices

    assert lines(december) == [
        ("card_hour", 1, -2 * 3600, Decimal("2.5"), -500, -28),
        ("card_hour", 1, 10 * 3600, Decimal("2.5"), 2500, 142),
    ]
    assert (december.total_minor, december.tax_minor) == (2000, 114)


def test_too_little_is_carried_into_the_next_month():
    machine = rental(rate="1")
    used(machine, NOVEMBER, NOVEMBER + 3 * HOUR)

    first = actions.draft_usage_invoices(at=DECEMBER)
    used(machine, DECEMBER, DECEMBER + 2 * HOUR)
    (december,) = actions.draft_usage_invoices(at=JANUARY).invoices

    assert (first.invoices, first.carried) == ([], [machine.organization_id])
    assert (december.period_start, december.total_minor) == (DECEMBER, 500)


def test_a_price_change_leaves_running_machines_at_their_price():
    of = factories.organization()
    offer = factories.offer(cards=1)
    old, new = rental(of, rate="2.50", offer=offer), rental(of, rate="3.00", offer=offer, name="train-2")
    used(old, NOVEMBER, NOVEMBER + 2 * HOUR)
    used(new, NOVEMBER, NOVEMBER + 2 * HOUR)

    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices

    assert [(line[3], line[4]) for line in lines(invoice)] == [(Decimal("2.5"), 500), (Decimal(3), 600)]


@pytest.mark.parametrize("place", [0, 3, 6])
def test_one_bad_organization_stops_no_other(place, caplog):
    machines = [rental(factories.organization(name=f"o-{number}")) for number in range(7)]
    for machine in machines:
        used(machine, NOVEMBER, NOVEMBER + 2 * HOUR)
    bad = machines[place].organization
    type(bad).objects.filter(pk=bad.pk).update(zone="Mars/Olympus")

    done = actions.draft_usage_invoices(at=DECEMBER)

    good = [machine.organization_id for machine in machines if machine.organization_id != bad.pk]
    assert sorted(invoice.organization_id for invoice in done.invoices) == good
    assert sorted(invoice.number for invoice in done.invoices) == [f"INV-2026-{n:06d}" for n in range(1, 7)]
    assert done.failed == [bad.pk]
    assert caplog.text.count("could not be invoiced") == 1
    assert not Invoice.objects.filter(organization=bad).exists()


def test_more_than_a_charge_can_hold_is_paid_by_bank():
    machine = rental(rate="10000000")
    used(machine, NOVEMBER, NOVEMBER + HOUR)

    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices

    assert (invoice.collection, invoice.status, invoice.total_minor) == ("bank_transfer", "open", 1_000_000_000)
    assert actions.due_for_push(at=DECEMBER) == []


def test_drafting_takes_no_more_statements_for_many_customers_than_for_one():
    def customers(count):
        for number in range(count):
            machine = rental(factories.organization(name=f"c-{number}"))
            actions.account_of(organization=machine.organization)
            used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)

    customers(2)
    with CaptureQueriesContext(connection) as few:
        assert len(actions.draft_usage_invoices(at=DECEMBER).invoices) == 2
    customers(20)
    with CaptureQueriesContext(connection) as many:
        assert len(actions.draft_usage_invoices(at=DECEMBER).invoices) == 20

    assert len(many) == len(few) <= 50


# --- grace ----------------------------------------------------------------------------------------------------
def test_a_month_lies_as_a_draft_until_its_grace_is_over(settings):
    settings.INVOICE_GRACE_HOURS = 6
    machine = rental()
    used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)

    first = actions.draft_usage_invoices(at=DECEMBER + HOUR)
    (draft,) = Invoice.objects.all()
    assert (first.invoices, first.drafts) == ([], [draft.pk])
    assert (draft.status, draft.number, draft.total_minor, draft.tax_minor) == ("draft", None, 1000, 57)
    assert (BilledWindow.objects.count(), NumberSeries.objects.count()) == (0, 0)
    assert queries.unbilled_minor(organization=draft.organization, at=DECEMBER + HOUR) == 1000

    used(machine, NOVEMBER + 50 * HOUR, NOVEMBER + 51 * HOUR)  # came late, but in time
    again = actions.draft_usage_invoices(at=DECEMBER + 6 * HOUR - SECOND)
    draft.refresh_from_db()
    assert (again.drafts, draft.total_minor) == ([draft.pk], 1250)

    (invoice,) = actions.draft_usage_invoices(at=DECEMBER + 6 * HOUR).invoices
    assert (invoice.pk, invoice.status, invoice.number) == (draft.pk, "issued", "INV-2026-000001")
    assert lines(invoice) == [("card_hour", 1, 5 * 3600, Decimal("2.5"), 1250, 71)]
    assert (BilledWindow.objects.count(), ledger.check()) == (2, [])


def test_an_older_month_is_issued_while_the_last_one_lies_in_grace(settings):
    settings.INVOICE_GRACE_HOURS = 6
    machine = rental()
    used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)
    used(machine, DECEMBER, DECEMBER + 8 * HOUR)

    done = actions.draft_usage_invoices(at=JANUARY)

    assert [(one.period_start, one.total_minor) for one in done.invoices] == [(NOVEMBER, 1000)]
    (draft,) = Invoice.objects.filter(status="draft")
    assert (done.drafts, draft.period_start, draft.total_minor) == ([draft.pk], DECEMBER, 2000)


def test_a_draft_whose_usage_was_taken_back_is_gone(settings):
    settings.INVOICE_GRACE_HOURS = 6
    machine = rental()
    wrong = used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)
    actions.draft_usage_invoices(at=DECEMBER)
    used(machine, NOVEMBER, NOVEMBER + 4 * HOUR, reverses=wrong)

    done = actions.draft_usage_invoices(at=DECEMBER + 7 * HOUR)

    assert (done.invoices, done.drafts, Invoice.objects.count(), InvoiceLine.objects.count()) == ([], [], 0, 0)


def test_drafting_takes_no_more_statements_for_many_machines_than_for_one():
    of = factories.organization()
    offer = factories.offer(cards=1)
    used(rental(of, offer=offer), NOVEMBER, NOVEMBER + 4 * HOUR)
    for number in range(20):
        used(rental(of, offer=offer, name=f"m-{number}"), DECEMBER, DECEMBER + 4 * HOUR)

    with CaptureQueriesContext(connection) as one:
        assert len(actions.draft_usage_invoices(at=DECEMBER).invoices) == 1
    with CaptureQueriesContext(connection) as many:
        assert actions.draft_usage_invoices(at=JANUARY).invoices[0].lines.count() == 20

    assert len(many) <= len(one)


# --- orders -------------------------------------------------------------------------------------------------
def test_an_order_becomes_an_invoice_that_is_due_when_its_hold_ends():
    eight = factories.offer(cards=8)
    made = order(offer=eight, rate="5999.99", quantity=2, periods=3)

    invoice = actions.draft_order_invoice(order=made, at=NOVEMBER)

    assert (invoice.kind, invoice.order, invoice.status) == ("order", made, "issued")
    assert invoice.total_minor == made.total_minor == 16 * 3 * 599_999
    assert (invoice.issued_at, invoice.due_at) == (NOVEMBER, made.hold_expires_at)
    line = invoice.lines.get()
    assert (line.meter, line.quantity, line.periods, line.rate) == ("month", 16, 3, Decimal("5999.99"))
    assert line.title == "NVIDIA GeForce RTX 4090 24GB × 8"
    assert line.tax_minor == pricing.tax_within(made.total_minor, Decimal(6))


def test_an_order_is_invoiced_once():
    made = order()
    first = actions.draft_order_invoice(order=made, at=NOVEMBER)

    assert actions.draft_order_invoice(order=made, at=NOVEMBER) == first
    assert actions.draft_order_invoices(at=NOVEMBER) == []
    assert Invoice.objects.count() == 1


@pytest.mark.parametrize("late", [timedelta(minutes=30), timedelta(days=1)])
def test_an_order_whose_hold_ran_out_is_not_invoiced(late):
    made = order()

    assert actions.draft_order_invoices(at=NOVEMBER + late) == []
    assert actions.draft_order_invoice(order=made, at=NOVEMBER + late) is None
    assert Invoice.objects.count() == 0


def test_a_free_order_is_paid_at_once():
    made = order(rate="0", amount_minor=0)

    invoice = actions.draft_order_invoice(order=made, at=NOVEMBER)

    made.refresh_from_db()
    assert (invoice.status, made.status) == ("paid", "confirmed")


# --- numbers and what the database holds --------------------------------------------------------------------
def test_numbers_start_anew_each_year_and_have_no_gap():
    numbers = [next_number(series="INV", year=year) for year in (2026, 2026, 2027, 2026)]

    assert numbers == ["INV-2026-000001", "INV-2026-000002", "INV-2027-000001", "INV-2026-000003"]


def test_a_rolled_back_number_is_given_again():
    with transaction.atomic():
        next_number(series="INV", year=2026)
        transaction.set_rollback(True)

    assert next_number(series="INV", year=2026) == "INV-2026-000001"
    assert NumberSeries.objects.get().next_number == 2


@pytest.mark.parametrize(
    ("table", "change"), [("invoice", {"total_minor": 1}), ("invoice", {"number": "X"}), ("line", {"amount_minor": 1})]
)
def test_an_issued_invoice_is_frozen(table, change):
    invoice = actions.draft_order_invoice(order=order(), at=NOVEMBER)
    rows = Invoice.objects if table == "invoice" else InvoiceLine.objects

    with pytest.raises(DatabaseError), transaction.atomic():
        rows.update(**change)
    with pytest.raises(DatabaseError), transaction.atomic():
        invoice.lines.all().delete()

    invoice.refresh_from_db()
    assert (invoice.total_minor, invoice.lines.get().amount_minor) == (128_000, 128_000)


def test_an_invoice_that_does_not_add_up_cannot_be_issued():
    account = actions.account_of(organization=factories.organization())
    invoice = Invoice.objects.create(
        account=account, organization=account.organization, kind="usage", currency="CNY", period_start=NOVEMBER,
        period_end=DECEMBER, total_minor=500, drafted_at=DECEMBER,
    )  # fmt: skip

    with pytest.raises(DatabaseError, match="does not add up"), transaction.atomic():
        actions.issue(invoice=invoice, at=DECEMBER)


class SameArithmetic(TestCase):
    @settings(deadline=None, max_examples=40)
    @given(
        st.integers(-40 * 24 * 3600, 40 * 24 * 3600).filter(bool),
        st.decimals("0.0000000001", "9999", places=10),
        st.integers(1, 4096),
        st.decimals("0", "20", places=2),
    )
    def test_the_database_rounds_a_line_and_its_tax_as_pricing_does(self, seconds, rate, quantity, percent):
        with connection.cursor() as cursor:
            amount_of = queries.rounded("%(seconds)s::bigint", "%(quantity)s", "%(rate)s", "100")
            cursor.execute(f"SELECT {amount_of}", {"seconds": seconds, "quantity": quantity, "rate": rate})
            (amount,) = cursor.fetchone()
            tax_of = queries.tax_within("%(amount)s::numeric", "%(percent)s")
            cursor.execute(f"SELECT {tax_of}", {"amount": amount, "percent": percent})
            (tax,) = cursor.fetchone()

        expected = pricing.line_amount(
            meter="card_hour", quantity=quantity, rate=rate, currency="CNY", seconds=seconds
        ).minor
        assert (amount, tax) == (expected, pricing.tax_within(expected, percent))


class Sums(TestCase):
    @settings(deadline=None, max_examples=30)
    @given(
        st.lists(
            st.tuples(st.integers(1, 29 * 24 * 3600), st.decimals("0.0001", "999", places=4), st.integers(1, 8)),
            min_size=1,
            max_size=4,
        )
    )
    def test_the_invoice_is_the_sum_of_lines_each_rounded_once(self, machines):
        of = factories.organization()
        expected = []
        for seconds, rate, cards in machines:
            machine = rental(of, rate=str(rate), cards=cards)
            third = seconds // 3
            start = NOVEMBER
            for part in (third, third, seconds - 2 * third):
                if part:
                    used(machine, start, start + part * SECOND)
                    start += part * SECOND
            exact = Decimal(seconds) * rate * cards * 100 / 3600
            expected.append(int(exact.quantize(Decimal(1), rounding="ROUND_HALF_UP")))

        done = actions.draft_usage_invoices(at=DECEMBER)

        if sum(expected) < 400:
            assert done.invoices == []
        else:
            assert sum(invoice.total_minor for invoice in done.invoices) == sum(expected)
            for invoice in done.invoices:
                assert invoice.total_minor == sum(line.amount_minor for line in invoice.lines.all())


# --- a month that was closed ahead of its end -------------------------------------------------------------------------
def test_what_a_month_closed_ahead_charged_too_much_comes_off_the_next_invoices():
    machine = rental()
    other = rental(machine.organization, rate="5", name="train-2")
    for one in (machine, other):
        type(one).objects.filter(pk=one.pk).update(meter="card_hour", metered_from=NOVEMBER)

    ahead = actions.run_billing(at=JANUARY, now=NOVEMBER + HOUR, pushing=False)
    with transaction.atomic():
        metering.close_meter(rental=rentals_actions.locked(machine.pk), at=NOVEMBER + 10 * HOUR)
    present = actions.run_billing(at=NOVEMBER + 11 * HOUR, pushing=False)
    later = actions.run_billing(at=JANUARY + 31 * 24 * HOUR, pushing=False)

    hours = [30 * 24, 31 * 24, 31 * 24]
    assert [i.total_minor for i in ahead.usage.invoices] == [750 * hours[0], 750 * hours[1]]
    assert present.usage.invoices == []
    (january,) = later.usage.invoices
    # 5.00 an hour for the one that runs on, less what was charged for the other after its ten hours.
    assert january.total_minor == 500 * hours[2] - 250 * (hours[0] + hours[1] - 10)
