"""A quote by its link: readable by whoever has it, answered by the organization's people only."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse

from marketplace.lib import clock
from orders import actions
from orders.models import Order, Quote
from tests import factories
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db


@pytest.fixture
def quote(shop):
    """Two units of two cards for three months at 15 % off, sent today."""
    now = clock.now()
    seller = factories.user("seller@example.com", is_staff=True)
    made = actions.create_quote(
        organization=shop.organization, actor=seller, valid_until=now + timedelta(days=14), at=now, note="含机房接入"
    )
    actions.add_quote_line(
        quote_id=made.pk, offer=shop.offer, image=shop.image, quantity=2, term="month", periods=3,
        discount_percent=Decimal(15), at=now,
    )  # fmt: skip
    return actions.send_quote(quote_id=made.pk, actor=seller, at=now)


@pytest.fixture(autouse=True)
def english(client):
    client.cookies["django_language"] = "en"


def sign_in(client, person):
    assert client.login(email=person.email, password=PASSWORD)
    client.cookies["django_language"] = "en"


def url(quote, name="quote"):
    return reverse(f"orders:{name}", args=[quote.token])


def text(response):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def status(quote):
    return Quote.objects.get(pk=quote.pk).status


def test_whoever_has_the_link_reads_every_figure(client, quote):
    response = client.get(url(quote))

    page = text(response)
    for figure in (
        quote.number, "Version 1", "福州智算科技有限公司", "含机房接入", "¥1,280.00", "15%", "¥1,088.00", "¥15,360.00",
        "−¥2,304.00", "¥13,056.00", "¥739.02",
    ):  # fmt: skip
        assert figure in page
    assert "Sign in to accept" in page
    assert response["Cache-Control"] == "private, no-store"
    assert response["X-Robots-Tag"] == "noindex"


def test_a_draft_and_an_unknown_link_are_not_found(client, shop, quote):
    draft = actions.revise_quote(quote_id=quote.pk, actor=quote.salesperson, at=clock.now())

    assert client.get(url(draft)).status_code == 404
    assert client.get(reverse("orders:quote", args=["x" * 43])).status_code == 404
    assert client.post(url(draft, "accept_quote")).status_code == 404


def test_accepting_places_the_order(client, shop, quote):
    sign_in(client, shop.owner)
    assert "Accept and order" in client.get(url(quote)).content.decode()

    data = {"ssh_keys": [str(shop.key.key)]}
    first, second = (client.post(url(quote, "accept_quote"), data) for _click in range(2))

    order = Order.objects.get()
    assert first["Location"] == second["Location"] == reverse("orders:detail", args=[order.key])
    assert (order.total_minor, shop.held, status(quote)) == (1_305_600, 4, "accepted")
    assert order.number in text(client.get(url(quote)))


def test_accepting_with_a_new_key_adds_it(client, shop, quote):
    sign_in(client, shop.owner)

    data = {"new_key": factories.new_public_key(), "new_key_name": "跳板机"}
    first, second = (client.post(url(quote, "accept_quote"), data) for _click in range(2))

    assert first["Location"] == second["Location"]
    key = shop.organization.ssh_keys.get(name="跳板机")
    assert Order.objects.get().lines.get().public_keys == [key.public_key]


def test_accepting_without_a_key_is_said_beside_the_field(client, shop, quote):
    sign_in(client, shop.owner)

    response = client.post(url(quote, "accept_quote"))

    assert response.status_code == 422
    assert b'id="id_ssh_keys_error"' in response.content
    assert status(quote) == "sent"


def test_sold_out_is_told_and_the_quote_stays_open(client, shop, quote):
    shop.place(quantity=3)
    sign_in(client, shop.owner)

    response = client.post(url(quote, "accept_quote"), {"ssh_keys": [str(shop.key.key)]})

    assert response.status_code == 409
    assert "only 1 unit is left" in text(response)
    assert (status(quote), shop.held) == ("sent", 6)


def test_declining_is_final(client, shop, quote):
    sign_in(client, shop.owner)

    page = client.post(url(quote, "decline_quote"), follow=True)

    assert "This quote was declined" in text(page)
    assert "Accept and order" not in text(page)
    assert client.post(url(quote, "accept_quote"), {"ssh_keys": [str(shop.key.key)]}).status_code == 409
    assert (status(quote), Order.objects.count()) == ("declined", 0)


def test_an_expired_quote_says_so(client, shop, quote):
    Quote.objects.filter(pk=quote.pk).update(valid_until=clock.now() - timedelta(seconds=1))
    sign_in(client, shop.owner)

    page = text(client.get(url(quote)))
    assert "This quote has expired" in page
    assert "Accept and order" not in page

    assert client.post(url(quote, "accept_quote"), {"ssh_keys": [str(shop.key.key)]}).status_code == 409
    assert not Order.objects.exists()


def test_a_superseded_quote_says_so(client, shop, quote):
    actions.revise_quote(quote_id=quote.pk, actor=quote.salesperson, at=clock.now())
    sign_in(client, shop.owner)

    page = text(client.get(url(quote)))

    assert "A newer version replaces this quote" in page
    assert "Accept and order" not in page


@pytest.mark.parametrize("answer", ["accept_quote", "decline_quote"])
def test_a_visitor_is_sent_to_sign_in_and_back(client, quote, answer):
    response = client.post(url(quote, answer))

    assert response["Location"] == f"{reverse('account_login')}?next={url(quote)}"
    assert status(quote) == "sent"


@pytest.mark.parametrize("answer", ["accept_quote", "decline_quote"])
def test_somebody_elses_answer_is_not_found(client, quote, answer):
    other = factories.organization(name="别家")
    sign_in(client, other.memberships.get().user)

    assert "Only members of 福州智算科技有限公司" in text(client.get(url(quote)))
    assert client.post(url(quote, answer)).status_code == 404
    assert status(quote) == "sent"


@pytest.mark.parametrize("answer", ["accept_quote", "decline_quote"])
@pytest.mark.parametrize("role", ["finance", "viewer"])
def test_some_roles_may_read_but_not_answer(client, shop, quote, answer, role):
    sign_in(client, factories.member(shop.organization, role))

    assert client.get(url(quote)).status_code == 200
    assert client.post(url(quote, answer)).status_code == 403
    assert status(quote) == "sent"


def test_a_member_who_works_in_another_organization_still_answers(client, shop, quote):
    factories.organization(shop.owner, name="先加入的", at=factories.NOON - timedelta(days=9))
    sign_in(client, shop.owner)

    response = client.post(url(quote, "accept_quote"), {"ssh_keys": [str(shop.key.key)]})

    assert response.status_code == 302
    assert Order.objects.get().organization == shop.organization


def test_an_answer_is_never_a_get(client, shop, quote):
    sign_in(client, shop.owner)

    assert client.get(url(quote, "accept_quote")).status_code == 405
    assert client.get(url(quote, "decline_quote")).status_code == 405
