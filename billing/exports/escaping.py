"""Texts that people typed, made harmless for the file they go into. Each function wraps an expression of SQL."""

from __future__ import annotations

import re

# Characters that make a spreadsheet take a text for a formula, with their full-width twins.
STARTS_FORMULA = r"^([=+\-@\t\r＝＋－＠])"
_FORMULA = f"'{STARTS_FORMULA}'"

# Excel's most UTF-16 units in a cell, and half of it: what a text may have of characters that take two.
MOST_UNITS = 32_767

# What XML 1.0 cannot hold even as a reference, with the line ends that a reader would normalise away.
_ILLEGAL = [*range(0x01, 0x09), 0x0B, 0x0C, *range(0x0D, 0x20), 0xFFFE, 0xFFFF]
_SUSPECT = r"'[&<>_\u0001-\u0008\u000a-\u001f\ufffe\uffff]'"


def harmless(text: str) -> str:
    """The text with an apostrophe before it where a spreadsheet would take it for a formula."""
    return re.sub(STARTS_FORMULA, r"'\1", text)


def csv_text(expression: str) -> str:
    """As `harmless`. Two comparisons of bytes tell what most texts begin with; the rest is for the few others."""
    byte = f'{expression} COLLATE "C"'
    marked = f"CASE WHEN {expression} ~ {_FORMULA} THEN '''' || {expression} ELSE {expression} END"
    return f"CASE WHEN {byte} < 'A' OR {byte} >= '＋' THEN {marked} ELSE {expression} END"


def csv_id(expression: str) -> str:
    """As `csv_text`, and digits that a spreadsheet would round or strip of their zeros get a tab before them."""
    byte = f'{expression} COLLATE "C"'
    digits = f"translate({expression}, '0123456789', '') = ''"
    changed = f"length({expression}) > 11 OR ({byte} < '1' AND length({expression}) > 1)"
    marked = f"CASE WHEN {digits} AND ({changed}) THEN chr(9) || {expression} ELSE {expression} END"
    return f"CASE WHEN {byte} >= '0' AND {byte} < ':' THEN {marked} ELSE {csv_text(expression)} END"


def xml_text(expression: str) -> str:
    """Escaped for a cell, cut at Excel's limit, with Excel's own spelling (_x0001_) of what XML cannot hold."""
    suspect = f"octet_length({expression}) > {MOST_UNITS // 2} OR {expression} ~ {_SUSPECT}"
    return f"CASE WHEN {suspect} THEN {_spelled(_cut(expression))} ELSE {expression} END"


def _cut(expression: str) -> str:
    """At most so many UTF-16 units; a character outside the first plane takes two, so one such halves the limit."""
    shortest = MOST_UNITS // 2
    return (
        f"(CASE WHEN length({expression}) <= {shortest} THEN {expression}"
        rf" WHEN {expression} ~ '[\U00010000-\U0010ffff]' THEN left({expression}, {shortest - 1}) || '…'"
        f" WHEN length({expression}) <= {MOST_UNITS} THEN {expression}"
        f" ELSE left({expression}, {MOST_UNITS - 1}) || '…' END)"
    )


def _spelled(expression: str) -> str:
    spelled = rf"regexp_replace({expression}, '_(?=x[0-9A-Fa-f]{{4}}_)', '_x005F_', 'g')"
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        spelled = f"replace({spelled}, '{character}', '{entity}')"
    # A line end within the text would end the row of the stream.
    spelled = f"replace({spelled}, chr(10), '&#10;')"
    control = f"{expression} ~ '[\\u0001-\\u0008\\u000b-\\u001f\\ufffe\\uffff]'"
    replaced = spelled
    for code in _ILLEGAL:
        replaced = f"replace({replaced}, chr({code}), '_x{code:04X}_')"
    return f"CASE WHEN {control} THEN {replaced} ELSE {spelled} END"
