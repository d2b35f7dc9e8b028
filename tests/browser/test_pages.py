"""Every page in both languages, themes and widths: axe finds nothing, nothing overflows, all can be hit and reached.

The normal suite looks at each page on a phone in Chinese and at some on a desk in English and dark; `make test-full`
looks at all of them in every way and keeps the pictures in .local/screenshots.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings

from tests.browser import world
from tests.browser.support import Look, open_context, watch

PICTURES = Path(__file__).resolve().parents[2] / ".local" / "screenshots"
# A finger's size where fingers are used, WCAG 2.2's least size everywhere.
TOUCH, LEAST = 44, 24
# Without fetching the style sheets a second time, which the content security policy refuses.
AXE = {"resultTypes": ["violations"], "preload": False}


@dataclass(frozen=True)
class Shown:
    """A page: where it is, who looks at it, and what the keyboard must reach there."""

    address: str
    visitor: str = ""
    main_action: str = ""
    status: int = 200


# Three lines: a term, hours, and one that is sold on quote.
BASKET = f"item={world.OFFER}:month:3:2&item={world.OFFER}:hour:720:1&item=ascend-920-8x-fuzhou:month:6:1"

# An address without a slash names one of the busy customer's own pages.
PAGES = {
    "home": Shown("/", main_action="main a.button--primary"),
    "catalogue": Shown("/gpus/", main_action="tbody a"),
    "catalogue-filtered": Shown("/gpus/?q=4090&term=month"),
    "catalogue-empty": Shown("/gpus/?q=nothing-like-this"),
    "catalogue-table": Shown("/gpus/?view=table&term=month", main_action="tbody a"),
    "catalogue-sold-out": Shown("/gpus/?region=cn-shanghai&sort=tflops&price_max=abc"),
    "compare": Shown(
        "/gpus/compare/?offer=h100-sxm5-80gb-8x-fuzhou&offer=ascend-910b3-64gb-8x-fuzhou&offer=gone",
        main_action="main a.button--primary",
    ),
    "compare-nothing": Shown("/gpus/compare/"),
    "offer": Shown(f"/gpus/{world.OFFER}/", main_action="main a.button--primary"),
    "offer-ascend": Shown("/gpus/ascend-910b3-64gb-8x-fuzhou/"),
    "offer-sold-out": Shown("/gpus/h100-sxm5-80gb-8x-beijing/", main_action="#waitlist a"),
    "offer-sold-out-member": Shown("/gpus/h100-sxm5-80gb-8x-beijing/", "busy", "#waitlist button"),
    "waitlist": Shown("/gpus/h100-sxm5-80gb-8x-beijing/waitlist/", "busy", "main button.button--primary"),
    "status": Shown("/status/", main_action="main summary"),
    "about": Shown("/about/"),
    "sla": Shown("/sla/"),
    "security": Shown("/security/"),
    "login": Shown("/accounts/login/", main_action="main button.button--primary"),
    "signup": Shown("/accounts/signup/", main_action="main button.button--primary"),
    "password-reset": Shown("/accounts/password/reset/"),
    "not-found": Shown("/design/404/", status=404),
    "design": Shown("/design/"),
    "calculator": Shown(f"/calculator/?{BASKET}&item=nonsense", main_action=".calculator__actions a.button--primary"),
    "calculator-empty": Shown("/calculator/", main_action="#add button"),
    "quote-request": Shown(f"/quotes/request/?{BASKET}", main_action="main button.button--primary"),
    "quote-request-member": Shown("/quotes/request/", "busy", "main button.button--primary"),
    "basket": Shown(f"/order/basket/?{BASKET}", "busy", "main button.button--primary"),
    "basket-empty": Shown("/order/basket/", "busy"),
    "order-form": Shown(f"/order/{world.OFFER}/", "busy", "button[name=place]"),
    "order-form-new": Shown(f"/order/{world.OFFER}/", "new"),
    "order-unpaid": Shown("unpaid order", "busy", "#pay"),
    "order-running": Shown("running order", "busy"),
    "orders": Shown("/console/orders/", "busy"),
    "orders-new": Shown("/console/orders/", "new"),
    "overview": Shown("/console/", "busy", ".attention__text"),
    "overview-new": Shown("/console/", "new", "main a.button--primary"),
    "activity": Shown("/console/activity/", "busy", ".feed a"),
    "activity-new": Shown("/console/activity/", "new"),
    "rentals": Shown("/console/rentals/", "busy", "tbody a"),
    "rentals-none": Shown("/console/rentals/?q=nothing", "busy"),
    "rentals-new": Shown("/console/rentals/", "new"),
    "rental": Shown("rental", "busy", "#stop"),
    "rental-month": Shown("month rental", "busy"),
    "stop": Shown("rental stop", "busy", "main button.button--primary"),
    "terminate": Shown("rental terminate", "busy"),
    "invoices": Shown("/console/invoices/", "busy"),
    "invoices-new": Shown("/console/invoices/", "new"),
    "invoice": Shown("invoice", "busy"),
    "invoice-unpaid": Shown("unpaid invoice", "busy", "main form button.button--primary"),
    "billing": Shown("/console/billing/", "busy"),
    "billing-new": Shown("/console/billing/", "new"),
    "keys": Shown("/console/keys/", "busy", "main form button.button--primary"),
    "keys-new": Shown("/console/keys/", "new"),
    "organization": Shown("/console/organization/", "busy"),
    "email": Shown("/accounts/email/", "busy"),
    "quote": Shown("quote", "busy", "main form button.button--primary"),
    "quote-visitor": Shown("quote"),
    "quote-paper": Shown("quote ?print=1"),
    "quote-requested": Shown("quote request", "busy"),
    "quotes": Shown("/console/quotes/", "busy", "tbody a"),
    "quotes-new": Shown("/console/quotes/", "new", "main a.button--primary"),
    "invoice-paper": Shown("invoice ?print=1", "busy"),
}
LOOKS = [Look(*one) for one in itertools.product(("zh-hans", "en"), ("light", "dark"), (390, 1440))]
PHONE, DESK = Look(width=390), Look("en", "dark", 1440)
ON_DESK = ("home", "catalogue", "offer", "order-form", "rental", "invoice", "quote")
QUICK = [(PHONE, name) for name in PAGES] + [(DESK, name) for name in ON_DESK]

MEASURE = """
([touch, least]) => {
  const small = []
  const wanted = 'a[href], button, input:not([type=hidden]), select, textarea, summary'
  for (const element of document.querySelectorAll(wanted)) {
    const target = element.matches('[type=checkbox], [type=radio]') ? element.closest('label') ?? element : element
    const style = getComputedStyle(target), box = target.getBoundingClientRect()
    if (!target.checkVisibility({ visibilityProperty: true }) || box.width < 2 || box.bottom < 0) continue
    // A link within a sentence is as high as its line.
    if (style.display === 'inline') continue
    const button = element.matches('button:not(.link-button), select, input, .button') && innerWidth < 600
    const high = button ? touch : least
    if (box.height < high - 0.5 || box.width < least - 0.5)
      small.push(`${target.outerHTML.slice(0, 90)} is ${Math.round(box.width)} × ${Math.round(box.height)}`)
  }
  return small
}
"""
WIDER = """
() => {
  const frame = document.documentElement
  if (frame.scrollWidth <= innerWidth) return []
  return [...document.querySelectorAll('body *')]
    .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
    .map((element) => element.outerHTML.slice(0, 90)).slice(0, 5).concat(`${frame.scrollWidth} px wide`)
}
"""


CSS = Path(settings.BASE_DIR, "static", "css")
PARTS = {f"pages/{path.name}": path.read_text() for path in (CSS / "pages").iterdir()}
# Rules of parts that the page's sheet does not have, although they would apply: the page links the wrong sheet.
UNSTYLED = """
(parts) => {
  const loaded = new Set()
  const follow = (sheet) => {
    for (const rule of sheet.cssRules) if (rule.styleSheet) loaded.add(rule.href) && follow(rule.styleSheet)
  }
  for (const sheet of document.styleSheets) follow(sheet)
  const applies = ({ selectorText, cssRules = [] }) => {
    if (selectorText) return document.querySelector(selectorText) ? [selectorText] : []
    return [...cssRules].flatMap(applies)
  }
  return Object.entries(parts).filter(([name]) => !loaded.has(name)).flatMap(([name, text]) => {
    const sheet = new CSSStyleSheet()
    sheet.replaceSync(text)
    return [...sheet.cssRules].flatMap(applies).map((selector) => `${name}: ${selector}`)
  })
}
"""


@pytest.fixture(scope="module")
def windows(chromium, stack, customers):
    """Opens a page as its visitor sees it. One context for each look and visitor, as one person has one browser."""
    contexts = {}

    def show(name: str, look: Look):
        shown = PAGES[name]
        if (look, shown.visitor) not in contexts:
            contexts[look, shown.visitor] = open_context(chromium, stack.url, look)
            if shown.visitor:
                getattr(customers, shown.visitor).enter(contexts[look, shown.visitor], stack.url)
        seen = watch(stack.url)
        page = seen.follow(contexts[look, shown.visitor].new_page())
        answer = page.goto(_address(customers, shown.address))
        assert answer.status == shown.status
        if shown.status == 200:
            assert seen.problems == []
        return page

    yield show
    for context in contexts.values():
        context.close()


def _address(customers, address: str) -> str:
    if address.startswith("/"):
        return address
    if address.startswith("rental "):
        return f"{customers.pages['rental']}{address.removeprefix('rental ')}/"
    if address.endswith(" ?print=1"):
        return f"{customers.pages[address.removesuffix(' ?print=1')]}?print=1"
    return customers.pages[address]


def faults(page) -> list[str]:
    """What is wrong with the page as it stands."""
    found = [f"wider than its window: {one}" for one in page.evaluate(WIDER)]
    found += [f"not in its style sheet: {one}" for one in page.evaluate(UNSTYLED, PARTS)]
    found += [f"too small to hit: {one}" for one in page.evaluate(MEASURE, [TOUCH, LEAST])]
    for violation in Axe().run(page, options=AXE).response["violations"]:
        rule, nodes = violation["id"], violation["nodes"]
        found += [f"axe {rule}: {node['html'][:160]} {node['failureSummary']}" for node in nodes]
    return found


@pytest.mark.parametrize(("look", "name"), QUICK, ids=str)
def test_a_page_can_be_read_and_hit(windows, look, name):
    page = windows(name, look)

    assert page.locator("html").get_attribute("lang") == {"zh-hans": "zh-Hans"}.get(look.language, look.language)
    assert faults(page) == []
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_every_page_in_every_way(windows, look):
    wrong = {}
    for name in PAGES:
        page = windows(name, look)
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / f"{name}-{look}.png", full_page=True)
        if found := faults(page):
            wrong[name] = found
        page.close()
    assert wrong == {}


FOCUSED = """
() => {
  const element = document.activeElement
  const style = getComputedStyle(element), box = element.getBoundingClientRect()
  return {
    outline: style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth),
    seen: box.width > 1 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    html: element.outerHTML.slice(0, 120),
    end: element === document.body,
  }
}
"""


@pytest.mark.parametrize("name", [name for name, shown in PAGES.items() if shown.main_action])
def test_tab_reaches_the_main_action_and_shows_where_it_is(windows, name):
    page = windows(name, Look())
    wanted = page.locator(PAGES[name].main_action).first

    for _ in range(80):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        assert not focused["end"], "the keyboard left the page without reaching it"
        assert focused["outline"] >= 2, focused["html"]
        assert focused["seen"], focused["html"]
        if wanted.evaluate("element => element === document.activeElement"):
            break
    else:
        pytest.fail("80 presses of Tab do not reach it")
    page.close()


def test_without_scripts_a_customer_browses_orders_and_pays(chromium, stack, customers):
    context = open_context(chromium, stack.url, Look(width=390), javascript=False)
    customers.busy.enter(context, stack.url)
    page = watch(stack.url, stack.env["STRIPE_API_BASE"]).follow(context.new_page())

    page.goto("/gpus/")
    page.locator("input[name=q]").fill("4090")
    page.locator(".filters button.button--primary").click()
    page.locator(f"tbody a[href^='/gpus/{world.OFFER}/']").first.click()
    page.locator(f"a[href^='/order/{world.OFFER}/']").click()
    page.locator("input[name=term][value=month]").check()
    page.locator("button[name=update]").click()
    page.locator("button[name=place]").click()
    page.wait_for_url("**/console/orders/*/")
    # The page without scripts looks again by itself until the invoice stands.
    page.locator("#pay").click()
    page.wait_for_url(f"{stack.env['STRIPE_API_BASE']}/**")
    page.get_by_role("button", name="支付 ¥1,010.00").click()

    page.locator(".state.paid").wait_for()
    assert page.locator(".state.paid").inner_text() == "已支付"
    context.close()
