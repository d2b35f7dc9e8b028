"""Why an order is refused: each reason has a stable code, a message for the customer and a next step."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from marketplace.lib import clock
from marketplace.lib.money import Money, format_rate
from marketplace.lib.refusals import Refusal, Text
from orders.models import Order


class OrderRefused(Refusal):
    """Nothing was ordered. `position` says which of several lines it is about, from 0; None: all of them."""

    message = _("This order cannot be placed.")
    position: int | None = None

    def about(self, position: int) -> OrderRefused:
        """The same refusal, of this line."""
        self.position = position
        return self


class OfferUnavailable(OrderRefused):
    code = "offer_unavailable"
    message = _("This offer cannot be ordered at the moment.")
    next_step = _("Choose another offer from the catalogue.")


class EmailNotVerified(OrderRefused):
    code = "email_not_verified"
    message = _("Your e-mail address is not verified yet.")
    next_step = _("Open the link in the message we sent you, or have it sent again.")


class BadChoice(OrderRefused):
    """One of the choices cannot be honoured; `field` names it."""

    code = "bad_choice"

    def __init__(self, field: str, message: Text) -> None:
        super().__init__(message=message, field=field)


class RequestKeyReused(BadChoice):
    """The same request key came with other content than the order it already made."""

    code = "request_key_reused"
    next_step = _("If you want another order, check it again and place it.")

    def __init__(self, order: Order) -> None:
        super().__init__(
            "request_key", _("This form has already placed the order %(number)s.") % {"number": order.number}
        )
        self.order = order


class SoldOut(OrderRefused):
    """Fewer units are free than wanted; `free_units` of this size could still be had when it was refused."""

    code = "sold_out"
    next_step = _("Take fewer units or one of the alternatives.")

    def __init__(self, free_units: int) -> None:
        super().__init__(message=_sold_out(free_units))
        self.free_units = free_units


def _sold_out(free_units: int) -> Text:
    if not free_units:
        return _("Sold out: no unit of this offer is free right now.")
    return ngettext_lazy(
        "Not enough free: only %(count)d unit is left.", "Not enough free: only %(count)d units are left.", "count"
    ) % {"count": free_units}


class Busy(SoldOut):
    """Cards are free, but other orders kept them locked for longer than a claim waits."""

    code = "busy"
    next_step = _("Place the order again in a moment.")

    def __init__(self, free_units: int) -> None:
        super().__init__(free_units)
        self.message = _("Many orders arrive at this moment. Please try again.")


class PriceChanged(OrderRefused):
    """The rate that was shown is no longer the current one. Rates are per card."""

    code = "price_changed"
    next_step = _("Check the new total and confirm it by placing the order again.")

    def __init__(self, *, seen_rate: Decimal, new_rate: Decimal, currency: str) -> None:
        super().__init__(
            message=_("The price per card has changed from %(old)s to %(new)s while you were ordering.")
            % {"old": format_rate(seen_rate, currency), "new": format_rate(new_rate, currency)}
        )
        self.seen_rate = seen_rate
        self.new_rate = new_rate


class NotRunning(OrderRefused):
    """There is nothing that could go on: it has not begun, or has ended."""

    code = "not_running"
    message = _("This machine is not running under a contract that could go on.")
    next_step = _("Order a machine from the catalogue.")


class StillUnpaid(OrderRefused):
    """Another order about the same machine is under way."""

    code = "still_unpaid"
    next_step = _("Pay it, or cancel it first.")

    def __init__(self, order: Order) -> None:
        super().__init__(
            message=_("The order %(number)s for this machine is not settled yet.") % {"number": order.number}
        )
        self.order = order


class CardsReserved(OrderRefused):
    """A reservation of the pool needs the cards. `since`: the first instant it does."""

    code = "cards_reserved"
    next_step = _("Choose a time that ends before, or ask our sales team.")

    def __init__(self, since: datetime, zone: str) -> None:
        super().__init__(
            message=_("These cards are reserved for another customer from %(date)s on.")
            % {"date": clock.read(since, zone)}
        )
        self.since = since


class BudgetUsedUp(OrderRefused):
    """A budget of the month has no room for this order; `message` says which and how much."""

    code = "budget_used_up"
    next_step = _("Raise the budget, wait for the next month, or choose another project.")


class NoHeadroom(OrderRefused):
    """The credit line cannot keep hours of burn ready. Amounts are minor units."""

    code = "no_headroom"
    next_step = _("Pay open invoices or ask for a higher credit limit; orders by the month or year need no credit.")

    def __init__(self, *, needed: Money, headroom: Money) -> None:
        missing = needed - headroom
        super().__init__(
            message=_("%(needed)s of credit is needed, %(left)s is available: %(missing)s is missing.")
            % {"needed": str(needed), "left": str(headroom), "missing": str(missing)}
        )
        self.needed = needed
        self.headroom = headroom
        self.missing = missing
