"""One rental as it lives, and the questions before stop, start and terminate."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.functional import Promise
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.permissions import can
from marketplace.lib import clock
from marketplace.lib.nudge import nudge
from orders.models import Subscription
from orders.pricing import SECONDS_PER_HOUR, line_amount
from orders.refunds import Offered, refund_of
from rentals import actions, metering, progress, queries, readings, reasons, tasks
from rentals.keeping import kept_until
from rentals.models import AutoStopRule, Rental, RentalEvent
from rentals.presentation import last_second, ssh_command, total
from rentals.views.rules import rules_of

Status, Meter = Rental.Status, Rental.Meter
# Seconds between two looks of an open page.
WHILE_MOVING, WHILE_RESTING = 2, 15
# The newest events; a rental that was watched for years has thousands.
EVENTS_SHOWN = 200
MAY = {
    "stop": {Status.RUNNING},
    "start": {Status.STOPPED},
    "terminate": set(Status) - {*Rental.OVER, Status.DESTROYING},
}


def can_extend(rental: Rental, at: datetime) -> bool:
    """Whether its term runs, so that more time can follow."""
    term = rental.subscription
    return term.ended_at is None and term.ends_at is not None and term.ends_at > at and _is_there(rental)


def can_convert(rental: Rental) -> bool:
    """Whether it runs by the hour, so that a term can take the hour's place."""
    return rental.subscription.is_hourly and rental.status == Status.RUNNING


def can_restore(rental: Rental, at: datetime) -> bool:
    """Whether its term is over and its disk still kept, so that a new term can begin on the same cards."""
    until = kept_until(rental)
    is_over = rental.subscription.ended_at is not None and not rental.subscription.is_hourly
    return is_over and rental.status == Status.STOPPED and until is not None and at < until


def _is_there(rental: Rental) -> bool:
    return rental.status not in {*Rental.OVER, Status.DESTROYING}


class OneRental(OrganizationRequired, View):
    """A view of one rental; another organization's is a 404."""

    def rental(self, key: UUID) -> Rental:
        return get_object_or_404(queries.of_organization(self.organization), key=key)


class RentalDetail(OneRental):
    """One rental: its steps, how to log in, its cards, its meter, what may be done with it."""

    template = "rentals/detail.html"

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        return self.page(self.rental(key))

    def page(self, rental: Rental, refused: Form | None = None, status: int = 200) -> HttpResponse:
        """The page; `refused` is an auto-stop form that came back with errors."""
        at, request = clock.now(), self.request
        may_operate = can(self.membership, "operate")
        context = facts_of(rental, at) | {
            "may_operate": may_operate,
            "sees_bills": can(self.membership, "bills"),
            "said": request.GET.get("seen", rental.status) != rental.status,
            "busy": readings.now(rental, at=at),
            "hour": readings.last_hour(rental, at=at),
            "auto_stop": rules_of(rental, at=at, may_operate=may_operate, refused=refused),
        }
        return render(request, self.template, context, status=status)


class RentalLive(OneRental):
    """The part of the page that refreshes itself."""

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        rental = self.rental(key)
        context = facts_of(rental, clock.now()) | {
            "may_operate": can(self.membership, "operate"),
            "sees_bills": can(self.membership, "bills"),
            "said": request.GET.get("seen", rental.status) != rental.status,
        }
        return render(request, "rentals/_live.html", context)


class RentalUtilisation(OneRental):
    """What its cards do now: the other part that refreshes itself."""

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        rental = self.rental(key)
        context = {"rental": rental, "busy": readings.now(rental, at=clock.now()), "is_demo": rental.pool.is_demo}
        return render(request, "rentals/_busy.html", context)


def facts_of(rental: Rental, at: datetime) -> dict[str, Any]:
    """Everything the page of a rental says, as of `at`."""
    newest_first = rental.events.select_related("actor").order_by("-at", "-pk")[:EVENTS_SHOWN]
    events = list(reversed(newest_first))
    usage = metering.unbilled_and_open(rental=rental, at=at)
    hourly = rental.subscription.is_hourly
    moving = rental.status in Rental.MOVING or rental.reason == "restarting"
    return {
        "rental": rental,
        "members": rental.members.select_related("host"),
        "steps": progress.steps(rental, events),
        "timeline": progress.timeline(events),
        "usage": [(one, Meter(one.meter).label) for one in usage],
        "total": total(rental, usage),
        "prepaid": queries.prepaid(rental),
        "burn": metering.burn(rental) or None,
        "hourly": hourly,
        "since": _metered_since(rental, events),
        "holds_cards": _holds_cards(rental),
        "ends_at": last_second(rental),
        "kept_until": kept_until(rental),
        "ssh": ssh_command(rental) if rental.status == Status.RUNNING else "",
        "stopped_by": _stopped_by(rental, events),
        "suspended": actions.Suspended(rental) if rental.suspension else None,
        "trouble": reasons.explain(
            status=rental.status,
            reason=rental.reason,
            failure=rental.failure,
            hourly=hourly,
            ever_ran=rental.running_at is not None,
        ),
        "is_demo": rental.pool.is_demo,
        "moving": moving,
        "pause": 0 if rental.status in Rental.OVER else WHILE_MOVING if moving else WHILE_RESTING,
        "may": {verb: rental.status in statuses for verb, statuses in MAY.items()}
        | {"extend": can_extend(rental, at), "convert": can_convert(rental), "restore": can_restore(rental, at)},
    }


