"""Charts in a real browser under the site's own policy: drawn from their table, which stands behind them."""

import mimetypes
import re
import shutil
from pathlib import Path

import pytest
from csp.utils import build_policy
from django.conf import settings
from django.template import Context, Template
from django.utils import translation
from playwright.sync_api import sync_playwright

from tests.support.waiting import wait_for

STATIC = Path(settings.BASE_DIR, "static")
SITE = "http://charts.test"  # no secure context, so that no service worker is looked for
BODY = """{% chart "Price of an hour" kind="line" x="date" stepped=True until_now=True unit="¥" %}
<thead><tr><th scope="col">From</th><th scope="col">Hourly</th><th scope="col">Monthly</th></tr></thead><tbody>
<tr data-x="2026-08-01T00:00:00Z"><th scope="row">1 Aug</th><td data-value="24">¥24.00</td><td>—</td></tr>
<tr data-x="2026-09-01T00:00:00Z"><th scope="row">1 Sep</th><td data-value="22">¥22.00</td><td>1,200.50</td></tr>
</tbody>{% endchart %}"""


@pytest.fixture(scope="module")
def chromium():
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield browser
        browser.close()


@pytest.fixture
def show(chromium):
    """Opens a page with the given body and browser options; `asked` are its requests, `complaints` its errors."""
    contexts = []

    def show(body: str, missing: str = "\n", **options):
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.asked, page.complaints = [], []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        with translation.override("en"):
            content = Template(body).render(Context())
        html = (
            '<!doctype html><html lang="en"><head><link rel="icon" href="data:,">'
            '<link rel="stylesheet" href="/static/css/site.css">'
            f'<script type="module" src="/static/js/main.js"></script></head><body><main>{content}</main></body></html>'
        )

        def answer(route):
            path = route.request.url.removeprefix(SITE)
            page.asked.append(path)
            if path == "/":
                headers = {"Content-Security-Policy": build_policy()}
                route.fulfill(body=html, content_type="text/html; charset=utf-8", headers=headers)
            elif missing in path:
                route.fulfill(status=404)
            else:
                kind = mimetypes.guess_type(path)[0]
                route.fulfill(body=(STATIC / path.removeprefix("/static/")).read_bytes(), content_type=kind)

        page.route("**/*", answer)
        page.goto(SITE + "/")
        return page

    yield show
    for context in contexts:
        context.close()


def drawn(page) -> None:
    page.wait_for_selector(".chart[data-state=drawn]", timeout=5000)


def test_a_chart_is_drawn_from_its_table_and_breaks_no_rule_of_the_policy(show):
    page = show(BODY)
    drawn(page)
    data, steps, dates, now = page.evaluate(
        "() => { const c = Chart.getChart(document.querySelector('canvas'));"
        " return [c.data.datasets.map(d => [d.label, d.data.slice(0, 2).map(p => [p.x, p.y]), d.said]),"
        " c.data.datasets.map(d => d.stepped), c.scales.x.ticks.map(t => t.label), c.data.datasets[0].data[2]] }"
    )
    first, second = 1785542400000, 1788220800000
    assert data == [
        ["Hourly", [[first, 24], [second, 22]], ["¥24.00", "¥22.00", "¥22.00"]],
        ["Monthly", [[first, None], [second, 1200.5]], ["—", "1,200.50", "1,200.50"]],
    ]
    assert steps == ["before", "before"]
    # What the last row says holds to this day, as the page's zone has it.
    assert (dates[0], now["y"]) == ("1 Aug", 22)
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", dates[-1])
    assert page.complaints == []
    assert not page.get_by_role("table").is_visible()
    page.get_by_text("Show the figures").click()
    assert page.get_by_role("table").is_visible()
    assert page.get_by_role("img", name="Price of an hour").is_visible()


def test_the_library_comes_only_with_a_chart(show):
    page = show("<p>No chart here.</p>")
    page.wait_for_selector("html[data-js=on]")
    assert not [path for path in page.asked if "chartjs" in path]
    assert page.complaints == []


def test_a_chart_takes_its_colours_anew_when_the_theme_changes(show):
    page = show(BODY, color_scheme="light")
    drawn(page)
    colour = "Chart.getChart(document.querySelector('canvas')).data.datasets[0].borderColor"
    assert page.evaluate(colour) == "#0b5e70"
    page.emulate_media(color_scheme="dark")
    wait_for(lambda: page.evaluate(colour) == "#62c7da", seconds=5)


@pytest.mark.parametrize(("wish", "moves"), [("reduce", False), ("no-preference", {"duration": 200})])
def test_a_chart_moves_only_for_those_who_do_not_mind(show, wish, moves):
    page = show(BODY, reduced_motion=wish)
    drawn(page)
    assert page.evaluate("Chart.getChart(document.querySelector('canvas')).config.options.animation") == moves


def test_without_scripts_the_table_stands_open_and_no_empty_plot(show):
    page = show(BODY, java_script_enabled=False)
    assert page.get_by_role("table").is_visible()
    assert not page.locator("canvas").is_visible()


def test_a_chart_whose_library_does_not_come_opens_its_table(show):
    page = show(BODY, missing="chartjs")
    page.wait_for_selector(".chart[data-state=failed]")
    assert page.get_by_role("table").is_visible()
    assert not page.locator("canvas").is_visible()
