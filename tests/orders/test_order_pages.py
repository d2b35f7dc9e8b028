"""The order form, the list and one order, as people use them: by HTTP."""

import re
from datetime import timedelta

import pytest
from celery import Task
from django.urls import reverse
from django.utils import translation
from kombu.exceptions import OperationalError

from accounts.models import CreditLine, SshKey
from billing.actions.drafting import draft_order_invoice
from billing.actions.moving import move_invoice
from marketplace.lib import clock
from orders import actions, queries
from orders.models import Order
from rentals.actions import open_rentals
from tests import factories
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def rules(settings):
    settings.HEADROOM_HOURS = 24
    settings.ORDER_HOLD_MINUTES = 30
    settings.TAX_PERCENT = "6"
    settings.CELERY_TASK_ALWAYS_EAGER = False
    # Not by LANGUAGE_CODE: Django keeps the addresses it has written, for every later test.
    translation.activate("en")


@pytest.fixture
def buyer(client, shop):
    client.cookies["django_language"] = "en"
    assert client.login(email=shop.owner.email, password=PASSWORD)
    return client


def as_person(client, person):
    client.logout()
    client.cookies["django_language"] = "en"
    assert client.login(email=person.email, password=PASSWORD)
    return client


def url(shop):
    return reverse("orders:new", args=[shop.offer.slug])


def hidden(response):
    """The hidden fields of the order form on a page."""
    html = response.content.decode()
    return {
        name: re.search(rf'name="{name}" value="([^"]*)"', html)[1]
        for name in ("request_key", "seen_rate", "seen_choice")
    }


def filled(client, shop, **changes):
    """What the form sends after the buyer looked at the price of these choices."""
    data = {
        "quantity": 1, "term": "hour", "periods": 1, "image": shop.image.slug, "ssh_keys": [str(shop.key.key)],
    } | changes  # fmt: skip
    page = client.post(url(shop), data | {"update": "1", "request_key": changes.get("request_key", "unused")})
    data = hidden(client.get(url(shop))) | hidden(page) | data
    if "request_key" not in changes:
        data["request_key"] = hidden(client.get(url(shop)))["request_key"]
    return data


def text(response):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", response.content.decode()))


# --- the form --------------------------------------------------------------------------------------------------------
def test_a_visitor_is_asked_to_sign_in_first(client, shop):
    response = client.get(url(shop))

    assert (response.status_code, response["Location"]) == (302, f"{reverse('account_login')}?next={url(shop)}")


def test_the_form_shows_the_full_price_with_its_arithmetic(buyer, shop):
    page = text(buyer.get(url(shop)))

    assert "1 unit × 2 cards × ¥2.50 per card-hour = ¥5.00 per hour" in page
    assert "¥0.28" in page  # 6 % within ¥5.00
    assert "¥120.00" in page  # 24 hours, and the credit kept ready
    assert "¥3,650.00" in page  # 730 hours


def test_a_link_may_carry_the_choice_and_nonsense_is_dropped(buyer, shop):
    page = text(buyer.get(url(shop), {"term": "month", "quantity": "2", "periods": "3"}))
    assert "2 × 2 cards × 3 months × ¥1,280.00 per card-month = ¥15,360.00" in page

    page = text(buyer.get(url(shop), {"term": "week", "quantity": "²", "periods": "99999999999"}))
    assert "1 unit × 2 cards × ¥2.50 per card-hour = ¥5.00 per hour" in page


def test_every_rendering_has_its_own_request_key(buyer, shop):
    first, second = (hidden(buyer.get(url(shop)))["request_key"] for _rendering in range(2))

    assert first != second


def test_the_price_updates_without_scripts_and_without_complaints(buyer, shop):
    data = {"quantity": 2, "term": "year", "periods": 2, "request_key": "k", "update": "1"}

    response = buyer.post(url(shop), data)

    assert response.status_code == 200
    assert "2 × 2 cards × 2 years × ¥13,000.00 per card-year = ¥104,000.00" in text(response)
    assert b"field__errors" not in response.content
    assert not Order.objects.exists()


