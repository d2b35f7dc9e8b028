"""Placing an order: everything is checked, held, committed and frozen in one transaction, or nothing is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.utils.translation import gettext_lazy as _

from accounts import actions as accounts
from accounts import budgets
from accounts.models import CreditLine, Organization, Project, SshKey, User
from catalog import inventory
from catalog.models import Image, Offer
from catalog.queries import current_prices
from marketplace.lib import clock, prepared
from marketplace.lib.limits import by_bank
from marketplace.lib.money import Money
from orders.actions.refusals import (
    BadChoice,
    BudgetUsedUp,
    Busy,
    EmailNotVerified,
    NoHeadroom,
    OfferUnavailable,
    OrderRefused,
    PriceChanged,
    RequestKeyReused,
    SoldOut,
)
from orders.actions.subscriptions import unit_headroom
from orders.basket import MAX_PERIODS, MAX_UNITS
from orders.models import Order, OrderLine, Term
from orders.pricing import METER_OF_TERM, advance_amount, term_end
from orders.queries import SELLABLE_KINDS, ordered_before, terms_now

MAX_REQUEST_KEY = 64


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
        now = terms_now(offer=offer, meter=METER_OF_TERM[term], organization=organization, user=actor, at=at)
        if not now.email_verified:
            raise EmailNotVerified
        rate, disk_rate = known_rates(now.rate, now.disk_rate, offer=offer, term=term)
        if rate != seen_rate:
            raise PriceChanged(seen_rate=seen_rate, new_rate=rate, currency=organization.currency)
        wish = Wish(offer, image, quantity, term, periods, rate, disk_rate)
        return place(buyer, [wish], at=at)
    except (
        BadChoice,
        OfferUnavailable,
        EmailNotVerified,
        PriceChanged,
        NoHeadroom,
        BudgetUsedUp,
        SoldOut,
        IntegrityError,
    ):
        # A repeated request may be refused (the first one took the last card) and is still the first one's order.
        earlier = ordered_before(organization, request_key)
        if earlier is None:
            raise
    return repeated(earlier, buyer, [(offer.pk, image.pk, quantity, term, periods)])


def repeated(earlier: Order, buyer: Buyer, asked: Sequence[tuple[int, int, int, str, int]]) -> Order:
    """The order that the request key has already made, if it is the one asked for: project, keys and, line by line,
    offer, image, units, term and periods. Raises RequestKeyReused otherwise."""
    keys = sorted(buyer.public_keys)
    made = [
        (line.offer_id, line.image_id, line.quantity, line.term, line.periods, sorted(line.public_keys))
        for line in earlier.lines.all()
    ]
    if earlier.project_id != buyer.project.pk or sorted(made) != sorted((*line, keys) for line in asked):
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
    """Whether the buyer may order this way. Asks the database nothing. Raises BadChoice."""
    if not buyer.request_key or len(buyer.request_key) > MAX_REQUEST_KEY:
        raise BadChoice("request_key", _("The form is out of date. Open it again."))
    if buyer.project.organization_id != buyer.organization.pk:
        raise BadChoice("project", _("Choose a project of your organization."))
    if any(key.organization_id != buyer.organization.pk for key in buyer.ssh_keys):
        raise BadChoice("ssh_keys", _("Choose a key of your organization."))
    if not buyer.ssh_keys:
        raise BadChoice("ssh_keys", _("Choose at least one SSH key; it is the only way into the machine."))


def rates_now(
    *, offer: Offer, term: str, currency: str, at: datetime, organization: Organization | None = None
) -> tuple[Decimal, Decimal]:
    """The current rate per card and the rate per GB-hour of a stopped machine's disk, for an organization by its
    contract. Raises BadChoice."""
    organization_id = organization.pk if organization else None
    prices = current_prices([offer.pk], currency, at, organization_id=organization_id)[offer.pk]
    price, disk = prices.get(METER_OF_TERM[term]), prices.get("disk_gb_hour")
    return known_rates(price.rate if price else None, disk.rate if disk else None, offer=offer, term=term)


def known_rates(rate: Decimal | None, disk_rate: Decimal | None, *, offer: Offer, term: str) -> tuple[Decimal, Decimal]:
    """Both rates where everything that will be billed has one. Raises BadChoice: no price is never taken as zero."""
    # A stopped term keeps its price; only an hourly machine pays for its disk.
    if rate is None or (term == Term.HOUR and disk_rate is None and offer.disk_gb):
        raise BadChoice("term", _("This offer has no price for this term. Choose another one."))
    return rate, disk_rate or Decimal(0)


def place(buyer: Buyer, wishes: Sequence[Wish], *, at: datetime) -> Order:
    """Hold the cards of every line and write the order, in one transaction. Buyer and wishes are already checked.

    Raises NoHeadroom, BudgetUsedUp, SoldOut, BadChoice, or IntegrityError when the request key is taken.
    """
    organization = buyer.organization
    lines = [_line(wish, organization.currency, buyer.public_keys) for wish in wishes]
    expires_at = hold_expiry(sum(line.amount_minor for line in lines), organization, at)
    with transaction.atomic():
        _freeze(organization, at)
        if _commit_headroom(organization, lines):
            spend_budget(organization, buyer.project, sum(line.amount_minor for line in lines), at)
        for position, line in sorted(enumerate(lines), key=lambda numbered: numbered[1].offer.pool_id or 0):
            try:
                _hold(line, organization, at, latest_start=expires_at or at)
            except OrderRefused as refusal:
                raise refusal.about(position) from None
        return _write(buyer, lines, at, hold_expires_at=expires_at)


def hold_expiry(total_minor: int, organization: Organization, at: datetime) -> datetime | None:
    """Until when the cards are held for an order of this sum: minutes to pay online, days for a bank transfer."""
    if not total_minor:
        return None
    if by_bank(total_minor, organization.currency):
        return clock.after_working_days(at, settings.ORDER_HOLD_BANK_DAYS, organization.zone)
    return at + timedelta(minutes=settings.ORDER_HOLD_MINUTES)


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


def _commit_headroom(organization: Organization, lines: Sequence[OrderLine]) -> bool:
    """Commit what the hourly units need. Either way the credit line's row is locked, so that two requests of one
    organization follow each other and a double click meets the first one's order. Whether budgets are to be asked."""
    needed = sum(unit_headroom(line, organization.currency) * line.quantity for line in lines)
    if not needed:
        list(CreditLine.objects.select_for_update(no_key=True).filter(organization=organization).values_list("pk"))
        return True
    try:
        return accounts.take_headroom(organization_id=organization.pk, amount_minor=needed)
    except accounts.NoHeadroom as refusal:
        raise NoHeadroom(
            needed=Money(refusal.needed_minor, organization.currency),
            headroom=Money(refusal.headroom_minor, organization.currency),
        ) from None


