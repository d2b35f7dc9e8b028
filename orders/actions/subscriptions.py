"""The life of what is billed: a subscription starts when its machine is handed over and ends once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_lazy as _

from accounts.actions import give_back_headroom
from accounts.models import CreditLine
from marketplace.lib.refusals import Refusal
from orders.actions.moving import IllegalMove, locked, move_order
from orders.actions.refunding import refund_order
from orders.models import Extension, Order, OrderLine, Pack, Subscription, Term
from orders.pricing import extended_end, headroom, term_end

Status = Order.Status
CONFIRMED_OR_LATER = frozenset({Status.CONFIRMED, Status.PROVISIONING, Status.ACTIVE, Status.ENDED, Status.FAILED})
RAN = frozenset({Status.PROVISIONING, Status.ACTIVE})


class HoldGone(Refusal):
    """The order was cancelled and its cards released before the money came; the money must go elsewhere."""

    code = "hold_gone"
    message = _("The order was cancelled before the payment arrived.")


@transaction.atomic
def confirm(*, order_id: int, at: datetime) -> Order:
    """The order is paid: from here on it is provisioned, and every unit has its subscription. An extension moves the
    end of its term on, in this transaction.

    Repeating it changes nothing. Raises HoldGone when the order was cancelled before: its cards are gone and the
    caller must see to the money.
    """
    order = locked(order_id)
    if order.status in CONFIRMED_OR_LATER:
        return order
    if order.status == Status.CANCELLED:
        raise HoldGone
    if order.kind == Order.Kind.RENEWAL:
        return _confirm_renewal(order, at)
    if order.kind == Order.Kind.PACK:
        return _confirm_pack(order, at)
    open_subscriptions(order, [line for line in order.lines.order_by("pk") if line.term != Term.HOUR])
    return move_order(order_id=order_id, to=Status.CONFIRMED, actor=None, at=at, paid_at=at)


def _confirm_renewal(order: Order, at: datetime) -> Order:
    """Every term of a paid extension ends later by what was bought; where one has ended, all is owed back."""
    confirmed = move_order(order_id=order.pk, to=Status.CONFIRMED, actor=None, at=at, paid_at=at)
    lines = list(order.lines.order_by("continues_id"))
    terms = (
        Subscription.objects.select_for_update(no_key=True, of=("self",))
        .select_related("organization")
        .in_bulk([line.continues_id for line in lines])
    )
    if any(term.ended_at is not None for term in terms.values()):
        refund_order(order=confirmed, at=at)
        return move_order(
            order_id=order.pk, to=Status.FAILED, actor=None, at=at, note="the term had ended before the payment came"
        )
    for line in lines:
        _move_end(terms[line.continues_id], line, at)
    return move_order(order_id=order.pk, to=Status.ACTIVE, actor=None, at=at)


def _confirm_pack(order: Order, at: datetime) -> Order:
    """A paid pack can be used at once, for its months."""
    pack = Pack.objects.select_related("organization").get(order=order)
    _anchor, expires_at = term_end(started_at=at, term=Term.MONTH, periods=pack.months, zone=pack.organization.zone)
    pack.starts_at, pack.expires_at = at, expires_at
    pack.save(update_fields=["starts_at", "expires_at"])
    move_order(order_id=order.pk, to=Status.CONFIRMED, actor=None, at=at, paid_at=at)
    return move_order(order_id=order.pk, to=Status.ACTIVE, actor=None, at=at)


def _move_end(subscription: Subscription, line: OrderLine, at: datetime) -> None:
    if subscription.ends_at is None or subscription.anchor_day is None:
        raise ValueError(f"{subscription.pk}: a term without an end cannot be extended")
    end = extended_end(
        ends_at=subscription.ends_at,
        anchor_day=subscription.anchor_day,
        term=line.term,
        periods=line.periods,
        zone=subscription.organization.zone,
    )
    Extension.objects.create(
        subscription=subscription, order_line=line, starts_at=subscription.ends_at, ends_at=end, at=at
    )
    subscription.ends_at = end
    subscription.save(update_fields=["ends_at"])


def open_subscriptions(order: Order, lines: Sequence[OrderLine]) -> None:
    """One subscription for each unit of these lines. Hourly lines get theirs when the order is placed, because they
    commit headroom from then on; prepaid ones when it is paid."""
    Subscription.objects.bulk_create(
        Subscription(
            organization_id=order.organization_id,
            project_id=order.project_id,
            order_line=line,
            unit=unit,
            term=line.term,
            periods=line.periods,
            cards=line.cards_per_unit,
            disk_gb=line.disk_gb,
            currency=order.currency,
            rate=line.rate,
            disk_rate=line.disk_rate,
            tax_percent=line.tax_percent,
            tax_code=line.tax_code,
            headroom_minor=unit_headroom(line, order.currency),
        )
        for line in lines
        for unit in line.units
    )


def unit_headroom(line: OrderLine, currency: str) -> int:
    """What one unit of this line commits on the credit line, in minor units; nothing when it is paid in advance."""
    if line.term != Term.HOUR:
        return 0
    return headroom(cards=line.cards_per_unit, rate=line.rate, hours=settings.HEADROOM_HOURS, currency=currency).minor


@transaction.atomic
def start_term(*, subscription_id: int, started_at: datetime) -> Subscription:
    """The machine was verified at `started_at`: the term runs from here to 00:00 local after its last day.

    An hourly subscription only notes its start. Repeating it changes nothing: the first start counts.
    """
    subscription = (
        Subscription.objects.select_for_update(no_key=True, of=("self",))
        .select_related("organization")
        .get(pk=subscription_id)
    )
    if subscription.started_at is not None:
        return subscription
    subscription.started_at = started_at
    if subscription.term != Term.HOUR:
        subscription.anchor_day, subscription.ends_at = term_end(
            started_at=started_at,
            term=subscription.term,
            periods=subscription.periods,
            zone=subscription.organization.zone,
        )
    subscription.save(update_fields=["started_at", "anchor_day", "ends_at"])
    return subscription


@transaction.atomic
def end_subscription(*, subscription_id: int, at: datetime) -> bool:
    """End one subscription: its headroom returns to the credit line, and the order ends with its last one.

    True when this call ended it; repeating it changes nothing.
    """
    subscription = Subscription.objects.select_related("order_line").get(pk=subscription_id)
    if not close(subscription, at):
        return False
    _end_orders(subscription, at)
    return True


@transaction.atomic
def expire_subscription(*, subscription_id: int, at: datetime) -> datetime | None:
    """End a term whose time is over by `at`, at its end; when that was. None when it was extended meanwhile or has no
    end: then nothing has changed. Repeating it gives the same instant."""
    subscription = (
        Subscription.objects.select_for_update(no_key=True, of=("self",))
        .select_related("order_line")
        .get(pk=subscription_id)
    )
    ends_at = subscription.ends_at
    if ends_at is None or ends_at > at:
        return None
    if close(subscription, ends_at):
        _end_orders(subscription, ends_at)
    return ends_at


def _end_orders(subscription: Subscription, at: datetime) -> None:
    """The order of a subscription that ended, once it was its last; with it, what extended it."""
    order = locked(subscription.order_line.order_id)
    open_ones = Subscription.objects.filter(order_line__order=order, ended_at__isnull=True)
    if order.status in RAN and not open_ones.exists():
        move_order(order_id=order.pk, to=Status.ENDED, actor=None, at=at)
    extended = Order.objects.filter(lines__extension__subscription=subscription, status=Status.ACTIVE)
    for order_id in extended.order_by("pk").values_list("pk", flat=True):
        move_order(order_id=order_id, to=Status.ENDED, actor=None, at=at)


@transaction.atomic
def fail_order(*, order_id: int, at: datetime, note: str = "") -> Order:
    """None of its machines ever ran: the order failed and every subscription ends, headroom returned.

    Repeating it changes nothing. Raises IllegalMove on an order that is active or was never confirmed.
    """
    close_all(order_id, at)
    order = locked(order_id)
    if order.status == Status.FAILED:
        return order
    if Status.FAILED not in Order.NEXT.get(order.status, set()):
        raise IllegalMove(order, Status.FAILED)
    return move_order(order_id=order_id, to=Status.FAILED, actor=None, at=at, note=note)


def close_all(order_id: int, at: datetime) -> None:
    """End every subscription of an order that will not run. Call it before locking the order: the credit line,
    which this touches, comes first in the order of locks."""
    for subscription in Subscription.objects.filter(order_line__order=order_id, ended_at__isnull=True).order_by("pk"):
        close(subscription, at)


def close(subscription: Subscription, at: datetime) -> bool:
    """Write the end once and give its headroom back; False when somebody already had."""
    if subscription.headroom_minor:
        # The credit line comes first in the order of locks; what goes on with this subscription takes it so too.
        line = CreditLine.objects.select_for_update(no_key=True).filter(organization=subscription.organization_id)
        list(line.values_list("pk"))
    ended = Subscription.objects.filter(pk=subscription.pk, ended_at__isnull=True).update(ended_at=at)
    if ended and subscription.headroom_minor:
        give_back_headroom(organization_id=subscription.organization_id, amount_minor=subscription.headroom_minor)
    return bool(ended)
