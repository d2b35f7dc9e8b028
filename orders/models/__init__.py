"""What was asked for and agreed: quotes, orders, their lines, and the subscriptions that everything billed hangs on."""

from orders.models.agreements import Commitment, Pack, PackDraw, Service, VolumeTier
from orders.models.orders import ORDER_MOVES, Order, OrderEvent, OrderLine
from orders.models.quotes import QUOTE_MOVES, Quote, QuoteEvent, QuoteLine
from orders.models.shared import Term, transition_trigger
from orders.models.subscriptions import Extension, Subscription, TermRefund, TermRefundLine

__all__ = [
    "ORDER_MOVES",
    "QUOTE_MOVES",
    "Commitment",
    "Extension",
    "Order",
    "OrderEvent",
    "OrderLine",
    "Pack",
    "PackDraw",
    "Quote",
    "QuoteEvent",
    "QuoteLine",
    "Service",
    "Subscription",
    "Term",
    "TermRefund",
    "TermRefundLine",
    "VolumeTier",
    "transition_trigger",
]
