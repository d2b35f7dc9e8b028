"""The desk in a real browser: nothing on it breaks the admin's own content security policy, nothing overflows."""

from contextlib import contextmanager

import pytest
from django.urls import reverse

from billing.models import Invoice
from catalog.models import Host, Price
from orders.models import Quote
from rentals.models import Rental
from tests import factories
from tests.desk import world

pytestmark = pytest.mark.django_db(transaction=True)

WIDTHS = (1440, 390)


@contextmanager
def _page():
    """Entered after the rows are made: Playwright's event loop keeps Django's database calls out of this thread."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield chromium.new_page(viewport={"width": WIDTHS[0], "height": 900})
        chromium.close()


def _addresses():
    lists = [
        reverse(f"admin:{name}_changelist")
        for name in ("rentals_rental", "orders_quote", "billing_invoice", "catalog_price", "admin_logentry")
    ]
    pages = [
        reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
        for row in (Rental.objects.first(), Quote.objects.first(), Invoice.objects.first(), Host.objects.first())
    ]
    forms = [
        reverse("admin:orders_quote_add"),
        *(reverse(f"admin:trust_{name}_add") for name in ("incident", "maintenance", "block")),
        reverse("admin:catalog_price_change", args=[Price.objects.first().pk]),
        reverse("admin:billing_invoice_press", args=[Invoice.objects.first().pk, "record_payment"]),
    ]
    return [reverse("admin:index"), *lists, *pages, *forms]


def test_no_page_of_the_desk_breaks_the_security_policy_or_its_frame(live_server):
    world.everything()
    factories.user("boss@staff.example", is_staff=True, is_superuser=True)
    addresses = _addresses()
    problems: list[str] = []

    with _page() as page:
        page.on("console", lambda said: problems.append(said.text) if said.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{live_server.url}/admin/")
        page.fill("input[name=login]", "boss@staff.example")
        page.fill("input[name=password]", factories.PASSWORD)
        page.locator("main form button[type=submit]").last.click()
        page.wait_for_url("**/admin/")
        for address in addresses:
            answer = page.goto(live_server.url + address)
            assert answer.status == 200, address
            assert "'unsafe-inline'" not in _script_policy(answer.headers["content-security-policy"])
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0, (address, width)

    assert problems == []


def _script_policy(policy: str) -> str:
    [line] = [part for part in policy.split(";") if part.strip().startswith("script-src")]
    return line
