"""What the browser tests share: a context in one language, theme and width, and a watch over what pages do."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-dev-shm-usage", "--no-first-run", "--font-render-hinting=none",
]  # fmt: skip
HEIGHTS = {390: 844, 1440: 900}
PATIENCE_MS = 60_000


@dataclass(frozen=True)
class Look:
    """How a visitor sees the site."""

    language: str = "zh-hans"
    theme: str = "light"
    width: int = 1440

    def __str__(self) -> str:
        return f"{self.width}-{self.language[:2]}-{self.theme}"


def open_context(chromium: Browser, site: str, look: Look, *, javascript: bool = True) -> BrowserContext:
    context = chromium.new_context(
        base_url=site,
        viewport={"width": look.width, "height": HEIGHTS[look.width]},
        color_scheme=look.theme,
        locale="zh-CN" if look.language == "zh-hans" else "en-GB",
        java_script_enabled=javascript,
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_MS)
    context.add_cookies([{"name": "django_language", "value": look.language, "url": site}])
    return context


@dataclass
class Watch:
    """Collects what a page of ours never does: complain in the console, break its policy, fail, ask a strange host."""

    hosts: set[str]
    problems: list[str] = field(default_factory=list)

    def follow(self, page: Page) -> Page:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"script error: {error}"))
        page.on("request", self._request)
        page.on("requestfailed", self._failed)
        page.on("response", self._response)
        return page

    def _console(self, said: ConsoleMessage) -> None:
        # A violated security policy is reported here as an error.
        if said.type in {"error", "warning"}:
            self.problems.append(f"console: {said.text} ({said.location.get('url')})")

    def _request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in {"http", "https", "ws", "wss"} and address.netloc not in self.hosts:
            self.problems.append(f"request to a strange host: {request.url}")

    def _failed(self, request: Request) -> None:
        # Leaving a page ends its refresh, and a download ends its navigation: neither is a failure.
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"failed: {request.method} {request.url}: {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.append(f"answered {response.status}: {response.request.method} {response.url}")


def watch(*sites: str) -> Watch:
    return Watch({urlsplit(site).netloc for site in sites})