def test_the_price_updates_as_a_fragment(buyer, shop):
    data = {"quantity": 3, "term": "hour", "update": "1"}

    response = buyer.post(url(shop), data, headers={"HX-Request": "true"})

    assert b"<html" not in response.content
    assert "3 units × 2 cards × ¥2.50 per card-hour = ¥15.00 per hour" in text(response)


def test_a_bad_quantity_is_said_beside_its_field(buyer, shop):
    response = buyer.post(url(shop), {"quantity": "-3", "term": "hour", "update": "1"})

    assert response.status_code == 200
    assert b'id="id_quantity_error"' in response.content


def test_an_unknown_or_withdrawn_offer_is_not_found(buyer, shop):
    assert buyer.get(reverse("orders:new", args=["no-such-offer"])).status_code == 404
    shop.offer.enabled = False
    shop.offer.save(update_fields=["enabled"])

    assert buyer.get(url(shop)).status_code == 404


# --- placing ---------------------------------------------------------------------------------------------------------
def test_placing_leads_to_the_order(buyer, shop):
    response = buyer.post(url(shop), filled(buyer, shop, quantity=2))

    order = Order.objects.get()
    assert (response.status_code, response["Location"]) == (302, reverse("orders:detail", args=[order.key]))
    assert (order.status, order.placed_by, order.lines.get().quantity) == ("confirmed", shop.owner, 2)
    assert order.lines.get().public_keys == [shop.key.public_key]


def test_a_repeated_post_leads_to_the_same_order(buyer, shop):
    data = filled(buyer, shop)

    first, second = buyer.post(url(shop), data), buyer.post(url(shop), data)

    assert first["Location"] == second["Location"]
    assert (Order.objects.count(), shop.held) == (1, 2)


def test_choices_whose_price_was_not_seen_are_asked_again(buyer, shop):
    data = filled(buyer, shop) | {"quantity": 4}

    response = buyer.post(url(shop), data)

    assert response.status_code == 200
    assert "Your choices have changed the price" in text(response)
    assert "4 units × 2 cards × ¥2.50 per card-hour = ¥20.00 per hour" in text(response)
    assert not Order.objects.exists()

    assert buyer.post(url(shop), data | hidden(response)).status_code == 302
    assert Order.objects.get().lines.get().quantity == 4


def test_a_changed_price_is_shown_and_can_be_confirmed(buyer, shop):
    data = filled(buyer, shop)
    now = clock.now()
    shop.offer.prices.filter(meter="card_hour").update(valid_to=now)
    factories.price(shop.offer, since=now, card_hour="3")

    response = buyer.post(url(shop), data)

    assert response.status_code == 409
    assert "from ¥2.50 to ¥3.00" in text(response)
    assert "1 unit × 2 cards × ¥3.00 per card-hour = ¥6.00 per hour" in text(response)
    assert not Order.objects.exists()

    assert buyer.post(url(shop), data | hidden(response)).status_code == 302
    assert str(Order.objects.get().lines.get().rate) == "3.0000000000"


def test_sold_out_names_what_is_free_instead(buyer, shop):
    data = filled(buyer, shop, quantity=4)
    smaller = factories.offer(shop.offer.pool, cards=1)
    shop.place(quantity=1)

    response = buyer.post(url(shop), data)

    assert response.status_code == 409
    assert "only 3 units are left" in text(response)
    assert reverse("orders:new", args=[smaller.slug]) in response.content.decode()
    assert Order.objects.count() == 1
    assert shop.held == 2


def test_too_little_credit_says_how_much_is_missing(buyer, shop):
    data = filled(buyer, shop)
    CreditLine.objects.update(available_minor=10_000)

    response = buyer.post(url(shop), data)

    assert response.status_code == 409
    assert "¥120.00 of credit is needed, ¥100.00 is available: ¥20.00 is missing" in text(response)
    assert reverse("billing:overview") in response.content.decode()
    assert (Order.objects.count(), shop.held, shop.committed) == (0, 0, 0)


