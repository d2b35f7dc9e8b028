"""One order of several lines: all of them or none, and the page that places it."""

import re
import uuid
from datetime import timedelta
from decimal import Decimal
from html import unescape

import pytest
from django.urls import reverse
from django.utils import translation

from billing import actions as billing
from catalog.models import Host
from marketplace.lib import clock
from orders import actions
from orders.models import Order, Subscription
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def english():
    with translation.override("en"):
        yield


def wanted(offer, **changes):
    term = changes.get("term", "month")
    rate = offer.prices.get(meter={"hour": "card_hour"}.get(term, term), currency="CNY", valid_to=None).rate
    values = {"offer": offer, "image": factories.image(), "quantity": 1, "term": term, "periods": 1, "seen_rate": rate}
    return actions.Wanted(**values | changes)


def place(shop, *lines, **changes):
    values = {
        "organization": shop.organization, "project": shop.project, "actor": shop.owner, "request_key": "basket-1",
        "wanted": list(lines), "ssh_keys": [shop.key], "at": NOON,
    }  # fmt: skip
    return actions.place_basket(**values | changes)


def nothing_happened(shop, *offers):
    assert not Order.objects.exists()
    assert not Subscription.objects.exists()
    assert shop.committed == 0
    assert all(host.cards_free == host.cards_total for host in Host.objects.all())


def test_terms_are_one_order_that_awaits_its_payment(shop):
    other = factories.offer(cards=1, year="9000")

    order = place(shop, wanted(shop.offer, quantity=2, periods=3), wanted(other, term="year", periods=2))

    assert [(line.offer, line.quantity, line.term, line.periods, line.amount_minor) for line in order.lines.all()] == [
        (shop.offer, 2, "month", 3, 1_536_000), (other, 1, "year", 2, 1_800_000),
    ]  # fmt: skip
    assert (order.status, order.total_minor) == ("awaiting_payment", 3_336_000)
    assert order.hold_expires_at == NOON + timedelta(minutes=30)
    assert shop.held == 4
    assert shop.committed == 0
    assert billing.draft_order_invoice(order=order, at=NOON).total_minor == 3_336_000


def test_hourly_lines_alone_are_confirmed_at_once(shop):
    other = factories.offer(hour="4")

    order = place(shop, wanted(shop.offer, term="hour", periods=720), wanted(other, term="hour", quantity=3))

    assert (order.status, order.total_minor) == ("confirmed", 0)
    assert [line.periods for line in order.lines.order_by("pk")] == [1, 1]
    # 24 hours: 2 cards at ¥2.50 and 3 × 1 card at ¥4.
    assert shop.committed == 12_000 + 28_800
    assert Subscription.objects.count() == 4


def test_a_mixed_order_keeps_the_credit_of_its_hours_until_it_is_paid(shop):
    order = place(shop, wanted(shop.offer), wanted(shop.offer, term="hour"))

    assert (order.status, order.total_minor) == ("awaiting_payment", 256_000)
    assert shop.committed == 12_000
    assert [one.term for one in Subscription.objects.all()] == ["hour"]
    actions.confirm(order_id=order.pk, at=NOON)
    assert sorted(one.term for one in Subscription.objects.all()) == ["hour", "month"]


def test_the_same_request_gives_the_same_order(shop):
    first = place(shop, wanted(shop.offer), wanted(shop.offer, term="hour"))

    assert place(shop, wanted(shop.offer), wanted(shop.offer, term="hour")) == first
    assert Order.objects.count() == 1
    with pytest.raises(actions.RequestKeyReused):
        place(shop, wanted(shop.offer))
    with pytest.raises(actions.RequestKeyReused):
        shop.place(request_key="basket-1")


def test_a_line_that_is_sold_out_takes_all_of_them_with_it(shop):
    scarce = factories.offer(cards=8)

    with pytest.raises(actions.SoldOut, match="only 1 unit is left") as refused:
        place(shop, wanted(shop.offer), wanted(scarce, quantity=2), wanted(shop.offer, term="hour"))

    assert refused.value.position == 1
    nothing_happened(shop)


