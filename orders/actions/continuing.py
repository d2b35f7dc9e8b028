"""What goes on with a machine that runs: more time for its term, or a term in place of the hour.

Each is an order of its own, paid like any other that is paid in advance; its line names the subscription it continues.
Nothing is interrupted, and until the payment nothing has changed.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import CreditLine, User
from accounts.queries import email_is_verified
from catalog import inventory
from catalog.models import Offer
from orders.actions.placing import MAX_REQUEST_KEY, hold_expiry, rates_now, spend_budget
from orders.actions.refunding import refund_order
from orders.actions.refusals import (
    BadChoice,
    CardsReserved,
    EmailNotVerified,
    NotRunning,
    OfferUnavailable,
    OrderRefused,
    PriceChanged,
    RequestKeyReused,
    StillUnpaid,
)
from orders.actions.subscriptions import fail_order
from orders.basket import MAX_PERIODS
from orders.models import Order, OrderEvent, OrderLine, Subscription, Term
from orders.pricing import advance_amount, extended_end, term_end
from orders.queries import ordered_before, unsettled_order_of

Kind = Order.Kind


@dataclass(frozen=True, slots=True)
class More:
    """What is wished for a running subscription: `periods` months or years at the rate per card that was seen."""

    subscription_id: int
    actor: User | None
    request_key: str
    term: str
    periods: int
    seen_rate: Decimal


def extend_term(
    *,
    subscription_id: int,
    actor: User | None,
    request_key: str,
    term: str,
    periods: int,
    seen_rate: Decimal,
    at: datetime,
) -> Order:
    """Order more time for a running term, at today's price of its offer, which must be the rate that was seen.

    The order awaits its payment until its hold expires, at the latest when the term ends. Once paid, the end moves on
    from the old end by these months or years, on the term's own anchor day. The cards simply stay.

    Idempotent: the same request key gives the first order back, also when two requests run at once. Raises a subclass
    of OrderRefused, after which nothing has changed.
    """
    return _order(Kind.RENEWAL, More(subscription_id, actor, request_key, term, periods, seen_rate), at)


def convert_to_term(
    *,
    subscription_id: int,
    actor: User | None,
    request_key: str,
    term: str,
    periods: int,
    seen_rate: Decimal,
    at: datetime,
) -> Order:
    """Order a term for a machine that runs by the hour, without an interruption; or for one whose term is over while
    its disk is kept.

    By the hour: until it is paid the hour goes on. At the instant of the payment the hourly subscription ends and the
    term begins; `rentals` closes the meter there. A kept machine: once it is paid, `rentals` takes the same cards, if
    they are still free, and the term begins when the machine runs; otherwise all is owed back. Idempotent and refused
    as `extend_term`.
    """
    return _order(Kind.CONVERSION, More(subscription_id, actor, request_key, term, periods, seen_rate), at)


def _order(kind: Kind, more: More, at: datetime) -> Order:
    organization = Subscription.objects.select_related("organization").get(pk=more.subscription_id).organization
    try:
        return _place(kind, more, at)
    except (OrderRefused, IntegrityError):
        earlier = ordered_before(organization, more.request_key)
        if earlier is None:
            raise
    return _repeated(earlier, kind, more)


def _repeated(earlier: Order, kind: Kind, more: More) -> Order:
    """The order that the request key has already made, if it is the one asked for. Raises RequestKeyReused."""
    lines = list(earlier.lines.values_list("continues_id", "term", "periods"))
    if earlier.kind != kind or lines != [(more.subscription_id, more.term, more.periods)]:
        raise RequestKeyReused(earlier)
    return earlier


@transaction.atomic
def _place(kind: Kind, more: More, at: datetime) -> Order:
    _check(more)
    subscription = _locked(more.subscription_id)
    _expect_running(kind, subscription, at)
    organization, offer = subscription.organization, subscription.order_line.offer
    rate, disk_rate = rates_now(
        offer=offer, term=more.term, currency=subscription.currency, at=at, organization=organization
    )
    if rate != more.seen_rate:
        raise PriceChanged(seen_rate=more.seen_rate, new_rate=rate, currency=subscription.currency)
    amount = advance_amount(
        term=more.term, cards=subscription.cards, rate=rate, currency=subscription.currency, periods=more.periods
    )
    spend_budget(organization, subscription.project, amount.minor, at)
    expires_at = hold_expiry(amount.minor, organization, at) or at + timedelta(minutes=settings.ORDER_HOLD_MINUTES)
    last_moment = kept_until(subscription) if subscription.ended_at is not None else subscription.ends_at
    if last_moment is not None:
        expires_at = min(expires_at, last_moment)
    _expect_unreserved(subscription, more, latest_start=expires_at, at=at)
    order = Order.objects.create(
        kind=kind,
        organization=organization,
        project_id=subscription.project_id,
        placed_by=more.actor,
        request_key=more.request_key,
        status=Order.Status.AWAITING_PAYMENT,
        currency=subscription.currency,
        total_minor=amount.minor,
        placed_at=at,
        hold_expires_at=expires_at,
    )
    OrderLine.objects.create(
        order=order,
        offer=offer,
        image_id=subscription.order_line.image_id,
        public_keys=subscription.order_line.public_keys,
        quantity=1,
        cards_per_unit=subscription.cards,
        disk_gb=subscription.disk_gb,
        term=more.term,
        periods=more.periods,
        rate=rate,
        disk_rate=disk_rate,
        amount_minor=amount.minor,
        tax_percent=Decimal(settings.TAX_PERCENT),
        tax_code=settings.TAX_CODE,
        # An extension is for the unit there is; a term in place of the hour is the machine's next subscription.
        units=[subscription.unit if kind == Kind.RENEWAL else uuid.uuid4()],
        continues=subscription,
    )
    OrderEvent.objects.create(order=order, status=order.status, actor=more.actor, at=at)
    return order


def _check(more: More) -> None:
    """What can be said without the database. Raises BadChoice."""
    if not more.request_key or len(more.request_key) > MAX_REQUEST_KEY:
        raise BadChoice("request_key", _("The form is out of date. Open it again."))
    if more.term not in {Term.MONTH, Term.YEAR}:
        raise BadChoice("term", _("Choose month or year."))
    if not 1 <= more.periods <= MAX_PERIODS[Term(more.term)]:
        raise BadChoice("periods", _("Choose between 1 and %(most)d.") % {"most": MAX_PERIODS[Term(more.term)]})
    if more.actor is not None and not email_is_verified(more.actor):
        raise EmailNotVerified


def _locked(subscription_id: int) -> Subscription:
    """The subscription under its row lock, taken after its credit line's: requests of one organization follow each
    other, and a double click meets the first one's order."""
    organization_id = Subscription.objects.values_list("organization_id", flat=True).get(pk=subscription_id)
    list(CreditLine.objects.select_for_update(no_key=True).filter(organization=organization_id).values_list("pk"))
    return (
        Subscription.objects.select_for_update(no_key=True, of=("self",))
        .select_related("organization", "project", "order_line__offer__gpu_model", "order_line__offer__pool")
        .get(pk=subscription_id)
    )


