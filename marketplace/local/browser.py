"""A browser without scripts: follows links and submits the forms that a page really shows.

`make loop`, benchmarks and race tests buy through it, so a form that lost a field fails them as it would a customer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin

import httpx


class NoSuchForm(LookupError):
    """The page has no form that fits."""


@dataclass
class Form:
    """One form of a page: its address, method and the values it would send untouched."""

    action: str
    method: str
    values: list[tuple[str, str]] = field(default_factory=list)
    choices: dict[str, list[str]] = field(default_factory=dict)

    def filled(self, **values: str) -> dict[str, list[str] | str]:
        """The untouched values with these in their place. Raises NoSuchForm for a field the form does not have."""
        known = {name for name, _ in self.values} | set(self.choices)
        if unknown := set(values) - known:
            raise NoSuchForm(
                f"{self.action} has no field {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}"
            )
        sent: dict[str, list[str] | str] = {}
        for name, value in self.values:
            sent.setdefault(name, []).append(value)  # type: ignore[union-attr]
        return sent | values


class _Forms(HTMLParser):
    """Collects the forms of a page as a browser would: checked boxes, selected options, hidden fields."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._form: Form | None = None
        self._select = ""
        self._selected: str | None = None
        self._textarea = ""
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        at = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = Form(at.get("action", ""), at.get("method", "get").lower())
            self.forms.append(self._form)
        elif self._form is None:
            return
        elif tag == "input" and at.get("name"):
            self._input(self._form, at)
        elif tag == "select":
            self._select, self._selected = at.get("name", ""), None
            self._form.choices[self._select] = []
        elif tag == "option" and self._select:
            value = at.get("value", "")
            self._form.choices[self._select].append(value)
            if "selected" in at or self._selected is None:
                self._selected = value
        elif tag == "textarea":
            self._textarea, self._text = at.get("name", ""), ""

    def handle_data(self, data: str) -> None:
        if self._textarea:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif self._form is None:
            return
        elif tag == "select" and self._select:
            if self._selected is not None:
                self._form.values.append((self._select, self._selected))
            self._select = ""
        elif tag == "textarea" and self._textarea:
            self._form.values.append((self._textarea, self._text.removeprefix("\n")))
            self._textarea = ""

    @staticmethod
    def _input(form: Form, at: dict[str, str]) -> None:
        kind, name, value = at.get("type", "text"), at["name"], at.get("value", "")
        if kind in {"radio", "checkbox"}:
            form.choices.setdefault(name, []).append(value or "on")
            if "checked" in at:
                form.values.append((name, value or "on"))
        elif kind not in {"submit", "button", "reset", "image", "file"}:
            form.values.append((name, value))


class Browser:
    """One visitor: cookies, redirects followed, forms submitted with their own tokens."""

    def __init__(self, site: str, *, language: str = "en") -> None:
        self.site = site
        self._client = httpx.Client(base_url=site, follow_redirects=True, timeout=60, trust_env=False)
        self._client.cookies.set("django_language", language, domain=httpx.URL(site).host)
        self.page: httpx.Response

    def open(self, address: str) -> httpx.Response:
        """The page at the address. Raises httpx.HTTPStatusError when it answers 4xx or 5xx."""
        self.page = self._client.get(address).raise_for_status()
        return self.page

    def form(self, containing: str = "", *, action: str = "") -> Form:
        """The page's first form that has a field named `containing` and an address with `action` in it."""
        parser = _Forms()
        parser.feed(self.page.text)
        for form in parser.forms:
            names = {name for name, _ in form.values} | set(form.choices)
            if (not containing or containing in names) and action in (form.action or str(self.page.url)):
                return form
        raise NoSuchForm(f"{self.page.url} has no form with {containing or action}")

    def submit(self, containing: str = "", *, action: str = "", refused: bool = False, **values: str) -> httpx.Response:
        """Fill and send a form of the page; `refused` allows an answer of 4xx."""
        form = self.form(containing, action=action)
        address = urljoin(str(self.page.url), form.action or str(self.page.url))
        sent = form.filled(**values)
        if form.method == "post":
            self.page = self.post(address, sent)
        else:
            self.page = self._client.get(address, params=sent)
        if not (refused and self.page.is_client_error):
            self.page.raise_for_status()
        return self.page

    def post(self, address: str, values: dict[str, list[str] | str]) -> httpx.Response:
        """The answer to a form sent from the open page, which stays open. Any status."""
        return self._client.post(address, data=values, headers={"Referer": str(self.page.url)})

    def close(self) -> None:
        self._client.close()
