"""What things cost: pure functions that the page, the order, the quote and the invoice share.

Rates are Decimal major units per card (or GB); amounts are integer minor units. An amount is rounded once, half up on
the magnitude. Nothing here reads a database, a setting or the clock.
"""

from orders.pricing.lines import (
    METER_OF_TERM,
    SECONDS_PER_HOUR,
    advance_amount,
    discounted,
    headroom,
    line_amount,
    tax_within,
)
from orders.pricing.refunds import Paid, less, unused
from orders.pricing.shown import Breakdown, Estimate, breakdown, estimate
from orders.pricing.terms import (
    MONTHS_PER_TERM,
    NotInPeriod,
    Period,
    anchor_periods,
    extended_end,
    extension_periods,
    prorated,
    shares,
    term_end,
    term_periods,
)

__all__ = [
    "METER_OF_TERM",
    "MONTHS_PER_TERM",
    "SECONDS_PER_HOUR",
    "Breakdown",
    "Estimate",
    "NotInPeriod",
    "Paid",
    "Period",
    "advance_amount",
    "anchor_periods",
    "breakdown",
    "discounted",
    "estimate",
    "extended_end",
    "extension_periods",
    "headroom",
    "less",
    "line_amount",
    "prorated",
    "shares",
    "tax_within",
    "term_end",
    "term_periods",
    "unused",
]
