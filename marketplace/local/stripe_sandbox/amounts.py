"""Arithmetic of an invoice: each line's tax rounded on its own, totals summed, integers throughout."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

# Stripe's minimum charge, https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts. It has no row for CNY:
# 4 yuan stand for "0.50 USD after conversion". An amount due outside the limits moves to the customer's balance.
MINIMUM = {"usd": 50, "cny": 400, "jpy": 50}
MAXIMUM = 99_999_999


def half_up(value: Decimal) -> int:
    """Rounded half away from zero."""
    return int(value.quantize(Decimal(1), rounding=ROUND_HALF_UP))


def line_taxes(amount: int, rates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line's taxes as Stripe lists them: inclusive ones are contained in the amount, exclusive ones come on top."""
    inclusive = sum((Decimal(str(rate["percentage"])) for rate in rates if rate["inclusive"]), Decimal(0))
    net = Decimal(amount) * 100 / (100 + inclusive)
    contained = [half_up(net * Decimal(str(rate["percentage"])) / 100) for rate in rates if rate["inclusive"]]
    taxable = amount - sum(contained)
    return [
        {
            "amount": half_up(net * Decimal(str(rate["percentage"])) / 100),
            "tax_behavior": "inclusive" if rate["inclusive"] else "exclusive",
            "tax_rate_details": {"tax_rate": rate["id"]},
            "taxability_reason": "not_available",
            "taxable_amount": taxable,
            "type": "tax_rate_details",
        }
        for rate in rates
    ]


def summed_taxes(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The invoice's taxes by rate: sums of what the lines rounded."""
    totals: dict[str, dict[str, Any]] = {}
    for tax in (tax for line in lines for tax in line["taxes"]):
        total = totals.setdefault(tax["tax_rate_details"]["tax_rate"], {**tax, "amount": 0, "taxable_amount": 0})
        total["amount"] += tax["amount"]
        total["taxable_amount"] += tax["taxable_amount"]
    return list(totals.values())


def totals(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """subtotal, total and both without tax, and the taxes themselves."""
    taxes = summed_taxes(lines)
    subtotal = sum(line["amount"] for line in lines)
    on_top = sum(tax["amount"] for tax in taxes if tax["tax_behavior"] == "exclusive")
    inside = sum(tax["amount"] for tax in taxes if tax["tax_behavior"] == "inclusive")
    return {
        "subtotal": subtotal,
        "subtotal_excluding_tax": subtotal - inside,
        "total": subtotal + on_top,
        "total_excluding_tax": subtotal - inside,
        "total_taxes": taxes,
    }


def due(total: int, balance: int, currency: str) -> tuple[int, int]:
    """What the customer must pay and the balance left behind, from the total and the balance before (credit < 0)."""
    wanted = total + balance
    if wanted <= 0:
        return 0, wanted
    if wanted < MINIMUM.get(currency, 1) or wanted > MAXIMUM:
        return 0, wanted
    return wanted, 0