def _expect_running(kind: Kind, subscription: Subscription, at: datetime) -> None:
    if kind != Kind.CONVERSION or not is_kept(subscription, at):
        _expect_going_on(kind, subscription, at)
    waiting = unsettled_order_of(subscription)
    if waiting is not None:
        raise StillUnpaid(waiting)


def _expect_going_on(kind: Kind, subscription: Subscription, at: datetime) -> None:
    if subscription.is_hourly != (kind == Kind.CONVERSION):
        raise NotRunning
    if subscription.started_at is None or subscription.ended_at is not None:
        raise NotRunning
    if subscription.ends_at is not None and subscription.ends_at <= at:
        raise NotRunning


def is_kept(subscription: Subscription, at: datetime) -> bool:
    """Whether the term ran out, and its disk's days have not."""
    until = kept_until(subscription)
    ran_out = subscription.ended_at is not None and subscription.ended_at == subscription.ends_at
    return ran_out and until is not None and at < until


def kept_until(subscription: Subscription) -> datetime | None:
    """Until when the disk of a term is kept after its end. Needs the order line's offer loaded."""
    if subscription.ends_at is None:
        return None
    is_cluster = subscription.order_line.offer.kind == Offer.Kind.CLUSTER
    days = settings.CLUSTER_RETENTION_DAYS if is_cluster else settings.EXPIRED_RETENTION_DAYS
    return subscription.ends_at + timedelta(days=days)


def _expect_unreserved(subscription: Subscription, more: More, *, latest_start: datetime, at: datetime) -> None:
    """The time that is added must not be promised to somebody else."""
    zone, offer = subscription.organization.zone, subscription.order_line.offer
    since, until = span(subscription, term=more.term, periods=more.periods, start=latest_start)
    if subscription.is_hourly or subscription.ended_at is not None:
        since = at
    taken = inventory.reserved_from(pool_id=_pool(offer), since=since, until=until)
    if taken is not None:
        raise CardsReserved(taken, zone)


def span(subscription: Subscription, *, term: str, periods: int, start: datetime) -> tuple[datetime, datetime]:
    """What these months or years would add: behind the end of a term, or from `start` on in place of the hour
    and after a term that is over. Needs
    the organization loaded."""
    zone = subscription.organization.zone
    if subscription.ends_at is None or subscription.anchor_day is None or subscription.ended_at is not None:
        return start, term_end(started_at=start, term=term, periods=periods, zone=zone)[1]
    ends_at, anchor = subscription.ends_at, subscription.anchor_day
    return ends_at, extended_end(ends_at=ends_at, anchor_day=anchor, term=term, periods=periods, zone=zone)


def _pool(offer: Offer) -> int:
    if offer.pool_id is None:
        raise OfferUnavailable
    return offer.pool_id


@transaction.atomic
def fail_conversion(*, order_id: int, at: datetime) -> Order:
    """The machine is stopped or gone since the order was paid: it fails, its term never begins and all is owed back.

    Raises IllegalMove on an order that is not confirmed.
    """
    failed = fail_order(order_id=order_id, at=at, note="the machine no longer ran when the term was to begin")
    refund_order(order=failed, at=at)
    return failed


@transaction.atomic
def set_auto_renew(*, subscription_id: int, on: bool) -> bool:
    """Whether a running term is extended by itself, from its balance, before it ends. Repeating changes nothing.

    Raises NotRunning for what is hourly or over.
    """
    changed = Subscription.objects.filter(pk=subscription_id, ended_at__isnull=True, ends_at__isnull=False).update(
        auto_renew=on
    )
    if not changed:
        raise NotRunning
    return on
