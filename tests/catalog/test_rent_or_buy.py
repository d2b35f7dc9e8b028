"""The cost model's own example to the cent, and its sums over time."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from catalog.rent_or_buy import Purchase, Rates, cheaper_from, compare, ownership, paid_over_time

EXAMPLE = json.loads((Path(__file__).parent / "data" / "sizing_examples.json").read_text(encoding="utf-8"))[
    "rent_or_buy_example"
]
INPUTS = EXAMPLE["inputs"]
SERVER = Purchase(
    **{name: Decimal(str(value)) for name, value in INPUTS.items() if name != "years"}, years=INPUTS["years"], cards=8
)
H100 = Rates(Decimal(22), Decimal(12000), Decimal(122400))
FULL = Decimal(1)


def test_an_h100_server_costs_73058_49_a_month():
    own = ownership(SERVER)

    assert own.capex == Decimal(EXAMPLE["capex_cny"])
    assert own.parts._asdict() == {name: Decimal(value) for name, value in EXAMPLE["monthly_parts_cny"].items()}
    assert own.month == Decimal(EXAMPLE["monthly_total_cny"]) == Decimal("73058.49")
    assert own.card_month == Decimal("9132.31")


def test_it_breaks_even_at_56_9_percent_of_use():
    compared = compare(ownership(SERVER), H100, SERVER, use=FULL)

    assert compared.break_even_use == Decimal("56.9")
    assert compared.month_rent == 96000
    assert compared.year_rent_per_month == 81600
    assert compared.own_to_month == Decimal("76.1")
    assert compared.own_to_year == Decimal("89.5")
    assert compared.hourly_per_month == Decimal("128480.00")


def test_a_term_without_a_price_is_not_compared():
    rates = Rates(None, Decimal(12000), None)
    compared = compare(ownership(SERVER), rates, SERVER, use=FULL)
    points = paid_over_time(ownership(SERVER), rates, SERVER, use=FULL)

    assert (compared.break_even_use, compared.own_to_year, compared.hourly_per_month) == (None, None, None)
    assert {point.hourly for point in points} == {None}
    assert cheaper_from(points, "yearly") is None


def test_rent_that_costs_nothing_is_not_divided_by():
    compared = compare(ownership(SERVER), Rates(Decimal(0), Decimal(0), Decimal(0)), SERVER, use=FULL)
    assert (compared.break_even_use, compared.own_to_month, compared.own_to_year) == (None, None, None)


def test_the_purchase_is_paid_first_and_its_rest_comes_back_last():
    own = ownership(SERVER)
    points = paid_over_time(own, H100, SERVER, use=FULL)

    assert len(points) == 49
    assert points[0].buy == Decimal("2530000.00")
    assert points[0][2:] == (0, 0, 0)
    assert points[1].buy == Decimal("2530000.00") + own.month - own.parts.depreciation
    assert points[48].buy == own.month * 48 == Decimal("3506807.52")


def test_rent_is_paid_by_use_by_month_and_a_year_ahead():
    points = paid_over_time(ownership(SERVER), H100, SERVER, use=Decimal("0.5"))

    assert points[1].hourly == Decimal("64240.00")
    assert points[1].monthly == 96000
    assert points[1].yearly == points[12].yearly == 979200
    assert points[13].yearly == 1958400
    assert points[48][2:] == (Decimal("3083520.00"), Decimal(4608000), Decimal(3916800))


@pytest.mark.parametrize(("use", "month"), [("1", 25), ("0.6", 48), ("0.569", 48), ("0.56", None)])
def test_owning_gets_cheaper_than_the_hour_with_enough_use(use, month):
    points = paid_over_time(ownership(SERVER), H100, SERVER, use=Decimal(use))
    assert cheaper_from(points, "hourly") == month


def test_amounts_have_the_digits_of_their_currency():
    yen = ownership(replace(SERVER, currency="JPY"))
    assert yen.month == yen.month.to_integral_value()
