"""Production's static files: a style sheet and a script in one piece each, under hashed names, small."""

import re
from pathlib import Path

import brotli
import pytest
from django.conf import settings
from django.core.files.storage import FileSystemStorage
from django.template.loader import get_template
from playwright.sync_api import sync_playwright

from marketplace.lib import staticfiles
from marketplace.lib.staticfiles import SiteStorage
from tests.browser.support import ARGUMENTS, CHROMIUM

STATIC = Path(settings.BASE_DIR, "static")
SHEETS = sorted(path.name for path in (STATIC / "css").glob("*.css") if "@import" in path.read_text())
# What three responses that arrive together have room for in a connection's first packets, less their headers.
FIRST_PACKETS = 7 * 1460 - 500
RULES = """
(text) => {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(text)
  // What custom properties and lists in them are set to is kept as it was written.
  return [...sheet.cssRules].map((rule) => rule.cssText.replace(/\\s+/g, " ").replace(/, /g, ","))
}
"""


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """The site's own files as collectstatic leaves them; the storage knows their hashed names."""
    source, target = FileSystemStorage(STATIC), SiteStorage(location=tmp_path_factory.mktemp("static"), base_url="/s/")
    names = [str(path.relative_to(STATIC)) for path in STATIC.rglob("*") if path.is_file()]
    for name in names:
        with source.open(name) as file:
            target.save(name, file)
    failures = [r for r in target.post_process({name: (source, name) for name in names}) if isinstance(r[2], Exception)]
    assert failures == []
    return target


def stored(collected, name: str) -> str:
    return Path(collected.path(collected.stored_name(name))).read_text()


def whole(name: str) -> str:
    """The sheet with its imports, as it was written."""
    text = (STATIC / "css" / name).read_text()
    return re.sub(r'@import url\("([^"]+)"\);\n', lambda found: whole(found[1]), text)


def parts(name: str) -> list[str]:
    """The sheets of parts that a sheet imports, those of its imports among them."""
    found = re.findall(r'@import url\("([^"]+)"\)', (STATIC / "css" / name).read_text())
    return [part for one in found for part in (parts(one) or [one])]


def test_every_part_is_in_a_sheet_and_in_none_twice():
    everywhere = {str(path.relative_to(STATIC / "css")) for path in (STATIC / "css").rglob("*.css")} - set(SHEETS)
    assert set().union(*map(parts, SHEETS)) == everywhere
    assert all(len(parts(name)) == len(set(parts(name))) for name in SHEETS)


def test_a_sheet_is_served_in_one_piece_and_says_what_its_parts_say(collected):
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = chromium.new_page()
        for name in SHEETS:
            text = stored(collected, f"css/{name}")
            assert "@import" not in text
            assert "/*" not in text
            assert page.evaluate(RULES, text) == page.evaluate(RULES, whole(name))
        chromium.close()


def test_the_sheet_of_the_public_pages_fits_into_the_first_packets(collected):
    assert len(brotli.compress(stored(collected, "css/site.css").encode())) < FIRST_PACKETS


def test_the_script_is_served_in_one_piece_with_each_part_in_its_own_scope(collected):
    text = stored(collected, "js/main.js")
    modules = list((STATIC / "js/behaviours").glob("*.js"))
    assert not re.search(r"^import", text, re.MULTILINE)
    assert len(modules) == text.count("\n{\n")
    assert all(f"{{\n{module.read_text()}}}\n" in text for module in modules)


@pytest.mark.parametrize("folder", ["css", "img", "vendor/htmx", "vendor/chartjs"])
def test_names_are_hashed(collected, folder):
    names = [str(path.relative_to(STATIC)) for path in (STATIC / folder).iterdir() if path.is_file()]
    assert names
    for name in names:
        assert re.search(r"\.[0-9a-f]{12}(\.[a-z]+)?$", collected.stored_name(name))


def test_every_page_links_one_sheet():
    html = get_template("base.html").template.source + get_template("document.html").template.source
    assert html.count('rel="stylesheet"') == 2


def test_a_part_whose_addresses_would_break_is_refused(tmp_path):
    (tmp_path / "site.css").write_text('@import url("parts/a.css");\n')
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/a.css").write_text("a { background: url(b.png) }\n")
    with pytest.raises(ValueError, match=r"parts/a\.css: an address in it would point elsewhere from site\.css"):
        staticfiles.sheet(FileSystemStorage(tmp_path), "site.css")


@pytest.mark.parametrize("line", ['import { a } from "./b.js"', "export const a = 1"])
def test_a_part_of_the_script_that_imports_or_exports_is_refused(tmp_path, line):
    (tmp_path / "main.js").write_text('import "./a.js";\n')
    (tmp_path / "a.js").write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"a\.js: a part of main\.js neither imports nor exports"):
        staticfiles.script(FileSystemStorage(tmp_path), "main.js")
