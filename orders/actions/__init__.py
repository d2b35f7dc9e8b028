"""The verbs of orders: the table of contents."""

from orders.actions.baskets import Wanted, place_basket
from orders.actions.expiry import begin_expiring, cancel_order, cancel_unpaid
from orders.actions.moving import IllegalMove, mark_active, mark_provisioning, move_order
from orders.actions.placing import MAX_PERIODS, MAX_UNITS, check_line, place_order, rates_now
from orders.actions.quotes import (
    IllegalQuoteMove,
    QuoteRefused,
    accept_quote,
    add_quote_line,
    assign_quote,
    create_quote,
    decline_quote,
    expire_quotes,
    move_quote,
    remove_quote_line,
    revise_quote,
    send_quote,
)
from orders.actions.refusals import (
    BadChoice,
    Busy,
    EmailNotVerified,
    NoHeadroom,
    OfferUnavailable,
    OrderRefused,
    PriceChanged,
    RequestKeyReused,
    SoldOut,
)
from orders.actions.requests import Contact, request_quote
from orders.actions.subscriptions import HoldGone, confirm, end_subscription, fail_order, start_term

__all__ = [
    "MAX_PERIODS",
    "MAX_UNITS",
    "BadChoice",
    "Busy",
    "Contact",
    "EmailNotVerified",
    "HoldGone",
    "IllegalMove",
    "IllegalQuoteMove",
    "NoHeadroom",
    "OfferUnavailable",
    "OrderRefused",
    "PriceChanged",
    "QuoteRefused",
    "RequestKeyReused",
    "SoldOut",
    "Wanted",
    "accept_quote",
    "add_quote_line",
    "assign_quote",
    "begin_expiring",
    "cancel_order",
    "cancel_unpaid",
    "check_line",
    "confirm",
    "create_quote",
    "decline_quote",
    "end_subscription",
    "expire_quotes",
    "fail_order",
    "mark_active",
    "mark_provisioning",
    "move_order",
    "move_quote",
    "place_basket",
    "place_order",
    "rates_now",
    "remove_quote_line",
    "request_quote",
    "revise_quote",
    "send_quote",
    "start_term",
]
