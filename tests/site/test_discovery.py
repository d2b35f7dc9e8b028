"""How the site is found and shown elsewhere: addresses by language, sitemap, robots, cards, and the offline page."""

import re
from xml.etree import ElementTree

import pytest
from django.conf import settings
from django.urls import reverse
from django.utils import translation

from marketplace.lib import addresses
from tests import factories

pytestmark = pytest.mark.django_db
SITE = settings.SITE_URL


@pytest.mark.parametrize(
    ("path", "named", "bare"),
    [
        ("/gpus/", None, "/gpus/"),
        ("/en/gpus/", "en", "/gpus/"),
        ("/en/", "en", "/"),
        ("/english/", None, "/english/"),
        ("/zh-hans/gpus/", None, "/zh-hans/gpus/"),
    ],
)
def test_an_address_names_its_language(path, named, bare):
    assert (addresses.language_in(path), addresses.without_language(path)) == (named, bare)


def test_links_lead_to_the_language_they_stand_in():
    with translation.override("en"):
        assert reverse("catalog:list") == "/en/gpus/"
    with translation.override("zh-hans"):
        assert reverse("catalog:list") == "/gpus/"


@pytest.mark.parametrize(
    ("path", "cookie", "language"),
    [
        ("/gpus/", None, "zh-hans"),
        ("/en/gpus/", None, "en"),
        ("/en/gpus/", "zh-hans", "en"),
        ("/gpus/", "en", "en"),
        ("/gpus/", "zh-hans", "zh-hans"),
    ],
)
def test_the_address_wins_over_the_choice(client, path, cookie, language):
    if cookie:
        client.cookies["django_language"] = cookie
    assert client.get(path).headers["Content-Language"] == language


def test_the_switch_leads_to_the_same_page_in_the_other_language(client):
    for wanted, here, there in (
        ("en", "/gpus/?q=h100", "/en/gpus/?q=h100"),
        ("zh-hans", "/en/gpus/?q=h100", "/gpus/?q=h100"),
    ):
        answer = client.post(reverse("set_language"), {"language": wanted, "next": here})
        assert (answer.status_code, answer.url) == (302, there)


def test_a_public_page_names_itself_and_its_other_language(client):
    html = client.get("/en/gpus/?q=h100").content.decode()
    links = re.findall(r'<link rel="(canonical|alternate)"(?: hreflang="([\w-]+)")? href="([^"]+)">', html)
    assert links == [
        ("canonical", "", f"{SITE}/en/gpus/"),
        ("alternate", "zh-Hans", f"{SITE}/gpus/"),
        ("alternate", "en", f"{SITE}/en/gpus/"),
        ("alternate", "x-default", f"{SITE}/gpus/"),
    ]
    title = re.search(r"<title>(.+)</title>", html)[1]
    assert f'<meta property="og:title" content="{title}">' in html


def test_what_is_somebodys_own_is_not_listed(client):
    person = factories.member(factories.organization(), "owner")
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    for html in (client.get(reverse("rentals:list")).content.decode(), client.get("/nowhere/").content.decode()):
        assert '<meta name="robots" content="noindex">' in html
        assert "canonical" not in html
        assert "og:image" not in html


def test_the_sitemap_is_only_read(client, db):
    assert client.post("/sitemap.xml").status_code == 405
    assert client.head("/sitemap.xml").status_code == 200


def test_the_sitemap_lists_every_public_page_in_every_language(client):
    offer = factories.offer()
    hidden = factories.offer()
    type(hidden).objects.filter(pk=hidden.pk).update(enabled=False)

    root = ElementTree.fromstring(client.get("/sitemap.xml").content)
    spaces = {"s": "http://www.sitemaps.org/schemas/sitemap/0.9"}
    listed = {place.text.removeprefix("http://testserver") for place in root.findall("s:url/s:loc", spaces)}

    assert {"/", "/en/", "/gpus/", "/en/gpus/", f"/gpus/{offer.slug}/", f"/en/gpus/{offer.slug}/"} <= listed
    assert f"/gpus/{hidden.slug}/" not in listed
    for path in listed:
        assert client.get(path).status_code == 200, path


def test_robots_are_told_what_is_private_and_where_the_map_is(client):
    answer = client.get("/robots.txt")
    lines = answer.content.decode().splitlines()
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert {"Disallow: /console/", "Disallow: /en/console/", "Disallow: /admin/"} <= set(lines)
    assert lines[-1] == f"Sitemap: {SITE}/sitemap.xml"


def test_the_old_name_of_the_icon_leads_to_it(client):
    answer = client.get("/favicon.ico")
    assert (answer.status_code, answer.url) == (301, "/static/img/favicon.ico")


def test_the_offline_page_is_kept_in_every_language_and_says_nothing_that_ages(client, django_assert_num_queries):
    worker = client.get("/service-worker.js")
    assert worker.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert 'const PAGES = ["/offline/", "/en/offline/", ]' in worker.content.decode().replace("\\u002D", "-")
    with django_assert_num_queries(0):
        assert "No connection" in client.get("/en/offline/").content.decode()
