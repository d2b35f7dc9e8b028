"""Why a wish cannot be granted: each reason has a stable code, a message for the customer and perhaps a next step."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from marketplace.lib.refusals import Refusal
from rentals.models import Rental


class RentalRefused(Refusal):
    """A wish that cannot be granted."""


class NotNow(RentalRefused):
    """The state of the rental does not allow it."""

    code = "not_now"

    def __init__(self, rental: Rental) -> None:
        super().__init__(
            message=_("“%(name)s” is %(status)s; this is not possible now.")
            % {"name": rental.name, "status": rental.get_status_display()}
        )


class NoCapacity(RentalRefused):
    code = "no_capacity"
    message = _("The server that keeps this disk has no free cards at the moment. Nothing has changed.")
    next_step = _("Try again later, or rent another machine from the catalogue.")


class Busy(RentalRefused):
    code = "busy"
    message = _("Many orders arrive at this moment. Please try again.")


class NoCredit(RentalRefused):
    code = "no_headroom"
    message = _("The credit of your organization is used up. Nothing has changed.")
    next_step = _("Pay the open invoices; then start the machine again.")


class TermOver(RentalRefused):
    code = "term_over"
    message = _("The term of this machine has ended.")
    next_step = _("Order a new machine from the catalogue.")
