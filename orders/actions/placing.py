"""Placing an order: everything is checked, held, committed and frozen in one transaction, or nothing is."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext_lazy as _

from accounts import actions as accounts
from accounts.models import CreditLine, Organization, Project, SshKey, User
from accounts.queries import email_is_verified
from catalog import inventory
from catalog.models import Image, Offer
from catalog.queries import current_prices
from marketplace.lib.money import Money
from orders.actions.refusals import (
    BadChoice,
    Busy,
    EmailNotVerified,
    NoHeadroom,
    OfferUnavailable,
    PriceChanged,
    RequestKeyReused,
    SoldOut,
)
from orders.actions.subscriptions import open_subscriptions, unit_headroom
from orders.models import Order, OrderEvent, OrderLine, Term
from orders.pricing import METER_OF_TERM, advance_amount, term_end

MAX_UNITS = 64
MAX_PERIODS = {Term.HOUR: 1, Term.MONTH: 36, Term.YEAR: 5}
MAX_REQUEST_KEY = 64
SELLABLE_KINDS = frozenset({Offer.Kind.GPU, Offer.Kind.SERVER})


@dataclass(frozen=True, slots=True)
class Wish:
    """One line as it will be frozen: rates per card and per GB-hour are decided, stock is not asked yet."""

    offer: Offer
    image: Image
    quantity: int
    term: str
    periods: int
    rate: Decimal
    disk_rate: Decimal


@dataclass(frozen=True, slots=True)
class Buyer:
    """Who orders, for which project, with which keys; `request_key` is the same on every repeat of one wish."""

    organization: Organization
    project: Project
    actor: User
    request_key: str
    ssh_keys: Sequence[SshKey]

    @property
    def public_keys(self) -> list[str]:
        return [key.public_key for key in self.ssh_keys]


def place_order(
    *,
    organization: Organization,
    project: Project,
    actor: User,
    request_key: str,
    offer: Offer,
    quantity: int,
    term: str,
    periods: int,
    image: Image,
    ssh_keys: Sequence[SshKey],
    seen_rate: Decimal,
    at: datetime,
) -> Order:
    """Order units of one offer at its current price, which must be the rate the buyer saw.

    Hourly: headroom is committed, the cards are taken and the order is confirmed. Month and year: the cards are held
    until `hold_expires_at` and the order awaits its payment. `offer` comes with its GPU model, pool and region loaded.

    Idempotent: the same request key gives the first order back, also when two requests run at once. Raises a subclass
    of OrderRefused, after which nothing has changed.
    """
    periods = 1 if term == Term.HOUR else periods
    buyer = Buyer(organization, project, actor, request_key, ssh_keys)
    try:
        check_line(offer=offer, image=image, quantity=quantity, term=term, periods=periods)
        check_buyer(buyer)
        rate, disk_rate = rates_now(offer=offer, term=term, currency=organization.currency, at=at)
        if rate != seen_rate:
            raise PriceChanged(seen_rate=seen_rate, new_rate=rate, currency=organization.currency)
        wish = Wish(offer, image, quantity, term, periods, rate, disk_rate)
        return place(buyer, [wish], at=at)
    except (BadChoice, OfferUnavailable, EmailNotVerified, PriceChanged, NoHeadroom, SoldOut, IntegrityError):
        # A repeated request may be refused (the first one took the last card) and is still the first one's order.
        earlier = Order.objects.filter(organization=organization, request_key=request_key).first()
        if earlier is None:
            raise
    line = earlier.lines.get()
    asked = (offer.pk, image.pk, quantity, term, periods, project.pk, sorted(buyer.public_keys))
    made = (line.offer_id, line.image_id, line.quantity, line.term, line.periods, earlier.project_id)
    if asked != (*made, sorted(line.public_keys)):
        raise RequestKeyReused(earlier)
    return earlier


def check_line(*, offer: Offer, image: Image, quantity: int, term: str, periods: int) -> None:
    """Whether a line can be sold at all; asks the database nothing. Raises OfferUnavailable or BadChoice."""
    if not offer.enabled or offer.quote_only or offer.kind not in SELLABLE_KINDS or offer.pool is None:
        raise OfferUnavailable
    if offer.gpu_model is None or offer.pool.paused_reason or not offer.region.enabled:
        raise OfferUnavailable
    if term not in Term.values:
        raise BadChoice("term", _("Choose hour, month or year."))
    if not 1 <= quantity <= MAX_UNITS:
        raise BadChoice("quantity", _("Order between 1 and %(most)d units at once.") % {"most": MAX_UNITS})
    if not 1 <= periods <= MAX_PERIODS[Term(term)]:
        raise BadChoice("periods", _("Choose between 1 and %(most)d.") % {"most": MAX_PERIODS[Term(term)]})
    if not image.enabled or image.software_stack != offer.gpu_model.software_stack:
        raise BadChoice("image", _("This image does not run on these cards. Choose another one."))


def check_buyer(buyer: Buyer) -> None:
    """Whether the buyer may order this way. Raises BadChoice or EmailNotVerified."""
    if not buyer.request_key or len(buyer.request_key) > MAX_REQUEST_KEY:
        raise BadChoice("request_key", _("The form is out of date. Open it again."))
    if buyer.project.organization_id != buyer.organization.pk:
        raise BadChoice("project", _("Choose a project of your organization."))
    if any(key.organization_id != buyer.organization.pk for key in buyer.ssh_keys):
        raise BadChoice("ssh_keys", _("Choose a key of your organization."))
    if not buyer.ssh_keys:
        raise BadChoice("ssh_keys", _("Choose at least one SSH key; it is the only way into the machine."))
    if not email_is_verified(buyer.actor):
        raise EmailNotVerified


def rates_now(*, offer: Offer, term: str, currency: str, at: datetime) -> tuple[Decimal, Decimal]:
    """The current rate per card and the rate per GB-hour of a stopped machine's disk.

    Raises BadChoice where the term has no price in this currency: an unknown price is never taken as zero.
    """
    prices = current_prices([offer.pk], currency=currency, at=at).get(offer.pk, {})
    price, disk = prices.get(METER_OF_TERM[term]), prices.get("disk_gb_hour")
    # A stopped term keeps its price; only an hourly machine pays for its disk.
    if price is None or (term == Term.HOUR and disk is None and offer.disk_gb):
        raise BadChoice("term", _("This offer has no price for this term. Choose another one."))
    return price.rate, disk.rate if disk else Decimal(0)


def place(buyer: Buyer, wishes: Sequence[Wish], *, at: datetime) -> Order:
    """Hold the cards of every line and write the order, in one transaction. Buyer and wishes are already checked.

    Raises NoHeadroom, SoldOut, BadChoice, or IntegrityError when the request key is taken.
    """
    organization = buyer.organization
    lines = [_line(wish, organization.currency, buyer.public_keys) for wish in wishes]
    with transaction.atomic():
        _freeze(organization, at)
        _commit_headroom(organization, lines)
        for line in sorted(lines, key=lambda line: line.offer.pool_id or 0):
            _hold(line, organization, at)
        return _write(buyer, lines, at)


def _line(wish: Wish, currency: str, public_keys: list[str]) -> OrderLine:
    amount = advance_amount(
        term=wish.term,
        cards=wish.quantity * wish.offer.cards_per_unit,
        rate=wish.rate,
        currency=currency,
        periods=wish.periods,
    )
    return OrderLine(
        offer=wish.offer,
        image=wish.image,
        public_keys=public_keys,
        quantity=wish.quantity,
        cards_per_unit=wish.offer.cards_per_unit,
        disk_gb=wish.offer.disk_gb or 0,
        term=wish.term,
        periods=wish.periods,
        rate=wish.rate,
        disk_rate=wish.disk_rate,
        amount_minor=amount.minor,
        tax_percent=Decimal(settings.TAX_PERCENT),
        tax_code=settings.TAX_CODE,
        units=[uuid.uuid4() for _unit in range(wish.quantity)],
    )


def _freeze(organization: Organization, at: datetime) -> None:
    """The first order fixes currency and zone, and they must still be the ones the price was shown in."""
    if organization.frozen_at is not None:
        return
    same = Organization.objects.filter(pk=organization.pk, currency=organization.currency, zone=organization.zone)
    if not same.filter(frozen_at__isnull=True).update(frozen_at=at) and not same.exists():
        raise BadChoice(
            "currency", _("Your organization's currency or time zone has just changed. Open the form again.")
        )


def _commit_headroom(organization: Organization, lines: Sequence[OrderLine]) -> None:
    """Commit what the hourly units need. Either way the credit line's row is locked, so that two requests of one
    organization follow each other and a double click meets the first one's order."""
    needed = sum(unit_headroom(line, organization.currency) * line.quantity for line in lines)
    if not needed:
        list(CreditLine.objects.select_for_update(no_key=True).filter(organization=organization).values_list("pk"))
        return
    try:
        accounts.take_headroom(organization_id=organization.pk, amount_minor=needed)
    except accounts.NoHeadroom as refusal:
        raise NoHeadroom(
            needed=Money(refusal.needed_minor, organization.currency),
            headroom=Money(refusal.headroom_minor, organization.currency),
        ) from None


