"""Chromium, and the customers whose pages are looked at."""

import json
import re
from dataclasses import dataclass

import pytest

from tests.browser import world
from tests.browser.support import ARGUMENTS, CHROMIUM


@pytest.fixture(scope="module")
def chromium():
    """One browser a module: Playwright's event loop in this thread would keep Django's database from later tests."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


@dataclass
class Customer:
    """A signed-in customer: what to put into a browser's cookie jar."""

    session: str

    def enter(self, context, site: str) -> None:
        context.add_cookies([{"name": "sessionid", "value": self.session, "url": site, "httpOnly": True}])


@dataclass
class World:
    busy: Customer
    new: Customer
    pages: dict[str, str]


@pytest.fixture(scope="session")
def customers(stack) -> World:
    return settle(stack)


def settle(stack) -> World:
    """The busy customer rents by the hour, has paid a month, owes another, holds a quote; the new one has nothing."""
    # Only importable once the test session has set DEBUG.
    from marketplace.local.browser import Browser  # noqa: PLC0415
    from tests.journeys.support import wait_for  # noqa: PLC0415

    told = stack.manage("shell", "--no-imports", "-c", "from tests.browser import world; world.make()")
    pages = json.loads(told)

    def log_in(email: str) -> Browser:
        one = Browser(stack.url)
        one.open("/accounts/login/")
        one.submit("login", login=email, password=world.PASSWORD)
        return one

    busy, new = log_in(world.BUSY), log_in(world.NEW)
    pages["running order"] = _order(busy, term="hour")
    pages["paid order"] = _order(busy, term="month")
    wait_for(lambda: "/pay/" in busy.open(pages["paid order"]).text)
    busy.submit(action="/pay/")
    busy.submit(action="pay")
    pages["unpaid order"] = _order(busy, term="month")
    pages["invoice"] = wait_for(lambda: _link(busy.open(pages["paid order"]).text, "invoices"))
    pages["unpaid invoice"] = wait_for(lambda: _link(busy.open(pages["unpaid order"]).text, "invoices"))
    for order, rental in (("running order", "rental"), ("paid order", "month rental")):
        page = wait_for(lambda order=order: _link(busy.open(pages[order]).text, "rentals"))
        wait_for(lambda page=page: "ssh -p" in busy.open(page).text, seconds=120)
        pages[rental] = page
    made = World(_customer(busy), _customer(new), pages)
    busy.close()
    new.close()
    return made


def _order(buyer, *, term: str) -> str:
    buyer.open(f"/order/{world.OFFER}/")
    key = buyer.form("request_key").choices["ssh_keys"][0]
    for _ in range(2):
        # The first answer shows the price of the chosen term; the second press accepts it.
        page = buyer.submit("request_key", term=term, ssh_keys=key)
        if "/console/orders/" in page.url.path:
            return page.url.path.removeprefix("/en")  # the address that shows each visitor their own language
    raise AssertionError(page.text)


def _link(text: str, section: str) -> str:
    found = re.search(rf"/console/{section}/[0-9a-f-]{{36}}/", text)
    return found[0] if found else ""


def _customer(browser) -> Customer:
    return Customer(browser._client.cookies["sessionid"])
