"""What happened to an organization's machines, in plain words. Engine calls and steps on the way are not told here:
the timeline of each machine has them."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import Q
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization
from marketplace.lib.feed import Cursor, Line, below
from rentals.models import Rental, RentalEvent
from rentals.progress import what_happened

Status, Kind = Rental.Status, RentalEvent.Kind
# On top of what happened at the same instant to its order.
RANK: Final = 3

WISHED: dict[str, str | Promise] = {
    "stop": _("A stop of %(object)s was requested."),
    "start": _("A start of %(object)s was requested."),
    "terminate": _("The termination of %(object)s was requested."),
    "retry": _("Another attempt to make %(object)s was ordered."),
    "destroyed_by_operator": _("%(object)s was ended by our staff."),
    "converted": _("%(object)s is paid by its term from now on, no longer by the hour."),
    "term_over": _("The term of %(object)s has ended."),
    "suspend_arrears": _("%(object)s was suspended: the balance is below zero."),
    "suspend_operator": _("%(object)s was suspended by our staff."),
    "resume": _("The suspension of %(object)s was taken back."),
    "arrears_unpaid": _(
        "%(object)s was kept for as long as agreed, the balance stayed below zero, and it is deleted now."
    ),
    "budget": _("%(object)s was stopped by a budget that is used up."),
    "restored": _("A new term of %(object)s was paid; it is started on the same cards."),
    "kept_long_enough": _("%(object)s was kept for as long as agreed and is deleted now."),
}
OTHER_WISH = _("%(object)s: %(what)s")
REACHED: dict[str, str | Promise] = {
    Status.RUNNING: _("%(object)s is running: login and cards were checked."),
    Status.STOPPED: _("%(object)s has stopped; its disk is kept."),
    Status.SUSPENDED: _("%(object)s is suspended; its disk is kept."),
    Status.GONE: _("%(object)s and its disk were deleted."),
    Status.FAILED: _("%(object)s could not be made; its cards were released."),
    Status.LOST: _("%(object)s was lost: the data centre no longer has it."),
    Status.NEEDS_OPERATOR: _("%(object)s waits for our staff."),
}


def activity(organization: Organization, before: Cursor | None, limit: int) -> list[Line]:
    """The newest wishes for its machines and the states these reached, below the cursor, newest first, in one query."""
    told = Q(kind=Kind.WISH) | Q(kind=Kind.STATUS, what__in=REACHED)
    events = (
        RentalEvent.objects.filter(told, below(before, RANK), rental__organization=organization)
        .select_related("rental", "actor")
        .order_by("-at", "-pk")[:limit]
    )
    return [_line(event) for event in events]


def _line(event: RentalEvent) -> Line:
    rental, actor = event.rental, event.actor
    sentence, params = _sentence(event)
    return Line(
        at=event.at,
        rank=RANK,
        pk=event.pk,
        sentence=sentence,
        name=rental.name,
        page="rentals:detail",
        key=rental.key,
        params=params,
        actor_id=event.actor_id,
        actor=actor.email if actor else "",
        by_staff=bool(actor and actor.is_staff),
    )


def _sentence(event: RentalEvent) -> tuple[str | Promise, dict[str, Any]]:
    if event.kind == Kind.STATUS:
        return REACHED[event.what], {}
    if event.what in WISHED:
        return WISHED[event.what], {}
    return OTHER_WISH, {"what": what_happened(event)}
