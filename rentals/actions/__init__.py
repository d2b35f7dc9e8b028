"""The verbs of rentals: the table of contents.

Locks, in this order: credit line, order, host and cards, rental.
"""

from rentals.actions.auto_stop import BadRule, TermKeepsPrice, enforce_auto_stop, remove_auto_stop, set_auto_stop
from rentals.actions.going_on import convert_rentals, end_early
from rentals.actions.moving import IllegalMove, locked, move_rental
from rentals.actions.opening import UnitWithoutCards, open_rentals
from rentals.actions.operating import destroy_by_operator, retry
from rentals.actions.refusals import BudgetSpent, Busy, NoCapacity, NoCredit, NotNow, RentalRefused, Suspended, TermOver
from rentals.actions.suspending import SUSPENDABLE, resume, suspend
from rentals.actions.telling import tell_of_ending_terms
from rentals.actions.terms import enforce_terms, expire_term
from rentals.actions.wishes import request_start, request_stop, request_terminate

__all__ = [
    "SUSPENDABLE",
    "BadRule",
    "BudgetSpent",
    "Busy",
    "IllegalMove",
    "NoCapacity",
    "NoCredit",
    "NotNow",
    "RentalRefused",
    "Suspended",
    "TermKeepsPrice",
    "TermOver",
    "UnitWithoutCards",
    "convert_rentals",
    "destroy_by_operator",
    "end_early",
    "enforce_auto_stop",
    "enforce_terms",
    "expire_term",
    "locked",
    "move_rental",
    "open_rentals",
    "remove_auto_stop",
    "request_start",
    "request_stop",
    "request_terminate",
    "resume",
    "retry",
    "set_auto_stop",
    "suspend",
    "tell_of_ending_terms",
]
