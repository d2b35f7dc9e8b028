"""Phone numbers as people in China and elsewhere write them, kept in one international form."""

from __future__ import annotations

import re
import unicodedata

_SPACING = re.compile(r"[\s().\-\u2010-\u2015\u2212]+")
_MOBILE = re.compile(r"1[3-9]\d{9}")
# Area codes of three digits have eight-digit numbers, those of four have seven or eight.
_LANDLINE = re.compile(r"(?:10|2\d)\d{8}|[3-9]\d{2}\d{7,8}")
_FOREIGN = re.compile(r"[1-9]\d{6,14}")
_EXTENSION = re.compile(r"(?:-|转|ext\.?|x|,|#)\s*(\d{1,6})$", re.IGNORECASE)
# A number is followed by an extension only where it is whole without it.
_WITH_EXTENSION = re.compile(r"\(?0?\d{2,3}\)?[\s-]?\d{7,8}\s*(?:-|转|ext\.?|x|,|#)\s*\d{1,6}$", re.IGNORECASE)


def international(text: str) -> str:
    """The number in E.164 form: +8613800000000, +865911234567;ext=8 or +14155550123. Raises ValueError.

    Without a country code it is a mainland mobile (11 digits from 13 to 19) or a landline with its area code.
    """
    text = unicodedata.normalize("NFKC", text).strip()
    extension = ""
    if _WITH_EXTENSION.match(text.removeprefix("+86").strip()):
        found = _EXTENSION.search(text)
        if found:
            extension = f";ext={found[1]}"
            text = text[: found.start()]
    digits = _SPACING.sub("", text)
    if digits.startswith("00"):
        digits = f"+{digits[2:]}"
    if not re.fullmatch(r"\+?[0-9]+", digits):
        raise ValueError("no phone number")
    if digits.startswith("+") and not digits.startswith("+86"):
        if not _FOREIGN.fullmatch(digits[1:]):
            raise ValueError("no international phone number")
        return digits
    own = digits.removeprefix("+86")
    if _MOBILE.fullmatch(own) and not extension:
        return f"+86{own}"
    # At home the area code begins with a zero; behind the country code it may.
    area = own.removeprefix("0")
    if _LANDLINE.fullmatch(area) and (own != area or own != digits):
        return f"+86{area}{extension}"
    raise ValueError("no mainland phone number")
