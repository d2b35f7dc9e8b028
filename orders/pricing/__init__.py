"""What things cost: pure functions that the page, the order, the quote and the invoice share.

Rates are Decimal major units per card (or GB); amounts are integer minor units. An amount is rounded once, half up on
the magnitude. Nothing here reads a database, a setting or the clock.
"""

from orders.pricing.commitments import committed_in, true_up
from orders.pricing.lines import (
    METER_OF_TERM,
    SECONDS_PER_HOUR,
    advance_amount,
    discounted,
    headroom,
    line_amount,
    tax_within,
)
from orders.pricing.packs import Draw, PackLeft, Use, covered, draw_down
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
from orders.pricing.tiers import Piece, Tier, tier_discount

__all__ = [
    "METER_OF_TERM",
    "MONTHS_PER_TERM",
    "SECONDS_PER_HOUR",
    "Breakdown",
    "Draw",
    "Estimate",
    "NotInPeriod",
    "PackLeft",
    "Paid",
    "Period",
    "Piece",
    "Tier",
    "Use",
    "advance_amount",
    "anchor_periods",
    "breakdown",
    "committed_in",
    "covered",
    "discounted",
    "draw_down",
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
    "tier_discount",
    "true_up",
    "unused",
]