def test_an_unverified_address_is_led_to_its_verification(client, shop):
    person = factories.member(shop.organization, "engineer", verified=False)
    as_person(client, person)
    assert "Verify your e-mail address" in text(client.get(url(shop)))

    response = client.post(url(shop), filled(client, shop))

    assert response.status_code == 409
    assert reverse("account_email") in response.content.decode()
    assert not Order.objects.exists()


@pytest.mark.parametrize("role", ["finance", "viewer"])
def test_some_roles_may_look_but_not_order(client, shop, role):
    as_person(client, factories.member(shop.organization, role))
    page = client.get(url(shop))
    assert page.status_code == 200
    assert b'name="place"' not in page.content

    assert client.post(url(shop), filled(client, shop)).status_code == 403
    assert not Order.objects.exists()


def test_a_pasted_key_is_added_with_the_order(buyer, shop):
    data = filled(buyer, shop, ssh_keys=[], new_key=factories.new_public_key(), new_key_name="笔记本")

    first, second = buyer.post(url(shop), data), buyer.post(url(shop), data)

    added = SshKey.objects.get(name="笔记本")
    assert first["Location"] == second["Location"]
    assert Order.objects.get().lines.get().public_keys == [added.public_key]


def test_a_refused_order_adds_no_key(buyer, shop):
    data = filled(buyer, shop, quantity=5, ssh_keys=[], new_key=factories.new_public_key())

    assert buyer.post(url(shop), data).status_code == 409
    assert list(SshKey.objects.all()) == [shop.key]


def test_a_bad_key_is_said_beside_its_field(buyer, shop):
    data = filled(buyer, shop, ssh_keys=[], new_key="-----BEGIN OPENSSH PRIVATE KEY-----")

    response = buyer.post(url(shop), data)

    assert response.status_code == 422
    assert b'id="id_new_key_error"' in response.content
    assert not Order.objects.exists()


def test_no_key_at_all_is_refused(buyer, shop):
    response = buyer.post(url(shop), filled(buyer, shop, ssh_keys=[]))

    assert response.status_code == 422
    assert b'id="id_ssh_keys_error"' in response.content


def test_another_organizations_key_is_no_choice(buyer, shop):
    foreign = factories.ssh_key(factories.organization(name="别家"))

    response = buyer.post(url(shop), filled(buyer, shop, ssh_keys=[str(foreign.key)]))

    assert response.status_code == 422
    assert not Order.objects.exists()


def test_going_back_and_ordering_something_else_asks_first(buyer, shop):
    data = filled(buyer, shop)
    buyer.post(url(shop), data)
    first = Order.objects.get()
    changed = data | {"quantity": 2, "seen_choice": "2/hour/1"}

    response = buyer.post(url(shop), changed)

    assert response.status_code == 409
    assert first.number in text(response)
    assert Order.objects.count() == 1

    assert buyer.post(url(shop), changed | hidden(response)).status_code == 302
    assert Order.objects.count() == 2


def test_the_project_is_asked_for_where_there_are_several(buyer, shop):
    assert b'name="project"' not in buyer.get(url(shop)).content
    second = shop.organization.projects.create(name="推理")

    buyer.post(url(shop), filled(buyer, shop, project=str(second.pk)))

    assert Order.objects.get().project == second


def test_a_form_without_its_hidden_fields_is_answered(buyer, shop):
    data = {"quantity": 1, "term": "hour", "image": shop.image.slug, "ssh_keys": [str(shop.key.key)]}

    response = buyer.post(url(shop), data)

    assert response.status_code == 422
    assert "out of date" in text(response)


# --- the list --------------------------------------------------------------------------------------------------------
def test_the_list_is_empty_at_first(buyer):
    assert "No orders yet" in text(buyer.get(reverse("orders:list")))


@pytest.mark.parametrize("rows", [1, 3])
def test_the_list_costs_the_same_however_long_it_is(buyer, shop, rows, django_assert_num_queries):
    for _row in range(rows):
        shop.place()

    # session, user, membership, count, orders, lines, unread notices
    with django_assert_num_queries(7):
        response = buyer.get(reverse("orders:list"))

    assert response.content.decode().count("SO2611") == rows


