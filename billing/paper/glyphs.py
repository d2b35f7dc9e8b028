"""Which characters the papers' font can print. typst says nothing about a missing one, it prints an empty box.

Two rules, because finance wants neither a paper with a wrong name on it nor a month without papers because of one:
the names of parties, banks and numbers must be printable as they are (`Unprintable` otherwise); what people call their
machines and projects is printed with `[U+1F680]` in the place of each character that the font has not.
"""

from __future__ import annotations

import functools
import unicodedata
from pathlib import Path

from django.utils.translation import gettext_lazy as _
from fontTools.ttLib import TTCollection

from marketplace.lib.refusals import Refusal, Text

FONT_FILE = Path(__file__).resolve().parent / "fonts" / "wqy-microhei.ttc"
FONT_NAME = "WenQuanYi Micro Hei"
# Control characters, invisible ones, those that turn the direction of reading, line breaks: no part of a name.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class Unprintable(Refusal):
    """A name on the paper has a character that the font cannot print."""

    code = "unprintable_character"
    next_step = _("Correct it where it was entered, or ask our support for the document.")

    def __init__(self, *, where: Text, character: str) -> None:
        facts = {"where": where, "character": character, "code": f"U+{ord(character):04X}"}
        super().__init__(
            message=_("%(where)s has the character %(character)s (%(code)s), which documents cannot be printed with.")
            % facts
        )


@functools.cache
def _covered() -> frozenset[int]:
    """Code points of the font's own table; read once a process (0.4 s)."""
    with TTCollection(str(FONT_FILE), lazy=True) as faces:
        face = next(face for face in faces.fonts if face["name"].getDebugName(1) == FONT_NAME)
        return frozenset(face.getBestCmap())


def can_print(character: str) -> bool:
    return ord(character) in _covered() and unicodedata.category(character) not in _UNSEEN


def exactly(text: str, *, where: Text) -> str:
    """The text as it is. Raises Unprintable, which names `where` and the first character that cannot be printed."""
    for character in text:
        if not can_print(character):
            raise Unprintable(where=where, character=character)
    return text


def spelled(text: str) -> str:
    """The text with the code point in brackets for each character that cannot be printed: train-[U+1F680]."""
    return "".join(c if can_print(c) else f"[U+{ord(c):04X}]" for c in text)
