"""Why a rental waits, failed or was lost, in plain words: a code of the database → what happened, and the money."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from rentals.drivers import errors
from rentals.drivers.base import FAULT_MESSAGES

Text = str | Promise


@dataclass(frozen=True, slots=True)
class Reason:
    code: str
    what: Text
    money: Text = ""


# Drivers say in their own words what went wrong; the rest is what the reconciler found by itself.
WHAT: dict[str, Text] = {
    **{error.code: error.message for error in errors.ALL},
    **{fault.value: message for fault, message in FAULT_MESSAGES.items()},
    "pool_paused": errors.AuthError.message,
    "internal": _("Something went wrong on our side. Our staff has been told."),
    "deadline": _("The machine did not become ready in time."),
    "boot_failed": _("The machine did not start."),
    "vanished": _("The data centre no longer has this machine."),
    "restarting": _("The machine was found switched off and is being started again."),
}
UNKNOWN = _("We do not know yet why. Our staff has been told.")

NOTHING_BILLED = _("Nothing was billed for it, and the credit that was kept ready is free again.")
METER_STOPPED = _("Billing ended when we noticed it.")
PAID_AND_WAITING = _("Your payment is safe: a person decides now whether we try again or return the money.")
TERM_LOST = _("You paid for this term in advance; our staff contacts you about the rest of it.")
STILL_STOPPED = _("The machine is stopped again; only its disk is billed.")
STILL_STOPPED_TERM = _("The machine is stopped again; your term goes on.")


def explain(*, status: str, reason: str, failure: str, hourly: bool, ever_ran: bool) -> Reason | None:
    """What to tell the customer about this rental's trouble; None while there is none."""
    code = failure or reason
    if not code:
        return None
    return Reason(code, WHAT.get(code, UNKNOWN), _money(status, bool(failure), hourly, ever_ran))


def _money(status: str, failed: bool, hourly: bool, ever_ran: bool) -> Text:
    if failed and status in {"destroying", "failed"} and not ever_ran:
        return NOTHING_BILLED if hourly else PAID_AND_WAITING
    if status == "lost":
        return METER_STOPPED if hourly else TERM_LOST
    if status == "needs_operator":
        return "" if hourly else PAID_AND_WAITING
    if status in {"stopping", "stopped"}:
        return STILL_STOPPED if hourly else STILL_STOPPED_TERM
    return ""
