from decimal import Decimal

import pytest

from marketplace.lib.digits import grouped, trimmed


@pytest.mark.parametrize(
    ("text", "short"),
    [("2.50", "2.5"), ("100", "100"), ("100.00", "100"), ("0.0", "0"), ("0.0065", "0.0065"), ("", "")],
)
def test_zeros_go_only_from_behind_the_point(text, short):
    assert trimmed(text) == short


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1234, "1,234"), (Decimal("1234567.500"), "1,234,567.5"), (Decimal("1E+3"), "1,000"), (Decimal(-20), "-20")],
)
def test_thousands_stand_apart(value, shown):
    assert grouped(value) == shown
