"""The verbs of rentals: open them for confirmed orders, move them, and take the wishes of customers and operators.

Locks, in this order: credit line, order, host and cards, rental. A wish is one transaction that talks to no engine;
`rentals.reconcile` closes the distance between the wish and the machine.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.models import CreditLine, User
from catalog import inventory
from catalog.models import Host, Offer
from orders import actions as orders
from orders.models import Order, Subscription
from rentals import metering
from rentals.models import Member, Rental, RentalEvent
from rentals.rules import deadline_after

logger = logging.getLogger(__name__)

Status, Desired, Meter = Rental.Status, Rental.Desired, Rental.Meter
BEFORE_RUNNING = frozenset({Status.RESERVED, Status.CREATING, Status.BOOTING, Status.VERIFYING})
OVER = frozenset({Status.GONE, Status.FAILED})


# --- refusals --------------------------------------------------------------------------------------------------------


class IllegalMove(Exception):
    """A move that the transition table does not have: a bug or a race, never a customer's mistake."""


class RentalRefused(Exception):
    """A wish that cannot be granted; nothing has changed. `message` and `next_step` are for the customer."""

    code = "refused"
    message: str | Promise = _("This is not possible.")
    next_step: str | Promise = ""

    def __init__(self) -> None:
        super().__init__(self.code)


class NotNow(RentalRefused):
    """The state of the rental does not allow it."""

    code = "not_now"

    def __init__(self, rental: Rental) -> None:
        super().__init__()
        self.message = _("“%(name)s” is %(status)s; this is not possible now.") % {
            "name": rental.name,
            "status": rental.get_status_display(),
        }


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


# --- opening ---------------------------------------------------------------------------------------------------------


def open_rentals(*, at: datetime) -> list[int]:
    """Make the rentals of every confirmed order and move the order to provisioning; the new rentals' ids.

    Repeated or parallel runs make nothing twice: the order's row is locked, the unit is the rental's unique key.
    """
    waiting = Order.objects.filter(status=Order.Status.CONFIRMED).order_by("pk").values_list("pk", flat=True)
    opened: list[int] = []
    for order_id in waiting:
        try:
            opened += _open_rentals_of(order_id, at)
        except UnitWithoutCards:
            # One broken order must not stop the others; it stays confirmed and is found again.
            logger.exception("order %s has units without cards", order_id)
    return opened


class UnitWithoutCards(Exception):
    """A confirmed unit that holds no cards: a bug in claiming or releasing."""


@transaction.atomic
def _open_rentals_of(order_id: int, at: datetime) -> list[int]:
    order = Order.objects.select_for_update(no_key=True, skip_locked=True).filter(pk=order_id).first()
    if order is None or order.status != Order.Status.CONFIRMED:
        return []
    subscriptions = list(
        Subscription.objects.filter(order_line__order=order).select_related("order_line__offer").order_by("pk")
    )
    placements = inventory.placements([one.unit for one in subscriptions])
    lacking = [one.unit for one in subscriptions if one.unit not in placements]
    if lacking or not subscriptions:
        raise UnitWithoutCards(f"{order_id}: {lacking}")
    pools = dict(Host.objects.filter(pk__in={p.host_id for p in placements.values()}).values_list("pk", "pool_id"))
    rentals = Rental.objects.bulk_create(
        _new_rental(one, pools[placements[one.unit].host_id], at) for one in subscriptions
    )
    Member.objects.bulk_create(
        Member(rental=rental, ordinal=0, host_id=placed.host_id, cards=list(placed.serials))
        for rental in rentals
        for placed in [placements[rental.key]]
    )
    RentalEvent.objects.bulk_create(
        RentalEvent(rental=rental, kind=RentalEvent.Kind.STATUS, what=Status.RESERVED, at=at) for rental in rentals
    )
    orders.mark_provisioning(order_id=order_id, at=at)
    return [rental.pk for rental in rentals]


def _new_rental(subscription: Subscription, pool_id: int, at: datetime) -> Rental:
    line = subscription.order_line
    return Rental(
        key=subscription.unit,
        organization_id=subscription.organization_id,
        project_id=subscription.project_id,
        order_line=line,
        subscription=subscription,
        name=f"gpu-{subscription.unit.hex[:6]}",
        pool_id=pool_id,
        public_keys=line.public_keys,
        next_step_at=at,
        created_at=at,
    )


# --- moving ----------------------------------------------------------------------------------------------------------


def locked(rental_id: int) -> Rental:
    """The rental under its row lock, for the running transaction, with what its meter needs."""
    return (
        Rental.objects.select_for_update(no_key=True, of=("self",))
        .select_related("subscription__organization", "order_line__offer")
        .get(pk=rental_id)
    )


