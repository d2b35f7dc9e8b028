"""Sentences that come with the catalogue's data, as the reader should see them.

The data files are English and partly speak to ourselves; `data/texts.json` holds the Chinese of what the site shows and
the English that replaces such a sentence. Anything else is shown as it is.
"""

import json
from functools import cache
from pathlib import Path

from marketplace.lib.spoken import in_chinese

_TEXTS = Path(__file__).parent / "data" / "texts.json"


def in_language(text: str) -> str:
    """The sentence in the active language, or as it stands in the data."""
    language = "zh" if in_chinese() else "en"
    return _texts()[language].get(text, text)


@cache
def _texts() -> dict[str, dict[str, str]]:
    return json.loads(_TEXTS.read_text(encoding="utf-8"))
