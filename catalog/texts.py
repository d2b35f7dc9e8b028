"""Sentences that come with the catalogue's data, in the reader's language.

The data files are English; `data/texts_zh.json` holds the Chinese of what the site shows. A sentence without a
translation is shown as it is.
"""

import json
from functools import cache
from pathlib import Path

from django.utils.translation import get_language

_CHINESE = Path(__file__).parent / "data" / "texts_zh.json"


def in_language(text: str) -> str:
    """The sentence in the active language, or as it stands in the data."""
    if not text or not (get_language() or "").startswith("zh"):
        return text
    return _chinese().get(text, text)


@cache
def _chinese() -> dict[str, str]:
    return json.loads(_CHINESE.read_text(encoding="utf-8"))
