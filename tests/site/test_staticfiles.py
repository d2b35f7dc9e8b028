"""Production's static files: one style sheet, modules under hashed names."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.core.files.storage import FileSystemStorage

from marketplace.lib.staticfiles import Bundled, SiteStorage

STATIC = Path(settings.BASE_DIR, "static")


@pytest.fixture
def collected(tmp_path):
    """The site's own files as collectstatic leaves them; the storage knows their hashed names."""
    source, target = FileSystemStorage(STATIC), SiteStorage(location=tmp_path, base_url="/static/")
    names = [str(path.relative_to(STATIC)) for path in STATIC.rglob("*") if path.is_file()]
    for name in names:
        with source.open(name) as file:
            target.save(name, file)
    failures = [r for r in target.post_process({name: (source, name) for name in names}) if isinstance(r[2], Exception)]
    assert failures == []
    return target


def test_the_style_sheet_is_served_in_one_piece(collected):
    text = Path(collected.path(collected.stored_name("css/site.css"))).read_text()
    assert "@import" not in text
    parts = re.findall(r'"([^"]+)"', (STATIC / "css/site.css").read_text())
    assert all((STATIC / "css" / part).read_text() in text for part in parts)
    assert len(parts) == len(set(parts)) == len(list((STATIC / "css").rglob("*.css"))) - 1


def test_modules_import_each_other_by_hashed_names(collected):
    text = Path(collected.path(collected.stored_name("js/main.js"))).read_text()
    imported = re.findall(r'import"\./([^"]+)"', text)
    assert len(imported) == len(list((STATIC / "js/behaviours").glob("*.js")))
    assert all(re.fullmatch(r"behaviours/[a-z-]+\.[0-9a-f]{12}\.js", name) for name in imported)


def test_a_part_whose_addresses_would_break_is_refused(tmp_path):
    (tmp_path / "site.css").write_text('@import url("parts/a.css");\n')
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/a.css").write_text("a { background: url(b.png) }\n")
    with pytest.raises(ValueError, match=r"parts/a\.css: an address in it would point elsewhere from site\.css"):
        Bundled(FileSystemStorage(tmp_path)).open("site.css")
