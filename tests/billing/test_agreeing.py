"""Services, packs, volume tiers and commitments on the month's invoice: each once, in order, to the cent."""

from datetime import date
from decimal import Decimal

import pytest

from billing import actions, ledger
from billing.actions.releasing import mark_void
from billing.models import BilledFact, Invoice
from orders import actions as orders_actions
from orders.models import Commitment, Pack, VolumeTier
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, JANUARY, NOVEMBER, rental, used

pytestmark = pytest.mark.django_db


def lines(invoice):
    return list(invoice.lines.order_by("position").values_list("kind", "amount_minor", "tax_minor"))


def service(of, **changes):
    fields = {
        "title_zh": "机柜托管", "title_en": "Rack", "interval": "month", "quantity": Decimal(2),
        "rate": Decimal("3100"), "starts_on": date(2026, 11, 11), "tax_percent": Decimal(6),
        "tax_code": "3040203000000000000",
    } | changes  # fmt: skip
    return orders_actions.add_service(
        organization=of, project=of.projects.get(), actor=of.members.first(), at=NOVEMBER, **fields
    )


def commitment(of, amount=100_000):
    return Commitment.objects.create(
        organization=of, currency="CNY", amount_minor=amount, tax_percent=6, tax_code="3040203000000000000",
        valid_from=NOVEMBER,
    )  # fmt: skip


def pack(of, hours):
    order = orders_actions.sell_pack(
        organization=of, project=of.projects.get(), actor=of.members.first(), request_key="pack",
        gpu_class="consumer", card_hours=hours, price_minor=20_000, months=6, at=NOVEMBER,
    )  # fmt: skip
    orders_actions.confirm(order_id=order.pk, at=NOVEMBER)
    return Pack.objects.get(order=order)


def test_a_service_is_charged_each_period_though_nothing_was_used():
    of = factories.organization()
    service(of)
    service(of, interval="once", title_zh="上架", title_en="Set-up", quantity=Decimal(1), rate=Decimal(500))

    (november,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    (december,) = actions.draft_usage_invoices(at=JANUARY).invoices
    again = actions.draft_usage_invoices(at=JANUARY)

    assert lines(november) == [("recurring", 620_000, 35_094), ("once", 50_000, 2830)]
    assert lines(december) == [("recurring", 620_000, 35_094)]
    assert (again.invoices, again.failed, Invoice.objects.count()) == ([], [], 2)
    assert ledger.check() == []


def test_a_pack_pays_the_oldest_use_and_is_drawn_from_when_the_invoice_is_issued(settings):
    settings.INVOICE_GRACE_HOURS = 6
    machine = rental(rate="2.50", cards=2)
    bought = pack(machine.organization, hours=10)
    used(machine, NOVEMBER + HOUR, NOVEMBER + 4 * HOUR)
    used(machine, NOVEMBER + 10 * HOUR, NOVEMBER + 14 * HOUR)

    actions.draft_usage_invoices(at=DECEMBER)
    draft = Invoice.objects.get(kind="usage")
    bought.refresh_from_db()
    assert (draft.total_minor, bought.used_seconds) == (1000, 0)

    (invoice,) = actions.draft_usage_invoices(at=DECEMBER + 6 * HOUR).invoices

    bought.refresh_from_db()
    assert lines(invoice) == [("usage", 3500, 198), ("pack", -2500, -142)]
    assert (invoice.total_minor, bought.used_seconds) == (1000, 10 * 3600)


def test_voiding_gives_the_pack_back_and_the_next_invoice_draws_anew():
    machine = rental(rate="2.50", cards=2)
    bought = pack(machine.organization, hours=10)
    service(machine.organization)
    used(machine, NOVEMBER + HOUR, NOVEMBER + 8 * HOUR)
    (first,) = actions.draft_usage_invoices(at=DECEMBER).invoices

    mark_void(invoice_id=first.pk, at=DECEMBER + HOUR)
    bought.refresh_from_db()
    assert (bought.used_seconds, BilledFact.objects.count()) == (0, 0)
    (second,) = actions.draft_usage_invoices(at=DECEMBER + 2 * HOUR).invoices

    bought.refresh_from_db()
    assert lines(second) == lines(first)
    assert (second.total_minor, bought.used_seconds) == (621_000, 10 * 3600)
    assert ledger.check() == []


def test_use_beyond_a_threshold_of_the_month_is_cheaper_after_packs():
    machine = rental(rate="2.50", cards=2)
    pack(machine.organization, hours=4)
    VolumeTier.objects.create(
        organization=machine.organization, gpu_class="consumer", from_card_hours=10, discount_percent=20,
        valid_from=NOVEMBER,
    )  # fmt: skip
    used(machine, NOVEMBER + HOUR, NOVEMBER + 11 * HOUR)

    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices

    # 20 card-hours, 4 by the pack; of the other 16 at ¥2.50 the last 6 are 20 % cheaper.
    assert lines(invoice) == [("usage", 5000, 283), ("pack", -1000, -57), ("discount", -300, -17)]
    assert invoice.total_minor == 3700


def test_a_month_below_the_commitment_is_made_up_to_it_once():
    machine = rental()
    commitment(machine.organization)
    used(machine, NOVEMBER, NOVEMBER + 4 * HOUR)

    (november,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    (december,) = actions.draft_usage_invoices(at=JANUARY).invoices

    assert lines(november) == [("usage", 1000, 57), ("true_up", 99_000, 5604)]
    assert lines(december) == [("true_up", 100_000, 5660)]
    assert [invoice.total_minor for invoice in (november, december)] == [100_000, 100_000]
    assert actions.draft_usage_invoices(at=JANUARY).invoices == []


def test_what_is_agreed_apart_is_paid_from_a_prepaid_balance_too():
    of = factories.organization()
    account = actions.account_of(organization=of)
    actions.set_mode(organization=of, mode="wallet", at=NOVEMBER)
    service(of)

    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices

    invoice.refresh_from_db()
    assert (invoice.status, ledger.balance(account, ledger.Book.WALLET)) == ("paid", -620_000)
    assert ledger.check() == []