def move_rental(
    *, rental: Rental, to: str, at: datetime, actor: User | None = None, outcome: str = "", **changes: Any
) -> None:
    """Change a rental's status, the only code that does, with the fields that go with it and an event.

    The caller holds the row's lock (`locked`). Raises IllegalMove where the transition table has no such arrow.
    """
    if to not in Rental.NEXT.get(rental.status, set()):
        raise IllegalMove(f"{rental.name}: {rental.status} → {to}")
    rental.status = to
    for name, value in changes.items():
        setattr(rental, name, value)
    rental.save(update_fields=["status", *changes])
    note(rental=rental, kind=RentalEvent.Kind.STATUS, what=to, at=at, actor=actor, outcome=outcome)


def note(*, rental: Rental, kind: str, what: str, at: datetime, actor: User | None = None, outcome: str = "") -> None:
    """A line in the rental's timeline."""
    RentalEvent.objects.create(rental=rental, kind=kind, what=what, outcome=outcome, actor=actor, at=at)


# --- wishes ----------------------------------------------------------------------------------------------------------


@transaction.atomic
def request_stop(*, rental_id: int, actor: User | None, at: datetime) -> Rental:
    """Stop the machine, keep its disk. By the hour the card meter ends and the disk's begins with this request.

    Repeating it changes nothing. Raises NotNow unless it runs.
    """
    rental = locked(rental_id)
    if rental.status in {Status.STOPPING, Status.STOPPED} and rental.desired == Desired.STOPPED:
        return rental
    if rental.status != Status.RUNNING:
        raise NotNow(rental)
    metering.open_meter(rental=rental, meter=Meter.DISK_GB_HOUR, at=at)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="stop", at=at, actor=actor)
    move_rental(rental=rental, to=Status.STOPPING, at=at, actor=actor, **_soon(at), desired=Desired.STOPPED)
    return rental


@transaction.atomic
def request_start(*, rental_id: int, actor: User | None, at: datetime) -> Rental:
    """Start a stopped machine on the server that keeps its disk. By the hour its cards are claimed anew.

    The disk's meter runs until the machine was logged into again; then the card meter begins. An hourly unit's
    headroom stayed committed while it was stopped, so none is taken; but a credit line that no longer carries what
    is committed refuses. Repeating it changes nothing. Raises NotNow, TermOver, NoCredit or NoCapacity.
    """
    seen = Rental.objects.select_related("subscription").get(pk=rental_id)
    if seen.desired == Desired.RUNNING and seen.status in {Status.STARTING, *BEFORE_RUNNING, Status.RUNNING}:
        return seen
    _require_stopped(seen, at)
    cards: dict[int, list[str]] = {}
    if seen.subscription.term == "hour":
        _require_credit(seen.organization_id)
        # Host and cards are locked before the rental; a parallel start that lost is refused below and rolled back.
        cards = _claim_again(seen, at)
    rental = locked(rental_id)
    _require_stopped(rental, at)
    for ordinal, serials in cards.items():
        rental.members.filter(ordinal=ordinal).update(cards=serials)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="start", at=at, actor=actor)
    deadline = deadline_after(rental.order_line.offer.kind, at)
    move_rental(
        rental=rental,
        to=Status.STARTING,
        at=at,
        actor=actor,
        **_soon(at),
        desired=Desired.RUNNING,
        deadline_at=deadline,
    )
    return rental


def _require_stopped(rental: Rental, at: datetime) -> None:
    if rental.status != Status.STOPPED:
        raise NotNow(rental)
    subscription = rental.subscription
    if subscription.ended_at is not None or (subscription.ends_at is not None and subscription.ends_at <= at):
        raise TermOver


def _require_credit(organization_id: int) -> None:
    line = CreditLine.objects.get(organization_id=organization_id)
    if line.standing != CreditLine.Standing.GOOD or line.available_minor < line.committed_minor:
        raise NoCredit


def _claim_again(rental: Rental, at: datetime) -> dict[int, list[str]]:
    """Cards on the members' own hosts, by ordinal; a disk does not travel."""
    cards = {}
    for member in rental.members.order_by("ordinal"):
        try:
            placed = inventory.claim(
                pool_id=rental.pool_id,
                cards_per_unit=len(member.cards),
                holders=[rental.key],
                at=at,
                host_id=member.host_id,
            )
        except inventory.PoolBusy:
            raise Busy from None
        except inventory.NotEnoughCards:
            raise NoCapacity from None
        cards[member.ordinal] = list(placed[0].serials)
    return cards


@transaction.atomic
def request_terminate(*, rental_id: int, actor: User | None, at: datetime, why: str = "terminate") -> Rental:
    """Delete the machine and its disk, from any state. Meters and the subscription end with this request.

    The cards stay taken until the engine said that the machine is gone. Repeating it changes nothing.
    Raises NotNow when the rental is over already.
    """
    seen = Rental.objects.get(pk=rental_id)
    if seen.status in OVER:
        raise NotNow(seen)
    if seen.status != Status.DESTROYING:
        orders.end_subscription(subscription_id=seen.subscription_id, at=at)
    rental = locked(rental_id)
    if rental.status in OVER:
        raise NotNow(rental)
    if rental.status == Status.DESTROYING:
        return rental
    metering.close_meter(rental=rental, at=at)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what=why, at=at, actor=actor)
    move_rental(
        rental=rental, to=Status.DESTROYING, at=at, actor=actor, **_soon(at), desired=Desired.GONE, deadline_at=None
    )
    return rental


