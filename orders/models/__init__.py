"""What was asked for and agreed: quotes, orders, their lines, and the subscriptions that everything billed hangs on."""

from orders.models.orders import ORDER_MOVES, Order, OrderEvent, OrderLine
from orders.models.quotes import QUOTE_MOVES, Quote, QuoteEvent, QuoteLine
from orders.models.shared import Term, transition_trigger
from orders.models.subscriptions import Extension, Subscription, TermRefund, TermRefundLine

__all__ = [
    "ORDER_MOVES",
    "QUOTE_MOVES",
    "Extension",
    "Order",
    "OrderEvent",
    "OrderLine",
    "Quote",
    "QuoteEvent",
    "QuoteLine",
    "Subscription",
    "Term",
    "TermRefund",
    "TermRefundLine",
    "transition_trigger",
]
