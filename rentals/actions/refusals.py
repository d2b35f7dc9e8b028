"""Why a wish cannot be granted: each reason has a stable code, a message for the customer and perhaps a next step."""

from __future__ import annotations

from typing import ClassVar

from django.utils.translation import gettext_lazy as _

from marketplace.lib.refusals import Refusal, Text
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


class Suspended(RentalRefused):
    """The platform keeps it off; `page` and `link` name where the customer can do something about it."""

    code = "suspended"
    link = _("Top up or pay")
    SAID: ClassVar[dict[str, tuple[Text, Text, str]]] = {
        Rental.Suspension.ARREARS: (
            _("“%(name)s” is suspended because your balance is below zero. Its disk is kept."),
            _("Top up or pay what is open; the machine then goes on by itself."),
            "billing:balance",
        ),
        Rental.Suspension.OPERATOR: (
            _("“%(name)s” was suspended by our staff. Its disk is kept."),
            _("Please contact us."),
            "",
        ),
    }

    def __init__(self, rental: Rental) -> None:
        message, self.next_step, self.page = self.SAID[rental.suspension]
        super().__init__(message=message % {"name": rental.name})


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


class BudgetSpent(RentalRefused):
    """A budget that stops machines has no room in this month; `message` says which."""

    code = "budget_used_up"
    next_step = _("Raise the budget or wait for the next month.")
    page, link = "accounts:budgets", _("Open budgets")


class TermOver(RentalRefused):
    code = "term_over"
    message = _("The term of this machine has ended.")
    next_step = _("Order a new term for it while its disk is kept.")
