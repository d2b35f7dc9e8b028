"""Plain text as paragraphs and lists, and names in a row."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from marketplace.lib.spoken import either

register = template.Library()

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n+")
BULLET = "- "
LINE_BREAK = SafeString("<br>")


@register.filter
def plain(text: str) -> SafeString:
    """Paragraphs end at an empty line; lines that begin with "- " are a list. Everything else is shown as written."""
    parts: list[tuple[bool, list[str]]] = []
    for paragraph in _BLANK_LINES.split(text.replace("\r\n", "\n").strip()):
        started = False
        for line in paragraph.split("\n"):
            listed = line.lstrip().startswith(BULLET)
            if not started or parts[-1][0] != listed:
                parts.append((listed, []))
                started = True
            parts[-1][1].append(line.strip().removeprefix(BULLET).strip())
    return format_html_join("\n", "{}", ((_part(listed, lines),) for listed, lines in parts if any(lines)))


@register.filter
def listed(names: Iterable[str]) -> SafeString:
    """Names in a row, parted as the reader's language parts them, each kept on one line."""
    return format_html_join(either("、", ", "), '<span class="nowrap">{}</span>', ((name,) for name in names))


def _part(listed: bool, lines: list[str]) -> SafeString:
    if listed:
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{}</li>", ((line,) for line in lines)))
    return format_html("<p>{}</p>", format_html_join(LINE_BREAK, "{}", ((line,) for line in lines)))