def _metered_since(rental: Rental, events: list[RentalEvent]) -> datetime | None:
    """When the running meter began; cuts at midnight do not count."""
    began = {Meter.CARD_HOUR: Status.RUNNING, Meter.DISK_GB_HOUR: Status.STOPPING}.get(rental.meter)
    moves = (event.at for event in reversed(events) if event.kind == RentalEvent.Kind.STATUS and event.what == began)
    return next(moves, rental.metered_from)


def _stopped_by(rental: Rental, events: list[RentalEvent]) -> str | Promise:
    """The rule that stopped it, in words; empty where a person did."""
    if rental.status not in {Status.STOPPING, Status.STOPPED}:
        return ""
    stops = {"stop", "budget", *(f"auto_stop_{kind}" for kind in AutoStopRule.Kind.values)}
    last = next((event for event in reversed(events) if event.what in stops), None)
    return progress.what_happened(last) if last is not None and last.what != "stop" else ""


def _holds_cards(rental: Rental) -> bool:
    """A stopped hourly machine and one whose term is over gave theirs back."""
    released = rental.subscription.is_hourly or rental.subscription.ended_at is not None
    return rental.status not in Rental.OVER and not (rental.status in {Status.STOPPED, Status.SUSPENDED} and released)


# --- questions before acting -----------------------------------------------------------------------------------------


class Wish(OneRental):
    """Ask with the consequences (GET), then do it (POST). Works without scripts."""

    verb = "operate"
    name: str
    act: Callable[..., Rental]

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        return self._page(self.rental(key))

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        rental = self.rental(key)
        try:
            self.act(rental_id=rental.pk, actor=request.user, at=clock.now())
        except actions.RentalRefused as refusal:
            return self._page(self.rental(key), refusal, status=409)
        nudge(tasks.step, rental_id=rental.pk)
        return redirect("rentals:detail", key)

    def _page(self, rental: Rental, refusal: actions.RentalRefused | None = None, status: int = 200) -> HttpResponse:
        at = clock.now()
        context = {
            "rental": rental,
            "refusal": refusal,
            "possible": rental.status in MAY[self.name],
            "hourly": rental.subscription.is_hourly,
            "ends_at": last_second(rental),
            "total": total(rental, metering.unbilled_and_open(rental=rental, at=at)),
            "prepaid": queries.prepaid(rental),
            "offered": self.offered(rental, at),
            "retention_days": settings.STOPPED_RETENTION_DAYS,
            "burn_minor": _per_hour(rental, Meter.CARD_HOUR),
            "disk_hour": _rate(rental, Meter.DISK_GB_HOUR),
            "disk_day_minor": _per_hour(rental, Meter.DISK_GB_HOUR, hours=24),
        }
        return render(self.request, f"rentals/{self.name}.html", context, status=status)

    def offered(self, rental: Rental, at: datetime) -> Offered | None:
        """What the wish would pay back; only ending a term does."""
        return None


def _rate(rental: Rental, meter: str) -> Decimal:
    quantity, rate = metering.terms_of(rental.subscription, meter)
    return quantity * rate


def _per_hour(rental: Rental, meter: str, hours: int = 1) -> int:
    quantity, rate = metering.terms_of(rental.subscription, meter)
    currency = rental.subscription.currency
    return line_amount(
        meter=meter, quantity=quantity, rate=rate, currency=currency, seconds=hours * SECONDS_PER_HOUR
    ).minor


class Stop(Wish):
    name = "stop"
    act = staticmethod(actions.request_stop)


class Start(Wish):
    name = "start"
    act = staticmethod(actions.request_start)


class Terminate(Wish):
    name = "terminate"
    act = staticmethod(actions.end_early)

    def offered(self, rental: Rental, at: datetime) -> Offered | None:
        term = Subscription.objects.select_related("organization", "order_line__order").get(pk=rental.subscription_id)
        return None if term.is_hourly or term.ended_at is not None else refund_of(term, at=at)
