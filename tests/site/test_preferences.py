"""Language and currency: chosen by the visitor, remembered in a cookie, changed without leaving the page."""

import pytest
from django.urls import reverse

from tests import factories

pytestmark = pytest.mark.django_db
LOGIN = "/accounts/login/"


def language(answer) -> str:
    return answer.headers["Content-Language"]


def test_a_first_visitor_reads_chinese_whatever_the_browser_asks_for(client):
    answer = client.get(LOGIN, headers={"Accept-Language": "en-US,en;q=0.9"})
    assert language(answer) == "zh-hans"
    assert '<html lang="zh-Hans">' in answer.text
    assert "Cookie" in answer.headers["Vary"]


def test_the_switch_changes_the_language_and_stays_on_the_page(client):
    page = f"{LOGIN}?next=/gpus/%3Ffamily%3DH100"
    answer = client.post(reverse("set_language"), {"language": "en", "next": page})
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/en{page}")
    english = client.get(page)
    assert language(english) == "en"
    assert '<html lang="en">' in english.text


def test_a_language_the_site_does_not_speak_is_ignored(client):
    client.cookies["django_language"] = "fr"
    assert language(client.get(LOGIN)) == "zh-hans"
    client.cookies["django_language"] = "../../etc/passwd"
    assert language(client.get(LOGIN)) == "zh-hans"


def test_the_currency_switch_remembers_and_stays_on_the_page(client):
    answer = client.post(reverse("set_currency"), {"currency": "USD", "next": "/gpus/?family=H100"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/gpus/?family=H100")
    assert answer.cookies["currency"].value == "USD"
    assert client.get(LOGIN).context["portal"]["currency"] == "USD"


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", ""])
def test_the_currency_switch_never_leads_to_another_site(client, target):
    answer = client.post(reverse("set_currency"), {"currency": "USD", "next": target})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")


def test_an_unknown_currency_is_refused_and_nothing_is_remembered(client):
    answer = client.post(reverse("set_currency"), {"currency": "XXX", "next": "/"})
    assert answer.status_code == 400
    assert "currency" not in client.cookies


def test_the_currency_is_not_changed_by_a_link(client):
    assert client.get(reverse("set_currency"), {"currency": "USD"}).status_code == 405


def test_an_organizations_own_currency_wins_over_the_cookie(client):
    owner = factories.user()
    factories.organization(owner, currency="USD")
    client.force_login(owner)
    client.cookies["currency"] = "CNY"
    page = client.get(reverse("account_email"))
    assert page.context["portal"]["currency"] == "USD"
    assert 'name="currency"' not in page.text
