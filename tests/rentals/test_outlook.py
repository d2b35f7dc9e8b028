"""How long credit lasts and what the month comes to: exact, and never a date that no calendar has."""

from datetime import timedelta
from decimal import Decimal

import pytest

from rentals.outlook import forecast_minor, lasts_until
from tests.factories import NOON


@pytest.mark.parametrize(
    ("available_minor", "burn", "seconds"),
    [
        (100_00, "5", 20 * 3600),
        (100_00, "3", 120_000),
        (1, "3600", 0),
        (10_00, "0.0065", 5538461),
        (0, "5", 0),
        (-5, "5", 0),
    ],
)
def test_credit_lasts_to_the_second(available_minor, burn, seconds):
    until = lasts_until(available_minor=available_minor, burn=Decimal(burn), currency="CNY", at=NOON)

    assert until == NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize(("available_minor", "burn"), [(100, "0"), (10**15, "0.0001"), (-100, "0")])
def test_without_burn_or_beyond_ten_years_there_is_no_end(available_minor, burn):
    assert lasts_until(available_minor=available_minor, burn=Decimal(burn), currency="CNY", at=NOON) is None


def test_the_forecast_adds_the_rest_of_the_month():
    end = NOON + timedelta(hours=12)

    forecast = forecast_minor(spent_minor=1_234, burn=Decimal("3.96"), currency="CNY", at=NOON, until=end)

    assert forecast == 1_234 + 47_52
    assert forecast_minor(spent_minor=7, burn=Decimal(1), currency="CNY", at=end, until=NOON) == 7
