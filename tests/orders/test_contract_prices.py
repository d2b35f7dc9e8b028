"""What was agreed with one organization stands in every price it sees and orders at, and in nobody else's."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError, InternalError, transaction
from django.urls import reverse

from catalog.models import ContractPrice
from catalog.queries import current_prices
from orders import actions
from orders.models import Order, OrderLine
from orders.queries import terms_now
from tests.factories import NOON
from tests.orders.builders import shop as another_shop

pytestmark = pytest.mark.django_db
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def agree(shop, **fields) -> ContractPrice:
    target = {} if "gpu_model" in fields else {"offer": shop.offer}
    defaults = {"organization": shop.organization, "meter": "card_hour", "currency": "CNY", "valid_from": LONG_AGO}
    return ContractPrice.objects.create(**defaults | target | fields)


def rates(shop, at=NOON) -> tuple[Decimal, Decimal]:
    """The hourly rate as pages ask for it, and as placing an order does; they must never differ."""
    shown = current_prices(shop.offer.pk, "CNY", at, organization_id=shop.organization.pk)[shop.offer.pk]["card_hour"]
    asked = terms_now(offer=shop.offer, meter="card_hour", organization=shop.organization, user=shop.owner, at=at)
    assert shown.rate == asked.rate
    return shown.rate, shown.listed


@pytest.mark.parametrize(
    ("agreed", "rate"),
    [
        ({"rate": Decimal("1.9")}, "1.9"),
        ({"discount_percent": Decimal("12.5")}, "2.1875"),
        ({"discount_percent": Decimal("33.33")}, "1.66675"),
        ({"rate": Decimal(0)}, "0"),
        ({"discount_percent": Decimal(100)}, "0"),
    ],
)
def test_a_rate_or_a_discount_takes_the_place_of_the_list_price(shop, agreed, rate):
    agree(shop, **agreed)

    assert rates(shop) == (Decimal(rate), Decimal("2.5"))


def test_a_price_of_the_model_holds_for_all_its_offers_but_the_one_with_its_own(shop):
    agree(shop, gpu_model=shop.offer.gpu_model, discount_percent=Decimal(10))
    assert rates(shop)[0] == Decimal("2.25")

    agree(shop, rate=Decimal("2.4"))
    assert rates(shop)[0] == Decimal("2.4")


def test_it_holds_from_its_first_instant_to_before_its_last(shop):
    agree(shop, rate=Decimal(2), valid_from=NOON, valid_to=NOON + timedelta(days=1))

    second = timedelta(seconds=1)
    assert rates(shop, NOON - second)[0] == Decimal("2.5")
    assert rates(shop, NOON)[0] == Decimal(2)
    assert rates(shop, NOON + timedelta(days=1) - second)[0] == Decimal(2)
    assert rates(shop, NOON + timedelta(days=1))[0] == Decimal("2.5")


def test_another_organization_pays_the_list_price(shop):
    other = another_shop(name="别家")
    ContractPrice.objects.create(
        organization=shop.organization, offer=other.offer, meter="card_hour", currency="CNY", rate=1, valid_from=NOON
    )

    assert rates(other)[0] == Decimal("2.5")


def test_an_order_is_placed_at_it_and_keeps_it(shop):
    price = agree(shop, rate=Decimal("1.9"))
    with pytest.raises(actions.PriceChanged):
        shop.place()

    order = shop.place(seen_rate=Decimal("1.9"))
    ContractPrice.objects.filter(pk=price.pk).update(valid_to=NOON)

    assert OrderLine.objects.get(order=order).rate == Decimal("1.9")
    assert shop.place().lines.get().rate == Decimal("2.5")


def test_a_basket_and_a_quote_are_at_it_too(shop):
    agree(shop, rate=Decimal("1000"), meter="month")
    wanted = actions.Wanted(shop.offer, shop.image, 1, "month", 1, Decimal(1000))
    order = actions.place_basket(
        organization=shop.organization,
        project=shop.project,
        actor=shop.owner,
        request_key="basket",
        wanted=[wanted],
        ssh_keys=[shop.key],
        at=NOON,
    )
    quote = actions.create_quote(
        organization=shop.organization, actor=shop.owner, valid_until=NOON + timedelta(days=9), at=NOON
    )
    line = actions.add_quote_line(
        quote_id=quote.pk,
        offer=shop.offer,
        image=shop.image,
        quantity=1,
        term="month",
        periods=1,
        discount_percent=Decimal(10),
        at=NOON,
    )

    assert (order.total_minor, line.list_rate, line.rate) == (200_000, Decimal(1000), Decimal(900))


def test_two_at_once_and_half_a_row_are_refused(shop):
    agree(shop, rate=Decimal(2))
    for wrong in (
        {"rate": Decimal(1)},
        {"valid_from": NOON, "rate": Decimal(1)},
        {"meter": "month"},
        {"meter": "month", "rate": 1, "discount_percent": 1},
        {"meter": "month", "rate": 1, "offer": None},
        {"meter": "month", "discount_percent": 101},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            agree(shop, **wrong)

    assert ContractPrice.objects.count() == 1


def test_once_begun_only_its_end_changes(shop):
    price = agree(shop, rate=Decimal(2))

    with pytest.raises(InternalError), transaction.atomic():
        ContractPrice.objects.update(rate=1)
    with pytest.raises(InternalError), transaction.atomic():
        price.delete()
    ContractPrice.objects.update(valid_to=NOON)

    assert ContractPrice.objects.get().valid_to == NOON


def test_the_pages_of_a_member_show_it_and_a_visitor_never_sees_it(client, shop):
    agree(shop, rate=Decimal("1.93"))
    pages = [
        reverse("catalog:offer", args=[shop.offer.slug]),
        f"{reverse('orders:calculator')}?item={shop.offer.slug}:hour:1:1",
    ]
    assert not any("1.93" in client.get(page).content.decode() for page in pages)

    client.force_login(shop.owner)
    pages.append(reverse("orders:new", args=[shop.offer.slug]))

    assert all("1.93" in client.get(page).content.decode() for page in pages)


def test_ordering_from_the_page_goes_through_at_it(client, shop):
    agree(shop, rate=Decimal("1000"), meter="month")
    client.force_login(shop.owner)
    page = client.get(reverse("orders:new", args=[shop.offer.slug]) + "?term=month")

    client.post(
        page.request["PATH_INFO"],
        {
            "quantity": 1,
            "term": "month",
            "periods": 1,
            "image": shop.image.slug,
            "ssh_keys": [str(shop.key.key)],
            "request_key": "one",
            "seen_rate": page.context["seen_rate"],
            "seen_choice": page.context["seen_choice"],
        },
    )

    assert Order.objects.get().total_minor == 200_000