def test_the_list_is_paged(buyer, shop):
    shop.organization.refresh_from_db()
    offer = factories.offer(factories.pool(hosts=1, cards=24), cards=1)
    for _row in range(21):
        shop.place(offer=offer)

    first = buyer.get(reverse("orders:list"))
    second = buyer.get(reverse("orders:list"), {"page": "2"})

    assert [page.content.decode().count("SO2611") for page in (first, second)] == [20, 1]


def test_the_list_shows_no_other_organizations_orders(client, shop):
    shop.place()
    other = factories.organization(name="别家")
    as_person(client, other.memberships.get().user)

    assert "No orders yet" in text(client.get(reverse("orders:list")))


# --- one order -------------------------------------------------------------------------------------------------------
def test_an_order_shows_what_was_agreed_and_when_the_hold_ends(buyer, shop):
    order = shop.place(term="month", periods=3, quantity=2)

    page = text(buyer.get(reverse("orders:detail", args=[order.key])))

    assert order.number in page
    assert "Awaiting payment" in page
    assert "2 × 2 cards × 3 months × ¥1,280.00 per card-month = ¥15,360.00" in page
    assert "2026-11-30 12:30:00" in page
    assert "The invoice is being prepared" in page
    assert "Pay ¥15,360.00" in page


def test_the_state_refreshes_itself_with_and_without_scripts(buyer, shop):
    order = shop.place(term="month")
    address = reverse("orders:detail", args=[order.key])

    page = buyer.get(address)
    part = buyer.get(address, headers={"HX-Request": "true", "HX-Target": "order-state"})

    assert b'<noscript><meta http-equiv="refresh"' in page.content
    assert b'hx-trigger="every 3s' in page.content
    assert b"<html" not in part.content
    assert b'id="order-state"' in part.content


def test_an_order_that_is_over_does_not_refresh(buyer, shop):
    order = shop.place(term="month")
    actions.begin_expiring(at=order.hold_expires_at)
    actions.cancel_unpaid(order_id=order.pk, at=order.hold_expires_at)

    page = buyer.get(reverse("orders:detail", args=[order.key]))

    assert b"every 3s" not in page.content
    assert b'http-equiv="refresh"' not in page.content
    assert "Nothing is owed" in text(page)


def test_cancelling_asks_first(buyer, shop):
    order = shop.place(term="month")
    address = reverse("orders:cancel", args=[order.key])

    assert "The cards are released" in text(buyer.get(address))
    order.refresh_from_db()
    assert order.status == "awaiting_payment"

    assert buyer.post(address)["Location"] == reverse("orders:detail", args=[order.key])
    order.refresh_from_db()
    assert order.status == "expiring"


def test_cancelling_a_running_order_is_refused(buyer, shop):
    order = shop.place()

    response = buyer.post(reverse("orders:cancel", args=[order.key]), follow=True)

    assert "does not allow this" in text(response)
    order.refresh_from_db()
    assert (order.status, shop.held) == ("confirmed", 2)


