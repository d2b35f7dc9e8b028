"""Placing an order: exact figures, and refusals that leave nothing."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from accounts.models import CreditLine, Organization
from accounts.queries import email_is_verified
from catalog.models import Allocation, Gpu, Host, Offer
from catalog.queries import current_prices
from marketplace.lib import clock
from marketplace.lib.money import Money
from orders import actions, queries
from orders.models import Order, OrderLine, Subscription
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def rules(settings):
    settings.HEADROOM_HOURS = 24
    settings.ORDER_HOLD_MINUTES, settings.ORDER_HOLD_BANK_DAYS = 30, 5
    settings.TAX_PERCENT = "6"


def test_an_hourly_order_is_confirmed_with_cards_headroom_and_subscriptions(shop):
    order = shop.place(quantity=2)

    assert (order.status, order.currency, order.total_minor, order.hold_expires_at) == ("confirmed", "CNY", 0, None)
    line = order.lines.get()
    assert (line.quantity, line.cards_per_unit, line.cards, line.term, line.periods) == (2, 2, 4, "hour", 1)
    assert (line.rate, line.disk_rate, line.disk_gb, line.amount_minor) == (Decimal("2.5"), Decimal("0.0005"), 100, 0)
    assert (line.tax_percent, line.public_keys, line.image) == (Decimal(6), [shop.key.public_key], shop.image)
    # 2 units × 2 cards × 24 h × ¥2.50
    assert shop.committed == 24_000
    subscriptions = Subscription.objects.filter(order_line=line)
    assert {one.unit for one in subscriptions} == set(line.units)
    assert [(one.headroom_minor, one.cards, one.started_at, one.ended_at) for one in subscriptions] == [
        (12_000, 2, None, None)
    ] * 2
    assert sorted(Gpu.objects.filter(holder__isnull=False).values_list("holder", flat=True)) == sorted(line.units * 2)
    assert [(event.status, event.actor, event.at) for event in order.events.all()] == [("confirmed", shop.owner, NOON)]


def test_a_term_order_holds_its_cards_and_awaits_payment(shop):
    order = shop.place(term="month", periods=3, quantity=2)

    assert (order.status, order.total_minor) == ("awaiting_payment", 4 * 3 * 128_000)
    assert order.hold_expires_at == NOON + timedelta(minutes=30)
    assert shop.held == 4
    assert shop.committed == 0
    assert not Subscription.objects.exists()


def test_the_first_order_freezes_the_organization_and_the_second_leaves_it(shop):
    shop.place()
    shop.organization.refresh_from_db()
    assert shop.organization.frozen_at == NOON

    shop.place(at=NOON + timedelta(hours=1))
    shop.organization.refresh_from_db()
    assert shop.organization.frozen_at == NOON


def test_a_currency_that_changed_meanwhile_refuses_the_first_order(shop):
    stale = Organization.objects.get(pk=shop.organization.pk)
    Organization.objects.filter(pk=stale.pk).update(currency="USD")

    with pytest.raises(actions.BadChoice) as refused:
        shop.place(organization=stale)

    assert refused.value.field == "currency"
    nothing_happened(shop)
    assert Organization.objects.get(pk=stale.pk).frozen_at is None


def test_an_hour_has_no_periods(shop):
    assert shop.place(periods=7).lines.get().periods == 1


def test_chinese_names_survive(shop):
    order = shop.place(project=shop.organization.projects.create(name="大模型预训练 · 二期"))

    order = Order.objects.select_related("organization", "project").get(pk=order.pk)
    assert (order.organization.name, order.project.name) == ("福州智算科技有限公司", "大模型预训练 · 二期")


def test_the_number_carries_the_local_day(shop):
    late = NOON.replace(hour=16)  # midnight in Shanghai: already the 1st

    order = shop.place(at=late)

    assert order.number == f"SO261201{order.pk:06d}"


# --- refusals --------------------------------------------------------------------------------------------------------
def nothing_happened(shop):
    assert not Order.objects.exists()
    assert not OrderLine.objects.exists()
    assert not Subscription.objects.exists()
    assert not Allocation.objects.exists()
    assert shop.held == 0
    assert set(Host.objects.values_list("cards_free", flat=True)) == {8}
    assert shop.committed == 0


def test_sold_out_says_how_many_are_left(shop):
    with pytest.raises(actions.SoldOut) as refused:
        shop.place(quantity=5)

    assert (refused.value.code, refused.value.free_units) == ("sold_out", 4)
    assert str(refused.value.next_step)
    nothing_happened(shop)


def test_a_changed_price_names_the_new_rate(shop):
    with pytest.raises(actions.PriceChanged) as refused:
        shop.place(seen_rate=Decimal("2.4"))

    assert (refused.value.seen_rate, refused.value.new_rate) == (Decimal("2.4"), Decimal("2.5"))
    assert "¥2.40" in str(refused.value)
    assert "¥2.50" in str(refused.value)
    nothing_happened(shop)


def test_too_little_headroom_says_how_much_is_missing(shop):
    CreditLine.objects.filter(organization=shop.organization).update(available_minor=11_999)

    with pytest.raises(actions.NoHeadroom) as refused:
        shop.place()

    assert (refused.value.needed, refused.value.headroom, refused.value.missing) == (
        Money(12_000, "CNY"),
        Money(11_999, "CNY"),
        Money(1, "CNY"),
    )
    nothing_happened(shop)


def test_exactly_enough_headroom_is_enough(shop):
    CreditLine.objects.filter(organization=shop.organization).update(available_minor=12_000)

    assert shop.place().status == "confirmed"
    assert shop.committed == 12_000


def test_a_term_needs_no_headroom(shop):
    CreditLine.objects.filter(organization=shop.organization).update(available_minor=0)

    assert shop.place(term="year").total_minor == 2 * 1_300_000


def test_an_unverified_address_cannot_order(shop):
    stranger = factories.member(shop.organization, "admin", verified=False)

    with pytest.raises(actions.EmailNotVerified):
        shop.place(actor=stranger)

    nothing_happened(shop)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"quantity": 0}, "quantity"),
        ({"quantity": -1}, "quantity"),
        ({"quantity": 65}, "quantity"),
        ({"term": "week"}, "term"),
        ({"term": "month", "periods": 0}, "periods"),
        ({"term": "month", "periods": 37}, "periods"),
        ({"term": "year", "periods": 6}, "periods"),
        ({"ssh_keys": []}, "ssh_keys"),
        ({"request_key": ""}, "request_key"),
        ({"request_key": "x" * 65}, "request_key"),
    ],
)
def test_a_bad_choice_names_its_field(shop, changes, field):
    with pytest.raises(actions.BadChoice) as refused:
        shop.place(**changes)

    assert refused.value.field == field
    nothing_happened(shop)


def test_an_image_of_another_stack_is_refused(shop):
    with pytest.raises(actions.BadChoice) as refused:
        shop.place(image=factories.image("CANN"))

    assert refused.value.field == "image"
    nothing_happened(shop)


def test_keys_and_projects_of_others_are_refused(shop):
    other = factories.organization(name="别家")

    with pytest.raises(actions.BadChoice, match=r"key|密钥"):
        shop.place(ssh_keys=[shop.key, factories.ssh_key(other)])
    with pytest.raises(actions.BadChoice, match=r"project|项目"):
        shop.place(project=other.projects.get())

    nothing_happened(shop)


@pytest.mark.parametrize("changes", [{"enabled": False}, {"quote_only": True}, {"kind": "cluster"}])
def test_an_offer_that_is_not_sold_online_is_refused(shop, changes):
    Offer.objects.filter(pk=shop.offer.pk).update(**changes)

    with pytest.raises(actions.OfferUnavailable):
        shop.place(offer=Offer.objects.get(pk=shop.offer.pk))

    nothing_happened(shop)


def test_a_paused_pool_and_a_closed_region_sell_nothing(shop):
    shop.offer.pool.paused_reason = "maintenance"
    with pytest.raises(actions.OfferUnavailable):
        shop.place()
    shop.offer.pool.paused_reason = ""
    shop.offer.region.enabled = False
    with pytest.raises(actions.OfferUnavailable):
        shop.place()

    nothing_happened(shop)


def test_an_unknown_price_is_never_zero(shop):
    dollars = factories.organization(name="US buyer", currency="USD")

    with pytest.raises(actions.BadChoice) as refused:
        shop.place(
            organization=dollars, project=dollars.projects.get(), ssh_keys=[factories.ssh_key(dollars)],
            seen_rate=Decimal(0),
        )  # fmt: skip

    assert refused.value.field == "term"
    nothing_happened(shop)


# --- the same request again ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("term", ["hour", "month"])
def test_the_same_request_again_is_the_same_order(shop, term):
    wish = shop.wish(term=term)

    first, second = actions.place_order(**wish), actions.place_order(**wish)

    assert first == second
    assert Order.objects.count() == 1
    assert shop.held == 2
    assert shop.committed == (12_000 if term == "hour" else 0)


def test_the_same_request_again_after_the_last_unit_is_gone(shop):
    wish = shop.wish(quantity=4)
    first = actions.place_order(**wish)

    assert actions.place_order(**wish) == first
    assert shop.held == 8


def test_the_same_request_again_at_a_new_price(shop):
    wish = shop.wish()
    first = actions.place_order(**wish)

    assert actions.place_order(**wish | {"seen_rate": Decimal(9), "at": NOON + timedelta(minutes=5)}) == first


@pytest.mark.parametrize("changes", [{"quantity": 2}, {"quantity": 999}, {"term": "month"}])
def test_the_same_key_with_other_content_is_refused(shop, changes):
    wish = shop.wish()
    first = actions.place_order(**wish)

    with pytest.raises(actions.RequestKeyReused) as refused:
        actions.place_order(**wish | changes)

    assert refused.value.order == first
    assert first.number in str(refused.value)
    assert (Order.objects.count(), shop.held, shop.committed) == (1, 2, 12_000)


def test_another_organization_may_use_the_same_request_key(shop):
    other = factories.organization(name="别家")
    first = shop.place(request_key="same")

    second = shop.place(
        request_key="same", organization=other, project=other.projects.get(), ssh_keys=[factories.ssh_key(other)]
    )

    assert first != second


def test_placing_by_the_hour_takes_few_statements(shop, django_assert_max_num_queries):
    shop.place()
    shop.organization.refresh_from_db()
    wish = shop.wish()

    with django_assert_max_num_queries(7):
        actions.place_order(**wish)


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize(("term", "meter"), [("hour", "card_hour"), ("month", "month"), ("year", "year")])
@pytest.mark.parametrize("at", [NOON, NOON - timedelta(days=366), NOON + timedelta(days=3)])
def test_the_one_statement_says_what_the_other_floors_say(shop, term, meter, at, verified):
    shop.offer.prices.filter(meter=meter).update(valid_to=NOON + timedelta(days=3))
    factories.price(shop.offer, since=NOON + timedelta(days=3), **{meter: "7.77"})
    person = factories.user(verified=verified)

    found = queries.terms_now(offer=shop.offer, meter=meter, organization=shop.organization, user=person, at=at)

    prices = current_prices([shop.offer.pk], currency="CNY", at=at)[shop.offer.pk]
    rate, disk = prices.get(meter), prices.get("disk_gb_hour")
    assert found == (rate and rate.rate, disk and disk.rate, email_is_verified(person))


def test_the_form_offers_keys_projects_images_and_the_offer_in_one_statement(shop, django_assert_num_queries):
    factories.image("CANN")
    factories.ssh_key(factories.organization(name="别家"))
    second = factories.ssh_key(shop.organization, name="another")

    with django_assert_num_queries(1):
        found = queries.choices(shop.organization, shop.offer.slug)
        title, region = found.offer.title, str(found.offer.region)

    assert (found.offer, title, region) == (shop.offer, shop.offer.title, str(shop.offer.region))
    assert (found.keys, found.projects, found.images) == ([second, shop.key], [shop.project], [shop.image])
    assert [key.public_key for key in found.keys] == [second.public_key, shop.key.public_key]


# --- how long the cards are held -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("month", "held"),
    [
        ("999999.99", timedelta(minutes=30)),
        # Monday noon in Shanghai → the end of the fifth working day after it, the next Monday.
        ("1000000", datetime(2026, 12, 7, 16, tzinfo=UTC) - NOON),
        ("3.99", datetime(2026, 12, 7, 16, tzinfo=UTC) - NOON),
    ],
)
def test_an_order_that_only_a_bank_transfer_can_pay_is_held_for_working_days(shop, month, held):
    offer = factories.offer(cards=1, month=month)

    order = factories.order(shop.organization, offer, term="month")
    actions.begin_expiring(at=order.hold_expires_at - timedelta(seconds=1))

    order.refresh_from_db()
    assert (order.status, order.hold_expires_at) == ("awaiting_payment", NOON + held)


@pytest.mark.parametrize(
    ("day", "days", "over"),
    [("2026-12-02", 1, "2026-12-04"), ("2026-12-04", 1, "2026-12-08"), ("2026-12-05", 5, "2026-12-12")],
)
def test_working_days_leave_out_weekends(day, days, over):
    start = clock.local_midnight(date.fromisoformat(day), "Asia/Shanghai") + timedelta(hours=9)

    assert clock.after_working_days(start, days, "Asia/Shanghai") == clock.local_midnight(
        date.fromisoformat(over), "Asia/Shanghai"
    )
