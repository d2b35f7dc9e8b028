"""What Stripe collects in one charge, in minor units: less is carried forward, more is paid by bank transfer.

Source: https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts. Stripe names no minimum for CNY; four
yuan stands for "0.50 USD after conversion" with room for the rate to move.
"""

from typing import Final

MINIMUM_MINOR: Final = {"CNY": 400, "USD": 50}
MAXIMUM_MINOR: Final = 99_999_999


def below_minimum(amount_minor: int, currency: str) -> bool:
    """Whether Stripe would refuse to collect this because it is too little."""
    return amount_minor < MINIMUM_MINOR[currency]


def by_bank(amount_minor: int, currency: str) -> bool:
    """Whether a sum that is due at once is collected by bank transfer, because one charge cannot hold it."""
    return above_maximum(amount_minor) or below_minimum(amount_minor, currency)


def above_maximum(amount_minor: int) -> bool:
    """Whether it is more than one charge can hold (¥999,999.99)."""
    return amount_minor > MAXIMUM_MINOR
