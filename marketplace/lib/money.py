"""Money: integer minor units with their currency. Rates are Decimal; a float never touches an amount."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

# Minor-unit digits by ISO 4217. A currency that is not listed is refused, never guessed.
EXPONENTS = {"CNY": 2, "USD": 2, "JPY": 0}

# Currencies an organization can be billed in.
BILLING_CURRENCIES = ("CNY", "USD")

SYMBOLS = {"CNY": "¥", "USD": "US$", "JPY": "JP¥"}


class CurrencyMismatch(ValueError):
    """Two amounts of different currencies met in one sum."""


def exponent(currency: str) -> int:
    """How many decimal digits the currency's minor unit has. Raises KeyError for an unknown currency."""
    return EXPONENTS[currency]


def minor(amount: Decimal, currency: str) -> int:
    """Major units as integer minor units, rounded once, half up on the magnitude, the sign put back afterwards."""
    scaled = abs(amount).scaleb(exponent(currency)).quantize(Decimal(1), rounding=ROUND_HALF_UP)
    return -int(scaled) if amount < 0 else int(scaled)


def major(amount_minor: int, currency: str) -> Decimal:
    """Integer minor units as an exact Decimal of major units."""
    return Decimal(amount_minor).scaleb(-exponent(currency))


@dataclass(frozen=True, slots=True)
class Money:
    """An amount of one currency, in integer minor units."""

    minor: int
    currency: str

    def __post_init__(self) -> None:
        if not isinstance(self.minor, int) or isinstance(self.minor, bool):
            raise TypeError("Money counts integer minor units")
        if self.currency not in EXPONENTS:
            raise ValueError(f"unknown currency {self.currency!r}")

    @classmethod
    def rounded(cls, amount: Decimal, currency: str) -> Money:
        """An exact amount of major units, rounded once to the currency's minor unit, half up on the magnitude."""
        return cls(minor(amount, currency), currency)

    @property
    def major(self) -> Decimal:
        return major(self.minor, self.currency)

    def __add__(self, other: Money) -> Money:
        return Money(self.minor + self._same(other), self.currency)

    def __sub__(self, other: Money) -> Money:
        return Money(self.minor - self._same(other), self.currency)

    def __neg__(self) -> Money:
        return Money(-self.minor, self.currency)

    def __lt__(self, other: Money) -> bool:
        return self.minor < self._same(other)

    def __str__(self) -> str:
        return format_minor(self.minor, self.currency)

    def _same(self, other: Money) -> int:
        if other.currency != self.currency:
            raise CurrencyMismatch(f"{self.currency} and {other.currency} cannot be added")
        return other.minor


def format_minor(amount_minor: int, currency: str) -> str:
    """For bills: currency symbol, thousands separated, all minor digits, minus sign first (−¥1,234.50)."""
    digits = exponent(currency)
    sign = "−" if amount_minor < 0 else ""
    return f"{sign}{SYMBOLS[currency]}{abs(major(amount_minor, currency)):,.{digits}f}"


def format_rate(rate: Decimal, currency: str) -> str:
    """For unit prices: at least the currency's digits, up to six where the rate needs them (¥22.00, US$0.00005)."""
    digits = exponent(currency)
    needed = -int(rate.normalize().as_tuple().exponent) if rate else 0
    return f"{SYMBOLS[currency]}{rate:,.{min(max(digits, needed), max(digits, 6))}f}"
