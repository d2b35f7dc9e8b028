"""Pieces of SQL that exports are written with: labels, local time, major units. Every `%` is doubled for the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from marketplace.lib.money import BILLING_CURRENCIES, exponent


def quoted(text: str) -> str:
    """A text as a literal."""
    return "'" + text.replace("'", "''").replace("%", "%%") + "'"


@dataclass(frozen=True, slots=True)
class Label:
    """A stored value in the reader's words; what is not among the choices stands as it is.

    There are few words, so a writer may have each written out beforehand, with everything around it.
    """

    expression: str
    choices: tuple[tuple[str, Any], ...]

    def __call__(self) -> str:
        return self.written(str, self.expression)

    def written(self, write: Callable[[str], str], other: str) -> str:
        """The value as `write` puts its word, or as the expression `other`."""
        cases = " ".join(f"WHEN {quoted(value)} THEN {quoted(write(str(text)))}" for value, text in self.choices)
        return f"CASE {self.expression} {cases} ELSE {other} END"


def label(expression: str, choices: Iterable[tuple[str, Any]]) -> Label:
    return Label(expression, tuple((value, text) for value, text in choices if value))


def local(instant: str, zone: str) -> str:
    """An instant on the clock of a zone, to the second."""
    return f"to_char({instant} AT TIME ZONE {zone}, 'YYYY-MM-DD HH24:MI:SS')"


def local_day(instant: str, zone: str) -> str:
    return f"to_char({instant} AT TIME ZONE {zone}, 'YYYY-MM-DD')"


def major(minor: str, currency: str) -> str:
    """Minor units as major units with exactly the currency's digits."""
    by_digits: dict[int, list[str]] = {}
    for code in BILLING_CURRENCIES:
        by_digits.setdefault(exponent(code), []).append(code)
    if len(by_digits) == 1:
        return f"({minor} * {factor(next(iter(by_digits)))})"
    cases = " ".join(
        f"WHEN {currency} IN ({', '.join(map(quoted, codes))}) THEN {minor} * {factor(digits)}"
        for digits, codes in by_digits.items()
    )
    return f"CASE {cases} END"


def factor(digits: int) -> str:
    return "1" if digits == 0 else f"0.{'0' * (digits - 1)}1"


def plain(number: str) -> str:
    """A stored decimal without the zeros that only its column type adds."""
    return f"trim_scale({number})"


def hours(seconds: str) -> str:
    return f"round({seconds}::numeric / 3600, 6)"
