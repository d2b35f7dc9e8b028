"""Texts that are kept in both languages beside each other."""

from __future__ import annotations

from django.utils.translation import get_language


def in_chinese(language: str | None = None) -> bool:
    """Whether the language is a Chinese one; the active language where none is named."""
    return (language or get_language() or "").startswith("zh")


def either(zh: str, en: str) -> str:
    """Whichever the reader's language is."""
    return zh if in_chinese() else en
