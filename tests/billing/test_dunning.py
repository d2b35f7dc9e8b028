"""Reminders of unpaid invoices: on their days, once each, and no more once there is nothing to remind of."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, InternalError, transaction

from accounts.models import Notification
from billing import actions
from billing.actions import dunning
from billing.actions.releasing import mark_void
from billing.models import BillingAccount, Dispute, DunningStep, Payment
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, rental, used
from tests.support.threads import at_once, times

pytestmark = pytest.mark.django_db
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


@pytest.fixture
def invoice():
    organization = factories.organization()
    actions.account_of(organization=organization)
    BillingAccount.objects.update(mode="credit")
    used(rental(organization), NOVEMBER, NOVEMBER + 4 * HOUR)
    (made,) = actions.draft_usage_invoices(at=DECEMBER + 10 * DAY).invoices
    if made.status == "draft":
        made = actions.issue(invoice=made, at=DECEMBER + 10 * DAY)
    return made


def told():
    found = Notification.objects.filter(kind="invoice_reminder").order_by("created_at", "pk")
    return [(one.params["days"], one.created_at) for one in found]


def test_it_is_reminded_of_on_its_days_and_once_each(invoice):
    due = invoice.due_at
    counts = {
        minutes: actions.remind_of_unpaid(at=due + timedelta(minutes=minutes)) for minutes in range(0, 20 * 1440, 360)
    }

    assert [minutes // 1440 for minutes, count in counts.items() if count] == [3, 7, 14]
    assert told() == [(3, due + 3 * DAY), (7, due + 7 * DAY), (14, due + 14 * DAY)]
    assert list(DunningStep.objects.values_list("invoice", "days")) == [
        (invoice.pk, 3),
        (invoice.pk, 7),
        (invoice.pk, 14),
    ]
    notice = Notification.objects.filter(kind="invoice_reminder").last()
    assert notice.params["number"] == invoice.number
    assert (notice.params["amount"], notice.page, notice.page_args) == (
        "¥10.00", "billing:invoice", [str(invoice.key)],
    )  # fmt: skip


def test_a_moment_before_its_day_nobody_is_reminded(invoice):
    assert actions.remind_of_unpaid(at=invoice.due_at + 3 * DAY - timedelta(seconds=1)) == 0


def test_the_days_are_a_setting(invoice, settings):
    settings.DUNNING_DAYS = (1, 2)

    assert [actions.remind_of_unpaid(at=invoice.due_at + day * DAY) for day in (1, 2, 3)] == [1, 1, 0]


def test_after_a_pause_only_the_last_day_is_told(invoice):
    assert actions.remind_of_unpaid(at=invoice.due_at + 8 * DAY) == 1
    assert actions.remind_of_unpaid(at=invoice.due_at + 9 * DAY) == 0

    assert [days for days, _at in told()] == [7]


def test_a_paid_one_is_not_reminded_of(invoice):
    actions.remind_of_unpaid(at=invoice.due_at + 3 * DAY)
    actions.record_payment(
        invoice=invoice, method=Payment.Method.BANK_TRANSFER, reference="t1", amount_minor=invoice.total_minor,
        currency=invoice.currency, received_at=invoice.due_at + 4 * DAY, actor=None, at=invoice.due_at + 4 * DAY,
    )  # fmt: skip

    assert actions.remind_of_unpaid(at=invoice.due_at + 20 * DAY) == 0


def test_a_part_payment_is_reminded_of_with_the_rest(invoice):
    actions.record_payment(
        invoice=invoice, method=Payment.Method.BANK_TRANSFER, reference="t1", amount_minor=400,
        currency=invoice.currency, received_at=invoice.due_at, actor=None, at=invoice.due_at,
    )  # fmt: skip

    assert actions.remind_of_unpaid(at=invoice.due_at + 3 * DAY) == 1
    assert Notification.objects.get(kind="invoice_reminder").params["amount"] == "¥6.00"


def test_a_void_one_is_not_reminded_of(invoice):
    mark_void(invoice_id=invoice.pk, at=invoice.due_at)

    assert actions.remind_of_unpaid(at=invoice.due_at + 20 * DAY) == 0


def test_a_disputed_one_waits_for_the_bank(invoice):
    payment = Payment.objects.create(
        invoice=invoice, method="stripe", reference="pi_1", amount_minor=100, currency="CNY", received_at=NOVEMBER
    )
    dispute = Dispute.objects.create(
        stripe_id="dp_1", account=invoice.account, payment=payment, amount_minor=100, currency="CNY",
        opened_at=invoice.due_at,
    )  # fmt: skip
    assert actions.remind_of_unpaid(at=invoice.due_at + 3 * DAY) == 0

    Dispute.objects.filter(pk=dispute.pk).update(status="lost", closed_at=invoice.due_at + 6 * DAY)

    assert actions.remind_of_unpaid(at=invoice.due_at + 7 * DAY) == 1


def test_an_account_that_pays_from_its_balance_is_not_reminded(invoice):
    BillingAccount.objects.update(mode="wallet")

    assert actions.remind_of_unpaid(at=invoice.due_at + 20 * DAY) == 0


def test_one_that_cannot_be_reminded_of_stops_no_other(invoice, monkeypatch, caplog):
    used(rental(invoice.organization, name="two"), DECEMBER, DECEMBER + 4 * HOUR)
    monkeypatch.setattr(dunning, "locked", lambda pk: 1 / 0)

    assert actions.remind_of_unpaid(at=invoice.due_at + 3 * DAY) == 0
    assert f"invoice {invoice.pk}" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_sweeps_at_once_and_killed_ones_remind_once(invoice, monkeypatch):
    class Killed(BaseException):
        pass

    def dies(**_facts):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(dunning, "notify", dies)
        with pytest.raises(Killed):
            actions.remind_of_unpaid(at=invoice.due_at + 3 * DAY)
    assert (DunningStep.objects.count(), told()) == (0, [])

    counts = at_once(*times(5, lambda _n: actions.remind_of_unpaid(at=invoice.due_at + 3 * DAY)))

    assert (sum(counts), len(told())) == (1, 1)


def test_a_reminder_stands_once_a_day_and_is_not_edited(invoice):
    step = DunningStep.objects.create(invoice=invoice, days=3, at=NOVEMBER)

    with pytest.raises(IntegrityError), transaction.atomic():
        DunningStep.objects.create(invoice=invoice, days=3, at=DECEMBER)
    with pytest.raises(InternalError), transaction.atomic():
        DunningStep.objects.filter(pk=step.pk).update(days=4)
