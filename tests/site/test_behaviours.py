"""The small scripts, in a real browser under the site's own policy; pages and files come without a server."""

import mimetypes
import shutil
from pathlib import Path

import pytest
from csp.utils import build_policy
from django.conf import settings
from django.template import Context, Template
from django.utils import translation
from playwright.sync_api import sync_playwright

STATIC = Path(settings.BASE_DIR, "static")
SITE = "http://localhost"  # a secure context, which the clipboard asks for
HEAD = (
    '<!doctype html><html lang="en"><head><link rel="stylesheet" href="/static/css/site.css">'
    '<script type="module" src="/static/js/main.js"></script></head><body>'
)


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
    """Opens a page with the given body; `posts` collects what its forms send, which is never answered."""
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    # A service worker's script is fetched past the routes below, and nothing listens there.
    page.add_init_script("delete Navigator.prototype.serviceWorker")
    page.complaints, page.posts = [], []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))

    def show(body: str, **values):
        with translation.override("en"):
            html = HEAD + Template(body).render(Context(values))

        def answer(route):
            path = route.request.url.removeprefix(SITE)
            if route.request.method == "POST":
                page.posts.append(route.request.post_data)
                route.fulfill(status=204)
            elif path.startswith("/static/"):
                kind = mimetypes.guess_type(path)[0]
                route.fulfill(body=(STATIC / path.removeprefix("/static/")).read_bytes(), content_type=kind)
            elif path == "/":
                headers = {"Content-Security-Policy": build_policy()}
                route.fulfill(body=html, content_type="text/html; charset=utf-8", headers=headers)
            else:
                route.fulfill(status=204)

        page.route("**/*", answer)
        page.goto(f"{SITE}/")
        page.wait_for_selector("html[data-js=on]")
        return page

    yield show
    assert page.complaints == []
    context.close()


def test_a_double_click_sends_a_form_once_with_its_buttons_value(show):
    page = show('<form method="post" action="/order/">{% button "Place" name="step" value="place" %}</form>')
    page.dblclick("button")
    page.wait_for_selector("button:disabled")
    assert page.posts == ["step=place"]
    assert page.get_attribute("form", "aria-busy") == "true"


def test_a_form_marked_repeatable_may_go_out_again(show):
    page = show('<form method="post" action="/export/" data-repeatable>{% button "Export" name="a" value="1" %}</form>')
    for count in (1, 2):
        with page.expect_request("**/export/"):
            page.click("button")
        assert len(page.posts) == count


@pytest.mark.parametrize(("choice", "sent"), [("accept", ["a=1"]), ("dismiss", [])])
def test_a_grave_button_asks_first(show, choice, sent):
    page = show('<form method="post" action="/end/">{% button "End" name="a" value="1" confirm="Delete?" %}</form>')
    questions = []

    def decide(dialog):
        questions.append(dialog.message)
        getattr(dialog, choice)()

    page.on("dialog", decide)
    page.click("button")
    page.evaluate("new Promise(done => setTimeout(done, 50))")
    assert questions == ["Delete?"]
    assert page.posts == sent
    assert page.is_disabled("button") is bool(sent)


def test_a_copy_button_copies_and_says_so(show):
    page = show('{% copyable "ssh -p 2201 root@127.0.0.1" %}')
    page.click("text=Copy")
    page.wait_for_selector("button[data-state=copied]")
    assert page.inner_text("button") == "Copied"
    assert page.evaluate("navigator.clipboard.readText()") == "ssh -p 2201 root@127.0.0.1"


def test_a_copy_button_that_may_not_copy_marks_the_text(show):
    page = show('{% copyable "ssh -p 2201 root@127.0.0.1" %}')
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')) }")
    page.click("text=Copy")
    page.wait_for_selector("button[data-state=failed]")
    assert page.evaluate("getSelection().toString()") == "ssh -p 2201 root@127.0.0.1"


def test_a_menu_closes_on_escape_and_gives_the_focus_back(show):
    page = show('<details class="menu"><summary>Menu</summary><a href="/">Home</a></details><p>Elsewhere</p>')
    page.set_viewport_size({"width": 390, "height": 800})
    page.click("summary")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert page.evaluate("[document.querySelector('details').open, document.activeElement.tagName]") == [
        False,
        "SUMMARY",
    ]
    page.click("summary")
    page.click("text=Elsewhere")
    assert page.evaluate("document.querySelector('details').open") is False
