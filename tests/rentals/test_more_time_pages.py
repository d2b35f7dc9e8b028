"""The pages of more time: the price before it is bought, an order after it, and the money shown before an end."""

import pytest
from django.urls import reverse

from orders.models import Order, TermRefund
from rentals.models import Rental
from tests import factories
from tests.rentals.support import after

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(client, shop):
    client.force_login(shop.buyer)
    return client


def address(name: str, rental: Rental) -> str:
    return reverse(f"rentals:{name}", args=[rental.key])


def filled(page, **changes) -> dict:
    """What the page's form sends back when its button is pressed."""
    context = page.context
    return {
        "term": context["price"].term,
        "periods": context["price"].periods,
        "request_key": context["form"]["request_key"].value(),
        "seen_rate": context["seen_rate"],
        "seen_choice": context["seen_choice"],
        "place": "1",
    } | changes


def test_a_term_is_extended_from_its_page(client, shop, engine, time_machine):
    rental = shop.running(term="month")
    time_machine.move_to(after(rental.running_at, days=1))
    page = client.get(address("extend", rental))
    assert page.status_code == 200
    assert "2027-01-30" in page.content.decode()

    answer = client.post(address("extend", rental), filled(page))
    again = client.post(address("extend", rental), filled(page))

    order = Order.objects.get(kind="renewal")
    assert answer.url == again.url == reverse("orders:detail", args=[order.key])
    assert (order.total_minor, order.placed_by) == (256_000, shop.buyer)
    shown = client.get(answer.url).content.decode()
    assert rental.name in shown
    assert client.get(address("extend", rental)).context["waiting"] == order


def test_another_choice_is_priced_before_it_is_bought(client, shop, engine, time_machine):
    rental = shop.running(term="month")
    time_machine.move_to(after(rental.running_at, days=1))
    page = client.get(address("extend", rental))

    unseen = client.post(address("extend", rental), filled(page, periods=3))

    assert (unseen.status_code, unseen.context["price"].total_minor) == (200, 768_000)
    assert unseen.context["unseen"] is True
    assert Order.objects.filter(kind="renewal").count() == 0


def test_the_price_alone_can_be_asked_for(client, shop, engine, time_machine):
    rental = shop.running(term="month")
    time_machine.move_to(after(rental.running_at, days=1))
    page = client.get(address("extend", rental))

    part = client.post(
        address("extend", rental), filled(page, term="year", periods=2, update="1"), headers={"hx-request": "true"}
    )

    assert "¥52,000.00" in part.content.decode()
    assert "<html" not in part.content.decode()


@pytest.mark.parametrize("periods", ["0", "37", "x", "6"])
def test_what_cannot_be_is_said_beside_the_field(client, shop, engine, time_machine, periods):
    rental = shop.running(term="month")
    time_machine.move_to(after(rental.running_at, days=1))
    page = client.get(address("extend", rental))

    # Six years are too many, and so are 37 months.
    refused = client.post(address("extend", rental), filled(page, term="year", periods=periods))

    assert refused.status_code in {200, 422}
    assert refused.context["form"].errors["periods"]
    assert Order.objects.filter(kind="renewal").count() == 0


def test_an_hourly_machine_changes_to_a_term_from_its_page(client, shop, engine, time_machine):
    rental = shop.running()
    time_machine.move_to(after(rental.running_at, hours=1))

    page = client.get(address("convert", rental))
    client.post(address("convert", rental), filled(page))

    assert Order.objects.get(kind="conversion").total_minor == 256_000
    assert client.get(address("extend", rental)).context["possible"] is False


def test_a_viewer_cannot_order_more_time(client, shop, engine):
    rental = shop.running(term="month")
    client.force_login(factories.member(shop.organization, "viewer"))

    assert client.get(address("extend", rental)).status_code == 403
    assert client.post(address("extend", rental)).status_code == 403


def test_ending_a_term_shows_its_money_first(client, shop, engine, time_machine):
    rental = shop.running(term="month")
    time_machine.move_to(after(rental.running_at, hours=10))

    shown = client.get(address("terminate", rental)).content.decode()
    assert "¥2,560.00" in shown
    assert TermRefund.objects.count() == 0
    client.post(address("terminate", rental))

    assert TermRefund.objects.get().paid_minor == 256_000
    assert Rental.objects.get().status == "destroying"


def test_nothing_back_is_said_too(client, shop, engine, settings, time_machine):
    settings.ORDERS_REFUND_RULE = "none"
    rental = shop.running(term="month")
    time_machine.move_to(after(rental.running_at, hours=10))

    offered = client.get(address("terminate", rental)).context["offered"]

    assert (offered.refund_minor, offered.paid_minor) == (0, 256_000)


def test_the_page_of_a_rental_leads_to_more_time(client, shop, engine, time_machine):
    hourly, monthly = shop.running(), shop.running(term="month")
    time_machine.move_to(after(monthly.running_at, hours=1))

    assert address("convert", hourly) in client.get(address("detail", hourly)).content.decode()
    shown = client.get(address("detail", monthly)).content.decode()
    assert address("extend", monthly) in shown
    assert address("convert", monthly) not in shown
