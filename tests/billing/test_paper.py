"""An invoice as a paper: everything that is filed, nothing that is clicked."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.urls import reverse
from django.utils import translation

from billing import actions
from tests import factories
from tests.billing import builders

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def english():
    with translation.override("en"):
        yield


def text(response):
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode())))


def paper(client, invoice):
    return client.get(reverse("billing:invoice", args=[invoice.key]), {"print": "1"})


def signed_in(client, organization):
    client.force_login(organization.members.first(), backend="django.contrib.auth.backends.ModelBackend")


def test_it_holds_both_parties_number_dates_lines_and_sums(client, settings):
    settings.SELLER = {"name": "福建某某智算有限公司", "tax_number": "91350100MA00000155", "address": "福州市鼓楼区"}
    settings.BANK_ACCOUNT = "某某银行 1234"
    organization = factories.organization(name="买方<公司>")
    invoice = actions.draft_order_invoice(
        order=builders.order(organization, quantity=2, periods=3, rate="2000"), at=builders.NOVEMBER
    )
    signed_in(client, organization)
    page = client.get(reverse("billing:invoice", args=[invoice.key]))
    assert 'href="?print=1"' in page.content.decode()

    response = paper(client, invoice)

    shown = text(response)
    for words in (
        "福建某某智算有限公司", "91350100MA00000155", "福州市鼓楼区", "买方<公司>", invoice.number,
        invoice.order.number,
        "2026-11-01", "¥12,000.00", "¥679.25", "人民币壹万贰仟元整", "某某银行 1234", f"State {invoice.number}",
    ):  # fmt: skip
        assert words in shown
    body = response.content.decode()
    assert "买方<公司>" not in body
    for clicked in ("site-header", "console-nav", "<form", "site-footer"):
        assert clicked not in body


def test_without_a_sellers_name_the_products_stands_there(client):
    organization = factories.organization()
    invoice = actions.draft_order_invoice(order=builders.order(organization), at=builders.NOVEMBER)
    signed_in(client, organization)

    assert "Seller GPU Cloud" in text(paper(client, invoice))


def test_dollars_have_no_chinese_capitals(client):
    organization = factories.organization(currency="USD")
    invoice = actions.draft_order_invoice(order=builders.order(organization, rate="180"), at=builders.NOVEMBER)
    signed_in(client, organization)

    shown = text(paper(client, invoice))

    assert "US$180.00" in shown
    assert "人民币" not in shown


def test_it_is_whole_however_many_lines_there_are(client):
    """The page on the screen is paged by 200 lines; the paper is not."""
    organization = factories.organization()
    offer = factories.offer()
    for _machine in range(201):
        builders.used(
            builders.rental(organization, offer=offer), builders.NOVEMBER, builders.NOVEMBER + timedelta(hours=1)
        )
    (invoice,) = actions.draft_usage_invoices(at=builders.DECEMBER).invoices
    signed_in(client, organization)

    body = paper(client, invoice).content.decode()

    assert body.count('class="paper__product"') == 201
    assert "¥502.50" in body


def test_somebody_elses_is_not_found(client):
    invoice = actions.draft_order_invoice(order=builders.order(), at=builders.NOVEMBER)
    signed_in(client, factories.organization())

    assert paper(client, invoice).status_code == 404