def test_lines_of_one_pool_share_its_cards(shop):
    """Four units of two cards are all there is: two lines of two fit, two lines of three do not."""
    with pytest.raises(actions.SoldOut) as refused:
        place(shop, wanted(shop.offer, quantity=3), wanted(shop.offer, quantity=3))
    assert refused.value.position == 1
    nothing_happened(shop)

    assert place(shop, wanted(shop.offer, quantity=2), wanted(shop.offer, quantity=2)).lines.count() == 2


def test_too_little_credit_takes_all_lines_with_it(shop):
    poor = factories.organization(credit_minor=100)
    key = factories.ssh_key(poor)

    with pytest.raises(actions.NoHeadroom):
        place(
            shop, wanted(shop.offer), wanted(shop.offer, term="hour"), organization=poor, ssh_keys=[key],
            project=poor.projects.get(), actor=poor.members.get(),
        )  # fmt: skip

    nothing_happened(shop)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"seen_rate": Decimal("1279.99")}, actions.PriceChanged),
        ({"quantity": 0}, actions.BadChoice),
        ({"quantity": 65}, actions.BadChoice),
        ({"periods": 37}, actions.BadChoice),
        ({"term": "week", "seen_rate": Decimal(1280)}, actions.BadChoice),
    ],
)
def test_a_refused_line_is_named_and_nothing_happens(shop, changes, refusal):
    line = actions.Wanted(
        **{"offer": shop.offer, "image": shop.image, "quantity": 1, "term": "month", "periods": 1,
           "seen_rate": Decimal(1280)} | changes
    )  # fmt: skip

    with pytest.raises(refusal) as refused:
        place(shop, wanted(shop.offer), line)

    assert refused.value.position == 1
    nothing_happened(shop)


def test_what_is_on_quote_only_and_an_empty_basket_are_refused(shop):
    with pytest.raises(actions.OfferUnavailable) as refused:
        place(shop, wanted(factories.offer(quote_only=True)))
    assert refused.value.position == 0
    with pytest.raises(actions.BadChoice):
        place(shop)
    with pytest.raises(actions.BadChoice):
        place(shop, *[wanted(shop.offer)] * 21)
    nothing_happened(shop)


# --- the page --------------------------------------------------------------------------------------------------------
@pytest.fixture
def page(shop, client):
    """The page as the owner of the shop's organization uses it."""
    client.force_login(shop.owner, backend="django.contrib.auth.backends.ModelBackend")
    return Page(client)


class Page:
    def __init__(self, client):
        self.client = client

    def get(self, *items):
        return self.client.get(reverse("orders:basket"), {"item": items})

    def form(self, *items):
        """What a browser would send."""
        body = self.get(*items).content.decode()
        form = body.partition('class="columns"')[2].partition("</form>")[0]
        data = {"item": re.findall(r'name="item" value="([^"]+)"', form)}
        data |= dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]+)"', form))
        data["item"] = re.findall(r'name="item" value="([^"]+)"', form)
        data |= dict(re.findall(r'<select name="(image-\d+)".*?<option value="([^"]+)"', form, re.S))
        data["ssh_keys"] = re.findall(r'name="ssh_keys" value="([^"]+)"', form)
        return data

    def post(self, data):
        return self.client.post(reverse("orders:basket"), data)


def text(response):
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode())))


def line(offer, rest="month:1:1"):
    return f"{offer.slug}:{rest}"


def test_the_page_shows_the_whole_price_and_places_the_order(shop, page):
    other = factories.offer(hour="4")
    data = page.form(line(shop.offer, "month:3:2"), line(other, "hour:720:1"))
    shown = text(page.get(line(shop.offer, "month:3:2"), line(other, "hour:720:1")))

    response = page.post(data)

    for figure in ("¥15,360.00", "¥869.43", "per hour of running ¥4.00", "¥96.00", "Place order",
                   "those by the hour too", "Only the lines by the hour, at once"):  # fmt: skip
        assert figure in shown
    order = Order.objects.get()
    assert response.status_code == 302
    assert response.url == reverse("orders:detail", args=[order.key])
    assert (order.total_minor, order.status) == (1_536_000, "awaiting_payment")
    assert page.post(data).url == response.url
    assert Order.objects.count() == 1


