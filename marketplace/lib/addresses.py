"""Each language under its own address: Chinese pages at /…, English ones at /en/….

An address without a language is answered in the one the visitor chose, so that a bookmark, a mailed link or a form
keeps working; the pages' own links, and what search engines are told, always name the language.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.urls import URLPattern, URLResolver
from django.urls.resolvers import LocalePrefixPattern

# The first language needs none.
PREFIXES = {code: f"{code}/" for code, _name in settings.LANGUAGES if code != settings.LANGUAGE_CODE}


def language_in(path: str) -> str | None:
    """The language that an absolute path names, if it names one."""
    return next((code for code, prefix in PREFIXES.items() if path.startswith(f"/{prefix}")), None)


def without_language(path: str) -> str:
    """The absolute path as it stands for the first language."""
    code = language_in(path)
    return f"/{path.removeprefix(f'/{PREFIXES[code]}')}" if code else path


def in_each_language(path: str) -> list[tuple[str, str]]:
    """The absolute path of the same page in every language, as (code, path)."""
    bare = without_language(path)
    return [(code, f"/{PREFIXES.get(code, '')}{bare.removeprefix('/')}") for code, _name in settings.LANGUAGES]


class LanguagePrefix(LocalePrefixPattern):
    """Writes the active language's prefix and reads an address with any or none."""

    def match(self, path: str) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        return without_language(f"/{path}").removeprefix("/"), (), {}


def in_languages(*patterns: URLPattern | URLResolver) -> Sequence[URLResolver]:
    """For a root URLconf: the patterns under every language's prefix."""
    return [URLResolver(LanguagePrefix(prefix_default_language=False), list(patterns))]