def spend_budget(organization: Organization, project: Project, amount_minor: int, at: datetime) -> None:
    """Let budgets of the month that refuse orders pass this one. Call it right after the credit line was locked.
    Raises BudgetUsedUp."""
    try:
        budgets.spend(organization=organization, project_id=project.pk, amount_minor=amount_minor, at=at)
    except budgets.BudgetUsedUp as refusal:
        raise BudgetUsedUp(message=refusal.message) from None


def _hold(line: OrderLine, organization: Organization, at: datetime, *, latest_start: datetime) -> None:
    """Take the cards of every unit of the line, each unit on one host. Raises SoldOut."""
    until = None
    if line.term != Term.HOUR:
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


def _write(buyer: Buyer, lines: Sequence[OrderLine], at: datetime, *, hold_expires_at: datetime | None) -> Order:
    """The order, its lines, its first event and the subscriptions that begin now, in one statement: the locked hosts
    are hot, and every round trip holds them longer."""
    total_minor = sum(line.amount_minor for line in lines)
    status = Order.Status.AWAITING_PAYMENT if total_minor else Order.Status.CONFIRMED
    row: dict[str, Any] = {
        "kind": str(Order.Kind.NEW),
        "key": uuid.uuid4(),
        "organization_id": buyer.organization.pk,
        "project_id": buyer.project.pk,
        "placed_by_id": buyer.actor.pk,
        "request_key": buyer.request_key,
        "status": str(status),
        "currency": buyer.organization.currency,
        "total_minor": total_minor,
        "placed_at": at,
        "hold_expires_at": hold_expires_at,
        "paid_at": None,
    }
    agreed = [_agreed(line, row["currency"], starts_now=not total_minor) for line in lines]
    ((order_id,),) = prepared.fetch_all(_WRITE, {**row, "lines": json.dumps(agreed)})
    return Order.from_db(connection.alias, ["id", *row], [order_id, *row.values()])