def _soon(at: datetime) -> dict[str, Any]:
    """What every wish resets. A step under way keeps its lock; its result no longer fits and is dropped."""
    return {"next_step_at": at, "attempts": 0, "absences": 0, "reason": ""}


# --- operators -------------------------------------------------------------------------------------------------------


@transaction.atomic
def retry(*, rental_id: int, actor: User, at: datetime) -> Rental:
    """An operator says: try again. A machine that never ran is made anew as the next generation, its leftovers
    destroyed first; one that ran before is started again, and a changed host key is accepted by this decision.

    Raises NotNow unless the rental waits for an operator.
    """
    rental = locked(rental_id)
    if rental.status != Status.NEEDS_OPERATOR:
        raise NotNow(rental)
    changes = _soon(at) | {"deadline_at": deadline_after(rental.order_line.offer.kind, at), "failure": ""}
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="retry", at=at, actor=actor, outcome=rental.reason)
    if rental.running_at is None:
        move_rental(
            rental=rental,
            to=Status.CREATING,
            at=at,
            actor=actor,
            **changes,
            generation=rental.generation + 1,
            host_key="",
            host_key_fingerprint="",
        )
        return rental
    if rental.reason == "host_key_changed":
        changes |= {"host_key": "", "host_key_fingerprint": ""}
    move_rental(rental=rental, to=Status.STARTING, at=at, actor=actor, **changes)
    return rental


def destroy_by_operator(*, rental_id: int, actor: User, at: datetime) -> Rental:
    """An operator ends a rental that waits for one, or any other. What was paid in advance is finance's to settle."""
    return request_terminate(rental_id=rental_id, actor=actor, at=at, why="destroyed_by_operator")


# --- time ------------------------------------------------------------------------------------------------------------


def enforce_terms(*, at: datetime) -> int:
    """Stop terms that are over, and release what was kept its days after a stop or an expiry; how many changed.

    Safe to repeat. Each rental is a transaction of its own, so that one that cannot be moved holds up no other.
    """
    changed = 0
    for rental_id in _expired(at):
        changed += _attempt(expire_term, rental_id, at)
    for rental_id in _kept_long_enough(at):
        changed += _attempt(_release, rental_id, at)
    return changed


def _attempt(act: Any, rental_id: int, at: datetime) -> int:
    try:
        act(rental_id=rental_id, at=at)
    except (RentalRefused, IllegalMove, orders.IllegalMove):
        logger.exception("rental %s cannot be moved at the end of its term or keeping", rental_id)
        return 0
    return 1


def _expired(at: datetime) -> Sequence[int]:
    # A machine that was just being started when its term ended is stopped once it runs.
    due = Q(subscription__ended_at__isnull=True) | Q(status=Status.RUNNING)
    return list(
        Rental.objects.filter(due, subscription__ends_at__lte=at)
        .exclude(status__in=[*OVER, Status.DESTROYING])
        .order_by("pk")
        .values_list("pk", flat=True)
    )


def _kept_long_enough(at: datetime) -> Sequence[int]:
    def days(setting: str) -> datetime:
        return at - timedelta(days=getattr(settings, setting))

    is_cluster = Q(order_line__offer__kind=Offer.Kind.CLUSTER)
    return list(
        Rental.objects.exclude(status__in=[*OVER, Status.DESTROYING])
        .filter(
            Q(subscription__term="hour", status=Status.STOPPED, stopped_at__lte=days("STOPPED_RETENTION_DAYS"))
            | (~is_cluster & Q(subscription__ends_at__lte=days("EXPIRED_RETENTION_DAYS")))
            | (is_cluster & Q(subscription__ends_at__lte=days("CLUSTER_RETENTION_DAYS")))
        )
        .order_by("pk")
        .values_list("pk", flat=True)
    )


@transaction.atomic
def expire_term(*, rental_id: int, at: datetime) -> None:
    """The prepaid term is over: the subscription ends, the machine stops, its cards go back, its disk is kept."""
    seen = Rental.objects.select_related("subscription").get(pk=rental_id)
    ends_at = seen.subscription.ends_at
    if ends_at is None or ends_at > at:
        raise NotNow(seen)
    orders.end_subscription(subscription_id=seen.subscription_id, at=ends_at)
    if seen.status == Status.STOPPED:
        inventory.release([seen.key], at=at)
    rental = locked(rental_id)
    note(rental=rental, kind=RentalEvent.Kind.WISH, what="term_over", at=at)
    if rental.status == Status.RUNNING:
        move_rental(rental=rental, to=Status.STOPPING, at=at, **_soon(at), desired=Desired.STOPPED)
    elif rental.status == Status.STOPPED and seen.status != Status.STOPPED:
        raise NotNow(rental)


def _release(*, rental_id: int, at: datetime) -> None:
    request_terminate(rental_id=rental_id, actor=None, at=at, why="kept_long_enough")