def _hold(line: OrderLine, organization: Organization, at: datetime) -> None:
    """Take the cards of every unit of the line, each unit on one host. Raises SoldOut."""
    until = None
    if line.term != Term.HOUR:
        latest_start = at + timedelta(minutes=settings.ORDER_HOLD_MINUTES)
        _anchor, until = term_end(started_at=latest_start, term=line.term, periods=line.periods, zone=organization.zone)
    if line.offer.pool_id is None:
        raise OfferUnavailable
    try:
        inventory.claim(
            pool_id=line.offer.pool_id, cards_per_unit=line.cards_per_unit, holders=line.units, at=at, until=until
        )
    except inventory.PoolBusy as refusal:
        raise Busy(refusal.free_units) from None
    except inventory.NotEnoughCards as refusal:
        raise SoldOut(refusal.free_units) from None


def _write(buyer: Buyer, lines: Sequence[OrderLine], at: datetime) -> Order:
    total_minor = sum(line.amount_minor for line in lines)
    status = Order.Status.AWAITING_PAYMENT if total_minor else Order.Status.CONFIRMED
    order = Order.objects.create(
        organization=buyer.organization,
        project=buyer.project,
        placed_by=buyer.actor,
        request_key=buyer.request_key,
        status=status,
        currency=buyer.organization.currency,
        total_minor=total_minor,
        placed_at=at,
        hold_expires_at=at + timedelta(minutes=settings.ORDER_HOLD_MINUTES) if total_minor else None,
    )
    for line in lines:
        line.order = order
    OrderLine.objects.bulk_create(lines)
    OrderEvent.objects.create(order=order, status=status, actor=buyer.actor, at=at)
    open_subscriptions(order, [line for line in lines if line.term == Term.HOUR or not total_minor])
    return order
