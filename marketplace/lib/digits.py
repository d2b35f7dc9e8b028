"""Numbers as they are read, without a unit."""

from __future__ import annotations

from decimal import Decimal


def trimmed(text: str) -> str:
    """A number's text without the zeros at its end that say nothing: 2.50 is 2.5, 100 stays."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def grouped(value: Decimal | int) -> str:
    """Thousands separated, no trailing zeros: 1,234.5."""
    return trimmed(f"{Decimal(value):,f}")