def test_a_price_that_changed_is_told_beside_its_line_and_the_next_press_orders(shop, page):
    data = page.form(line(shop.offer), line(shop.offer, "year:1:1"))
    now = clock.now()
    shop.offer.prices.filter(meter="year").update(valid_to=now)
    factories.price(shop.offer, since=now, year="14000")

    refused = page.post(data)

    assert refused.status_code == 409
    assert "changed from ¥13,000.00 to ¥14,000.00" in text(refused)
    assert refused.content.decode().count("basket__refusal") == 1
    assert not Order.objects.exists()
    again = dict(data, **{"seen-1": re.search(r'name="seen-1" value="([^"]+)"', refused.content.decode())[1]})
    assert page.post(again).status_code == 302
    assert Order.objects.get().total_minor == 256_000 + 2_800_000


def test_sold_out_names_its_line_and_what_else_is_free(shop, page):
    scarce = factories.offer(cards=8)
    data = page.form(line(shop.offer), line(scarce, "month:1:1"))
    Host.objects.filter(pool=scarce.pool).update(cards_free=0)

    refused = page.post(data)

    assert refused.status_code == 409
    body = refused.content.decode()
    assert body.index("basket__refusal") > body.index(scarce.slug)
    assert reverse("orders:new", args=[shop.offer.slug]) in body
    assert not Order.objects.exists()


def test_what_cannot_be_ordered_is_told_and_left_out(shop, page):
    special = factories.offer(quote_only=True)

    response = page.get(line(shop.offer), line(special), "junk", "gone:month:1:1")

    shown = text(response)
    for words in ("Not in this order", "Part of the address could not be read", "No longer on sale"):
        assert words in shown
    assert page.form(line(shop.offer), line(special))["item"] == [line(shop.offer)]


def test_an_empty_basket_leads_back_to_the_calculator(shop, page):
    response = page.get()

    assert "Nothing here to order" in text(response)
    assert reverse("orders:calculator") in response.content.decode()
    assert page.post({}).status_code == 422
    assert not Order.objects.exists()


@pytest.mark.parametrize("changes", [
    {"ssh_keys": []}, {"ssh_keys": ["nope"]}, {"image-0": "nope"}, {"image-0": ""}, {"seen-0": "x"}, {"seen-0": ""},
    {"seen-0": "NaN"}, {"request_key": ""}, {"request_key": "x" * 65}, {"new_key": "ssh-rsa nonsense"},
])  # fmt: skip
def test_bad_input_is_told_and_orders_nothing(shop, page, changes):
    response = page.post(page.form(line(shop.offer)) | changes)

    assert response.status_code == 422
    nothing_happened(shop)


def test_a_viewer_may_look_but_not_order(shop, client):
    client.force_login(
        factories.member(shop.organization, "viewer"), backend="django.contrib.auth.backends.ModelBackend"
    )
    page = Page(client)

    assert "Your role may look at prices but not order." in text(page.get(line(shop.offer)))
    assert page.post({"item": line(shop.offer)}).status_code == 403


def test_a_visitor_signs_in_first_and_keeps_the_basket(shop, client):
    response = Page(client).get(line(shop.offer))

    assert response.status_code == 302
    assert response.url.startswith(reverse("account_login"))
    assert shop.offer.slug in response.url


def test_a_tab_of_another_organization_orders_nothing(shop, page):
    response = page.post(page.form(line(shop.offer)) | {"acting_for": str(uuid.uuid4())})

    assert response.status_code == 409
    nothing_happened(shop)


def test_a_new_key_comes_with_the_order_or_not_at_all(shop, page):
    scarce = factories.offer(cards=8)
    text_of_key = factories.new_public_key()
    data = page.form(line(scarce)) | {"ssh_keys": [], "new_key": text_of_key, "new_key_name": "laptop"}
    Host.objects.filter(pool=scarce.pool).update(cards_free=0)
    assert page.post(data).status_code == 409
    assert shop.organization.ssh_keys.count() == 1
    Host.objects.filter(pool=scarce.pool).update(cards_free=8)

    assert page.post(data).status_code == 302
    assert Order.objects.get().lines.get().public_keys == [shop.organization.ssh_keys.get(name="laptop").public_key]