def _agreed(line: OrderLine, currency: str, *, starts_now: bool) -> dict[str, Any]:
    """A line as `_WRITE` reads it; exact figures travel as text. Hourly units commit headroom from the placing on, so
    their subscriptions begin with it; prepaid ones wait for the payment, if there is anything to pay."""
    return {
        "offer_id": line.offer_id,
        "image_id": line.image_id,
        "public_keys": line.public_keys,
        "quantity": line.quantity,
        "cards_per_unit": line.cards_per_unit,
        "disk_gb": line.disk_gb,
        "term": str(line.term),
        "periods": line.periods,
        "rate": str(line.rate),
        "disk_rate": str(line.disk_rate),
        "amount_minor": line.amount_minor,
        "tax_percent": str(line.tax_percent),
        "tax_code": line.tax_code,
        "units": [str(unit) for unit in line.units],
        "headroom_minor": unit_headroom(line, currency),
        "subscribes": starts_now or line.term == Term.HOUR,
    }


_WRITE = """
WITH placed AS (
  INSERT INTO orders_order (kind, key, organization_id, project_id, placed_by_id, request_key, status, currency,
                            total_minor, placed_at, hold_expires_at, paid_at)
  VALUES (%(kind)s, %(key)s, %(organization_id)s, %(project_id)s, %(placed_by_id)s, %(request_key)s, %(status)s,
          %(currency)s, %(total_minor)s, %(placed_at)s, %(hold_expires_at)s, %(paid_at)s)
  RETURNING id
), agreed AS (
  SELECT nextval(pg_get_serial_sequence('orders_orderline', 'id')) AS id, line.*
  FROM ROWS FROM (jsonb_to_recordset(%(lines)s::jsonb) AS (
         offer_id bigint, image_id bigint, public_keys text[], quantity int, cards_per_unit int, disk_gb int,
         term text, periods int, rate numeric, disk_rate numeric, amount_minor bigint, tax_percent numeric,
         tax_code text, units uuid[], headroom_minor bigint, subscribes boolean)) AS line
), lines AS (
  INSERT INTO orders_orderline (id, order_id, offer_id, image_id, public_keys, quantity, cards_per_unit, disk_gb, term,
                                periods, rate, disk_rate, amount_minor, tax_percent, tax_code, units)
  SELECT agreed.id, placed.id, offer_id, image_id, public_keys, quantity, cards_per_unit, disk_gb, term, periods, rate,
         disk_rate, amount_minor, tax_percent, tax_code, units
  FROM placed, agreed
), event AS (
  INSERT INTO orders_orderevent (order_id, status, actor_id, at, note)
  SELECT id, %(status)s, %(placed_by_id)s, %(placed_at)s, '' FROM placed
), subscribed AS (
  INSERT INTO orders_subscription (key, organization_id, project_id, order_line_id, unit, term, periods, cards, disk_gb,
                                   currency, rate, disk_rate, tax_percent, tax_code, headroom_minor)
  SELECT gen_random_uuid(), %(organization_id)s, %(project_id)s, agreed.id, unit, term, periods, cards_per_unit,
         disk_gb, %(currency)s, rate, disk_rate, tax_percent, tax_code, headroom_minor
  FROM agreed, unnest(agreed.units) AS unit WHERE subscribes
)
SELECT id FROM placed
"""
