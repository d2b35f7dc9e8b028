"""Tables that a phone shows as cards: every cell carries its column's name, and the roles that CSS would take away."""

import re

from django.utils.html import strip_tags
from django.utils.safestring import SafeString

_HEAD = re.compile(r'<th scope="col"[^>]*>(.*?)</th>', re.DOTALL)
_TAG = re.compile(r"<(thead|tbody|tfoot|tr|td|th)(?=[\s>])([^>]*)>")
_SPAN = re.compile(r'colspan="(\d+)"')


def stackable(rows: SafeString) -> SafeString:
    """The thead, tbody and tfoot of a table with a role on each part and `data-label` on each cell below the head.

    A head that only a screen reader sees gives no label. What comes in is markup already, and so is what is added.
    """
    labels = [_label(text) for text in _HEAD.findall(rows)]
    column, in_head = 0, False

    def mark(found: re.Match[str]) -> str:
        nonlocal column, in_head
        name, attributes = found.groups()
        if name in {"thead", "tbody", "tfoot"}:
            in_head = name == "thead"
            return f'<{name}{attributes} role="rowgroup">'
        if name == "tr":
            column = 0
            return f'<tr{attributes} role="row">'
        label = labels[column] if column < len(labels) and not in_head else ""
        span = _SPAN.search(attributes)
        column += int(span[1]) if span else 1
        role = "columnheader" if in_head else "rowheader" if name == "th" else "cell"
        return f'<{name}{attributes} role="{role}"' + (f' data-label="{label}">' if label else ">")

    return SafeString(_TAG.sub(mark, rows))


def _label(head: str) -> str:
    return "" if "visually-hidden" in head else strip_tags(head).strip().replace('"', "&quot;")
