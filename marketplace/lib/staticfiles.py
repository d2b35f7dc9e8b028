"""How production stores static files: hashed names, compressed, the site's style sheet in one piece."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from django.core.files.base import ContentFile, File
from django.core.files.storage import Storage
from whitenoise.storage import CompressedManifestStaticFilesStorage

BUNDLE = "css/site.css"
IMPORT = re.compile(r'^@import url\("([^"]+)"\);\n', re.MULTILINE)


class SiteStorage(CompressedManifestStaticFilesStorage):
    """The bundle's imports are put in their place, so that a page waits for one sheet and not for a chain of them."""

    # Modules that a module imports get their hashed names too, or a browser would mix old parts with new ones.
    support_js_module_import_aggregation = True

    def post_process(self, paths: dict[str, Any], dry_run: bool = False, **options: Any) -> Iterator[Any]:
        if BUNDLE in paths:
            storage, path = paths[BUNDLE]
            paths = {**paths, BUNDLE: (Bundled(storage), path)}
        yield from super().post_process(paths, dry_run, **options)


class Bundled:
    """Opens a style sheet with the sheets it imports put in their place, one level deep."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def open(self, path: str) -> File:
        folder = posixpath.dirname(path)

        def part(match: re.Match[str]) -> str:
            text = self._read(posixpath.join(folder, match[1]))
            if "url(" in text:
                raise ValueError(f"{match[1]}: an address in it would point elsewhere from {path}")
            return text

        return ContentFile(IMPORT.sub(part, self._read(path)).encode(), name=path)

    def _read(self, path: str) -> str:
        with self.storage.open(path) as file:
            return file.read().decode()