@pytest.mark.parametrize("page", ["detail", "cancel"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_another_organizations_order_is_not_found(client, shop, page, method):
    order = shop.place(term="month")
    as_person(client, factories.organization(name="别家").memberships.get().user)

    response = getattr(client, method)(reverse(f"orders:{page}", args=[order.key]))

    assert response.status_code == (405 if (page, method) == ("detail", "post") else 404)
    order.refresh_from_db()
    assert order.status == "awaiting_payment"


@pytest.mark.parametrize("role", ["finance", "viewer"])
def test_every_member_reads_orders_but_not_every_one_cancels(client, shop, role):
    order = shop.place(term="month", at=clock.now() - timedelta(minutes=1))
    as_person(client, factories.member(shop.organization, role))

    page = client.get(reverse("orders:detail", args=[order.key]))
    assert page.status_code == 200
    assert b'id="cancel"' not in page.content
    assert client.post(reverse("orders:cancel", args=[order.key])).status_code == 403


def test_the_pages_speak_chinese(client, shop):
    client.login(email=shop.owner.email, password=PASSWORD)

    with translation.override("zh-hans"):
        for address in (url(shop), reverse("orders:list")):
            response = client.get(address)
            assert (response.status_code, response["Content-Language"]) == (200, "zh-hans")


def test_alternatives_are_near_and_free(shop):
    bigger = factories.offer(shop.offer.pool, cards=4)
    same_model = factories.offer(factories.pool(), cards=2)
    full = factories.offer(factories.pool(cards=2), cards=2)
    shop.place(offer=full)
    h100 = factories.gpu_model("h100", name="NVIDIA H100", family="H100", memory_gb=80)
    larger_card = factories.offer(factories.pool(model=h100), cards=2)
    small = factories.gpu_model("t4", name="NVIDIA T4", family="T4", memory_gb=16)
    factories.offer(factories.pool(model=small), cards=2)
    npu = factories.gpu_model("910b", name="Ascend 910B", family="Ascend", memory_gb=64, software_stack="CANN")
    factories.offer(factories.pool(model=npu), cards=2)

    found = queries.alternatives(shop.offer, limit=9)

    assert [(one.offer, one.free_units) for one in found] == [(same_model, 4), (bigger, 2), (larger_card, 4)]


def test_an_organization_without_keys_is_asked_for_one(client, shop):
    other = factories.organization(name="别家")
    as_person(client, other.memberships.get().user)
    page = client.get(url(shop))
    assert b'name="ssh_keys"' not in page.content

    response = client.post(url(shop), filled(client, shop, ssh_keys=[]))

    assert response.status_code == 422
    assert b'id="id_new_key_error"' in response.content
    assert (
        client.post(url(shop), filled(client, shop, ssh_keys=[], new_key=factories.new_public_key())).status_code == 302
    )
    assert Order.objects.get().organization == other


def invoiced(order):
    """The order with its invoice open, as it is once Stripe has it."""
    invoice = draft_order_invoice(order=order, at=factories.NOON)
    move_invoice(invoice, "open", at=factories.NOON)
    return invoice


def test_an_open_invoice_is_paid_from_the_order(buyer, shop):
    order = shop.place(term="month")
    invoice = invoiced(order)

    page = buyer.get(reverse("orders:detail", args=[order.key]))

    assert f'action="{reverse("billing:order_pay", args=[order.key])}"' in page.content.decode()
    assert "Pay ¥2,560.00" in text(page)
    assert invoice.number in text(page)
    assert b"every 3s" not in page.content
    assert b'http-equiv="refresh"' not in page.content


def test_somebody_who_may_not_pay_is_told_who_may(client, shop):
    order = shop.place(term="month")
    invoiced(order)
    as_person(client, factories.member(shop.organization, "viewer"))

    page = client.get(reverse("orders:detail", args=[order.key]))

    assert "has to pay this order" in text(page)
    assert b'id="pay"' not in page.content


def test_the_machines_of_an_order_are_linked(buyer, shop):
    order = shop.place(quantity=2)
    open_rentals(at=factories.NOON)

    page = buyer.get(reverse("orders:detail", args=[order.key])).content.decode()

    for unit in order.lines.get().units:
        assert reverse("rentals:detail", args=[unit]) in page


@pytest.mark.parametrize(
    ("term", "task"), [("hour", "rentals.open_rentals"), ("month", "billing.draft_order_invoices")]
)
def test_the_next_floor_is_told_to_look(buyer, shop, term, task, monkeypatch, django_capture_on_commit_callbacks):
    sent = []
    monkeypatch.setattr(Task, "apply_async", lambda self, **_options: sent.append(self.name))

    with django_capture_on_commit_callbacks(execute=True):
        buyer.post(url(shop), filled(buyer, shop, term=term))

    assert sent == [task]


def test_a_broker_that_is_down_costs_no_order(buyer, shop, monkeypatch, django_capture_on_commit_callbacks):
    def down(self, **_options):
        raise OperationalError

    monkeypatch.setattr(Task, "apply_async", down)

    with django_capture_on_commit_callbacks(execute=True):
        response = buyer.post(url(shop), filled(buyer, shop))

    assert response.status_code == 302
    assert Order.objects.count() == 1
