"""Home, health, the design page, error pages and the account pages' frame."""

import re

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import translation

from marketplace import views
from tests import factories

pytestmark = pytest.mark.django_db


def test_home_tells_what_is_free_and_from_what_price(client, django_assert_max_num_queries):
    client.cookies["django_language"] = "en"
    pool = factories.pool(hosts=2)
    factories.offer(pool, cards=1, hour="2.50")
    factories.offer(pool, cards=8, hour="2.18")
    with django_assert_max_num_queries(2):  # the catalogue's version, and what stands in it
        page = client.get("/").text
    with django_assert_max_num_queries(1):
        client.get("/")
    assert '<dt>cards free now</dt><dd class="figure">16</dd>' in page
    assert '<dt>regions</dt><dd class="figure">1</dd>' in page
    assert 'data-label="Per card-hour from">¥2.18</td>' in page
    assert 'data-label="Free now">16</td>' in page


def test_home_shows_a_dash_where_the_currency_has_no_price(client):
    client.cookies["currency"] = "USD"
    client.cookies["django_language"] = "en"
    factories.offer(hour="2.50")
    assert 'data-label="Per card-hour from">—</td>' in client.get("/").text


def test_home_without_offers_says_so(client):
    page = client.get("/")
    assert page.status_code == 200
    assert 'class="empty"' in page.text


def test_the_site_is_healthy_when_database_and_redis_answer(client):
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "database": "ok", "redis": "ok"})
    assert "no-store" in answer.headers["Cache-Control"]


def test_health_names_what_does_not_answer(client, settings):
    settings.REDIS_URL = "redis://127.0.0.1:9/0"
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (503, {"status": "failing", "database": "ok", "redis": "failing"})


def test_the_design_page_shows_every_component_and_exists_for_developers_only(settings):
    settings.DEBUG = True
    request = RequestFactory().get("/design/?page=3")
    request.user = AnonymousUser()
    page = views.design(request).text
    for part in ("card", "status", "button", "copyable", "alert", "specs", "table-frame", "stepper", "tabs", "empty"):
        assert f'class="{part}' in page, part
    settings.DEBUG = False
    with pytest.raises(views.Http404):
        views.design(request)


def test_an_unknown_address_is_told_in_the_readers_language(client):
    answer = client.get("/no-such-page/")
    assert answer.status_code == 404
    assert '<html lang="zh-Hans">' in answer.text
    assert reverse("catalog:list") in answer.text


@pytest.mark.parametrize("code", ["400", "500"])
def test_pages_for_broken_requests_need_no_request(code):
    with translation.override("en"):
        page = render_to_string(f"{code}.html")
    assert f'<p class="error-page__code">{code}</p>' in page
    assert '<html lang="en">' in page


def test_an_expired_form_is_explained():
    strict = Client(enforce_csrf_checks=True)
    strict.cookies["django_language"] = "en"
    answer = strict.post(reverse("set_currency"), {"currency": "USD"})
    assert answer.status_code == 403
    assert "currency" not in answer.cookies
    assert "error-page" in answer.text


def test_account_pages_are_drawn_by_our_components(client):
    for name in ("account_login", "account_signup", "account_reset_password"):
        page = client.get(reverse(name)).text
        assert 'class="entrance__card"' in page, name
        visible = re.findall(r'<(?:input|select)(?![^>]*type="hidden")[^>]* id="(id_[^"]+)"', page)
        assert visible, name
        assert all(f'for="{field}"' in page for field in visible), name


def test_a_wrong_password_is_told_above_the_form(client):
    person = factories.user()
    answer = client.post(reverse("account_login"), {"login": person.email, "password": "wrong"})
    assert answer.status_code == 200
    assert 'role="alert"' in answer.text
    assert "_auth_user_id" not in client.session


def test_account_settings_have_their_pages(client):
    owner = factories.user()
    factories.organization(owner)
    client.force_login(owner)
    for name in ("account_email", "account_change_password", "mfa_index"):
        page = client.get(reverse(name))
        assert page.status_code == 200, name
        assert f'href="{reverse(name)}" aria-current="page"' in page.text, name
        assert owner.email in page.text
        assert 'href=""' not in page.text, "a link of the frame leads nowhere"


def test_signing_out_takes_a_post(client):
    owner = factories.user()
    client.force_login(owner)
    assert client.get(reverse("account_logout")).status_code == 200
    assert "_auth_user_id" in client.session
    assert client.post(reverse("account_logout")).status_code == 302
    assert "_auth_user_id" not in client.session


def test_no_page_names_a_provider_that_is_not_configured(client):
    assert not settings.ICP_NUMBER
    assert "beian.miit.gov.cn" not in client.get(reverse("account_login")).text


def test_the_footer_carries_icp_number_and_phone_where_they_are_set(client, settings):
    settings.ICP_NUMBER, settings.SUPPORT_PHONE = "闽ICP备2026000001号", "400-000-0000"
    page = client.get(reverse("account_login")).text
    assert '<a href="https://beian.miit.gov.cn/" rel="noopener noreferrer">闽ICP备2026000001号</a>' in page
    assert '<a href="tel:400-000-0000">400-000-0000</a>' in page
