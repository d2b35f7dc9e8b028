"""Pages kept for visitors: equal only while everything they show is equal, and each visitor's token is their own."""

import re

import pytest
from django.test import Client

from catalog.models import Host
from marketplace.lib import kept
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_kept():
    kept.forget()


@pytest.fixture
def offer():
    return factories.offer()


def page(client=None, path="/gpus/", **cookies):
    client = client or Client()
    for name, value in cookies.items():
        client.cookies[name] = value
    return client.get(path).content.decode()


def without_token(html):
    """The page without what is each answer's own: its token and its time."""
    return re.sub(r'name="csrfmiddlewaretoken" value="\w+"|\d\d:\d\d:\d\d', "", html)


def free(html):
    return int(re.search(r'data-status="available">.*?</span>\s*(\d+) cards', html)[1])


def test_a_page_is_rendered_once_for_everybody(offer, monkeypatch):
    first = page()
    monkeypatch.setattr(kept, "render_to_string", None)

    assert without_token(page()) == without_token(first)


def test_the_token_is_the_visitors_own_and_is_accepted(offer):
    tokens = set()
    for _visitor in range(2):
        client = Client(enforce_csrf_checks=True)
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page(client))[1]
        answer = client.post("/currency/", {"currency": "USD", "next": "/gpus/", "csrfmiddlewaretoken": token})
        assert answer.status_code == 302
        tokens.add(token)

    assert len(tokens) == 2
    assert kept.TOKEN not in page()


def test_a_sale_shows_in_the_next_answer(offer):
    assert free(page(django_language="en")) == 8

    Host.objects.update(cards_free=5)

    assert free(page(django_language="en")) == 5


def test_language_currency_and_address_are_pages_of_their_own(offer):
    factories.price(offer, currency="USD", card_hour="0.37")

    pages = [page(), page(django_language="en"), page(currency="USD"), page(path="/gpus/?sort=price")]

    assert len({without_token(html) for html in pages}) == 4
    assert "0.37" in pages[2]


def test_a_page_asked_for_over_tls_names_no_plain_address(offer):
    path = f"/gpus/{offer.slug}/"
    secured = f"https://testserver{path}"

    assert secured in Client().get(path, secure=True).text

    assert secured not in Client().get(path).text
    assert f"http://testserver{path}" not in Client().get(path, secure=True).text


def test_somebody_signed_in_gets_a_page_of_their_own(offer):
    person = factories.user()
    client = Client()
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")

    assert person.email in page(client)
    assert person.email not in page()


def test_kept_pages_are_bounded(offer, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 3)

    for number in range(5):
        page(path=f"/gpus/?q=nothing{number}")
    page(path=f"/gpus/?q={'x' * kept.LONGEST_ADDRESS}")

    assert len(kept._pages) == 3


def test_a_part_made_for_another_query_names_this_page(offer):
    page(path="/gpus/?q=rtx")
    html = page(path="/gpus/?q=%22%3E&sort=price")

    assert set(re.findall(r'name="next" value="([^"]+)"', html)) == {"/gpus/?q=%22%3E&amp;sort=price"}
    assert kept.ADDRESS not in html


def test_a_part_is_not_shown_to_somebody_signed_in(offer):
    page()
    person = factories.user()
    client = Client()
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")

    assert 'value="/gpus/?q=x"' in page(client, path="/gpus/?q=x")
    assert kept.ADDRESS not in page(client, path="/gpus/?q=x")
