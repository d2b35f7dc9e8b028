"""What running on as now comes to: how long credit lasts, and the month's end. Pure; amounts in minor units."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from marketplace.lib.money import Money, major
from orders.pricing import SECONDS_PER_HOUR

# Beyond this nobody plans, and a calendar ends.
FARTHEST = timedelta(days=3650)


def lasts_until(*, available_minor: int, burn: Decimal, currency: str, at: datetime) -> datetime | None:
    """The whole second in which `available_minor` is used up by `burn` major units an hour from `at` on.

    `at` itself where nothing is left; None where nothing burns, or where it lasts longer than ten years.
    """
    if burn <= 0:
        return None
    if available_minor <= 0:
        return at
    seconds = major(available_minor, currency) * SECONDS_PER_HOUR / burn
    if seconds > int(FARTHEST.total_seconds()):
        return None
    return at + timedelta(seconds=int(seconds))


def forecast_minor(*, spent_minor: int, burn: Decimal, currency: str, at: datetime, until: datetime) -> int:
    """What `[…, until)` comes to where everything that is metered at `at` runs on: spent so far and the rest."""
    rest = max(until - at, timedelta(0))
    return spent_minor + Money.rounded(burn * int(rest.total_seconds()) / SECONDS_PER_HOUR, currency).minor
