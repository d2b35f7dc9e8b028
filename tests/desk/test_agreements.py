"""Sales agree prices, tiers, commitments, packs and services at the desk; what has begun stays."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse

from billing import actions as billing
from catalog.models import ContractPrice
from marketplace.lib import clock
from orders import actions as orders
from orders.models import Commitment, Order, Pack, Service, VolumeTier
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def sales(staff):
    return staff("sales")


@pytest.fixture
def customer(db):
    return factories.organization(name="福州算力科技")


def dated(**fields) -> dict:
    """A form whose row begins in two days and has no end."""
    start = clock.now() + timedelta(days=2)
    begins = {"valid_from_0": f"{start:%Y-%m-%d}", "valid_from_1": "00:00", "valid_to_0": "", "valid_to_1": ""}
    return begins | fields


def add(client, model: str, **fields):
    return client.post(reverse(f"admin:{model}_add"), fields)


def test_a_contract_price_is_agreed(sales, customer):
    offer = factories.offer()
    asked = dated(organization=customer.pk, offer=offer.pk, gpu_model="", meter="card_hour", currency="CNY", rate="1.9")

    both = add(sales, "catalog_contractprice", **asked | {"discount_percent": "5"})
    assert both.context["adminform"].form.errors["discount_percent"]
    answer = add(sales, "catalog_contractprice", **asked | {"discount_percent": ""})

    assert answer.status_code == 302
    price = ContractPrice.objects.get()
    assert (price.organization, price.offer, price.rate) == (customer, offer, Decimal("1.9"))
    assert sales.get(reverse("admin:catalog_contractprice_changelist")).status_code == 200
    assert sales.get(reverse("admin:catalog_contractprice_change", args=[price.pk])).status_code == 200


def test_a_volume_tier_and_a_commitment_are_agreed(sales, customer):
    factories.offer()
    add(
        sales, "orders_volumetier",
        **dated(organization="", gpu_class="consumer", from_card_hours="1000", discount_percent="5"),
    )  # fmt: skip
    add(sales, "orders_commitment", **dated(organization=customer.pk, amount="50000.00"))

    assert VolumeTier.objects.get().gpu_class == "consumer"
    made = Commitment.objects.get()
    assert (made.amount_minor, made.currency, made.tax_percent) == (5_000_000, "CNY", Decimal(6))
    for name, row in (("volumetier", VolumeTier.objects.get()), ("commitment", made)):
        assert sales.get(reverse(f"admin:orders_{name}_changelist")).status_code == 200
        assert sales.get(reverse(f"admin:orders_{name}_change", args=[row.pk])).status_code == 200


def test_nothing_begins_in_the_past(sales, customer):
    yesterday = clock.now() - timedelta(days=2)

    answer = add(
        sales, "orders_commitment",
        **dated(organization=customer.pk, amount="1") | {"valid_from_0": f"{yesterday:%Y-%m-%d}"},
    )  # fmt: skip

    assert answer.context["adminform"].form.errors["valid_from"]
    assert not Commitment.objects.exists()


def test_a_pack_is_sold_invoiced_paid_and_used(sales, customer):
    factories.offer()
    answer = add(
        sales, "orders_pack",
        organization=customer.pk, gpu_class="consumer", card_hours="1000", price="1800.00", months="6",
    )  # fmt: skip
    pack = Pack.objects.get()
    assert answer.headers["Location"] == reverse("admin:orders_pack_change", args=[pack.pk])
    assert (pack.card_hours, pack.starts_at) == (1000, None)

    order = Order.objects.get()
    invoice = billing.draft_order_invoice(order=order, at=clock.now())
    assert (invoice.total_minor, invoice.status) == (180_000, "issued")
    assert invoice.lines.get().amount_minor == 180_000
    orders.confirm(order_id=order.pk, at=clock.now())

    pack.refresh_from_db()
    assert pack.starts_at is not None
    assert "1,000" in sales.get(reverse("admin:orders_pack_change", args=[pack.pk])).content.decode()


def test_a_service_is_agreed_and_ended(sales, customer):
    fields = {
        "organization": customer.pk, "quote": "", "title_zh": "机柜托管", "title_en": "Colocation of a rack",
        "interval": "month", "quantity": "2", "rate": "6200", "tax_percent": "6", "tax_code": "3040203000000000000",
        "starts_on": "2027-01-31", "ends_on": "",
    }  # fmt: skip
    assert add(sales, "orders_service", **fields | {"interval": "once", "ends_on": "2027-03-01"}).status_code == 200
    add(sales, "orders_service", **fields)

    service = Service.objects.get()
    assert (service.project, service.created_by) == (customer.projects.get(), sales.person)
    end = reverse("admin:orders_service_press", args=[service.pk, "end"])
    assert sales.get(end).status_code == 200
    sales.post(end, {"ends_on": "2027-04-15"})

    service.refresh_from_db()
    assert f"{service.ends_on}" == "2027-04-15"


def test_finance_reads_and_changes_nothing(staff, customer):
    finance = staff("finance")
    for name in ("volumetier", "commitment", "pack", "service", "termrefund"):
        assert finance.get(reverse(f"admin:orders_{name}_changelist")).status_code == 200
        assert finance.get(reverse(f"admin:orders_{name}_add")).status_code == 403
