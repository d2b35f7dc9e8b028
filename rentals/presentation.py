"""How a rental reads on pages. Pure: what it needs is loaded already."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal

from marketplace.lib.money import SYMBOLS, Money
from rentals.metering import Usage
from rentals.models import Rental


def total(rental: Rental, usage: Iterable[Usage]) -> Money:
    """What the usage comes to, each meter rounded as its invoice line will be."""
    return sum((one.amount for one in usage), Money(0, rental.subscription.currency))


def last_second(rental: Rental) -> datetime | None:
    """Periods are half-open; people read the last second that belongs to them."""
    ends_at = rental.subscription.ends_at
    return ends_at - timedelta(seconds=1) if ends_at else None


def ssh_command(rental: Rental) -> str:
    """What to paste into a terminal; empty while the address is not known."""
    if not rental.ssh_port:
        return ""
    return f"ssh -p {rental.ssh_port} {rental.ssh_user or 'root'}@{rental.ssh_host}"


def per_hour(rate: Decimal, currency: str) -> str:
    """What a meter costs in an hour with at least four decimals, so that small disks do not read as nothing."""
    digits = -int(rate.normalize().as_tuple().exponent) if rate else 0
    return f"{SYMBOLS[currency]}{rate:,.{min(max(digits, 4), 6)}f}"
