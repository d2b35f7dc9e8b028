"""How production stores static files: hashed names, compressed; a page's sheet and its script in one piece each."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Any

import rcssmin
from django.core.files.base import ContentFile, File
from django.core.files.storage import Storage
from whitenoise.storage import CompressedManifestStaticFilesStorage

SHEET = re.compile(r"css/[^/]+\.css")
SCRIPT = "js/main.js"
SHEET_IMPORT = re.compile(r'^@import url\("([^"]+)"\);\n', re.MULTILINE)
SCRIPT_IMPORT = re.compile(r'^import "\./([^"]+)";\n', re.MULTILINE)
IMPORT_OR_EXPORT = re.compile(r"^(import|export)\b", re.MULTILINE)


class SiteStorage(CompressedManifestStaticFilesStorage):
    """What is imported is put in its place, so that a page waits for one file and not for a chain of them."""

    # Modules that a module imports get their hashed names too, or a browser would mix old parts with new ones.
    support_js_module_import_aggregation = True

    def post_process(self, paths: dict[str, Any], dry_run: bool = False, **options: Any) -> Iterator[Any]:
        whole = {}
        for name, (storage, path) in paths.items():
            make = sheet if SHEET.fullmatch(name) else script if name == SCRIPT else None
            whole[name] = (Made(storage, make) if make else storage, path)
        yield from super().post_process(whole, dry_run, **options)


class Made:
    """Opens a file as `make` puts it together from the storage."""

    def __init__(self, storage: Storage, make: Callable[[Storage, str], str]) -> None:
        self._storage = storage
        self._make = make

    def open(self, path: str) -> File:
        return ContentFile(self._make(self._storage, path).encode(), name=path)


def sheet(storage: Storage, path: str) -> str:
    """The style sheet with those it imports in their places, without comments and spare blanks."""
    return rcssmin.cssmin(_whole_sheet(storage, path))


def _whole_sheet(storage: Storage, path: str) -> str:
    def part(name: str) -> str:
        text = _whole_sheet(storage, name)
        if "url(" in text:
            raise ValueError(f"{name}: an address in it would point elsewhere from {path}")
        return text

    return _inline(storage, path, SHEET_IMPORT, part)


def script(storage: Storage, path: str) -> str:
    """The module with those it imports for their effect in their places, each in a scope of its own."""

    def part(name: str) -> str:
        text = _read(storage, name)
        if IMPORT_OR_EXPORT.search(text):
            raise ValueError(f"{name}: a part of {path} neither imports nor exports")
        return f"{{\n{text}}}\n"

    return _inline(storage, path, SCRIPT_IMPORT, part)


def _inline(storage: Storage, path: str, imports: re.Pattern[str], part: Callable[[str], str]) -> str:
    folder = posixpath.dirname(path)
    return imports.sub(lambda found: part(posixpath.join(folder, found[1])), _read(storage, path))


def _read(storage: Storage, path: str) -> str:
    with storage.open(path) as file:
        return file.read().decode()
