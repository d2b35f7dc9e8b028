"""Several offers in one order: every line is claimed, or none is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import IntegrityError
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization, Project, SshKey, User
from accounts.queries import email_is_verified
from catalog.models import Image, Offer
from catalog.queries import current_prices
from orders.actions.placing import Buyer, Wish, check_buyer, check_line, known_rates, place, repeated
from orders.actions.refusals import BadChoice, EmailNotVerified, OrderRefused, PriceChanged
from orders.basket import MAX_LINES
from orders.models import Order, Term
from orders.pricing import METER_OF_TERM
from orders.queries import ordered_before


@dataclass(frozen=True, slots=True)
class Wanted:
    """One line as the buyer saw it, `seen_rate` per card. `offer` comes with GPU model, pool and region loaded."""

    offer: Offer
    image: Image
    quantity: int
    term: str
    periods: int
    seen_rate: Decimal


def place_basket(
    *,
    organization: Organization,
    project: Project,
    actor: User,
    request_key: str,
    wanted: Sequence[Wanted],
    ssh_keys: Sequence[SshKey],
    at: datetime,
) -> Order:
    """Order several lines at their current prices, which must be the rates the buyer saw: all of them or none.

    Hourly lines alone are confirmed at once. With a month or year among them the order awaits its payment as a whole;
    the cards of every line are held and the credit of the hourly ones is kept ready until then.

    Idempotent as `place_order` is. Raises a subclass of OrderRefused, whose `position` is the line it is about, after
    which nothing has changed.
    """
    buyer = Buyer(organization, project, actor, request_key, ssh_keys)
    try:
        if not 1 <= len(wanted) <= MAX_LINES:
            raise BadChoice("lines", _("An order has between 1 and %(most)d lines.") % {"most": MAX_LINES})
        check_buyer(buyer)
        if not email_is_verified(actor):
            raise EmailNotVerified
        return place(buyer, _wishes(wanted, organization, at), at=at)
    except (OrderRefused, IntegrityError):
        # A repeated request may be refused (the first one took the last card) and is still the first one's order.
        earlier = ordered_before(organization, request_key)
        if earlier is None:
            raise
    asked = [(one.offer.pk, one.image.pk, one.quantity, one.term, _periods(one)) for one in wanted]
    return repeated(earlier, buyer, asked)


def _wishes(wanted: Sequence[Wanted], organization: Organization, at: datetime) -> list[Wish]:
    currency = organization.currency
    prices = current_prices([one.offer.pk for one in wanted], currency, at, organization_id=organization.pk)
    wishes = []
    for position, one in enumerate(wanted):
        own = prices[one.offer.pk]
        price, disk = own.get(METER_OF_TERM.get(one.term, "")), own.get("disk_gb_hour")
        try:
            check_line(offer=one.offer, image=one.image, quantity=one.quantity, term=one.term, periods=_periods(one))
            rate, disk_rate = known_rates(
                price.rate if price else None, disk.rate if disk else None, offer=one.offer, term=one.term
            )
            if rate != one.seen_rate:
                raise PriceChanged(seen_rate=one.seen_rate, new_rate=rate, currency=currency)
        except OrderRefused as refusal:
            raise refusal.about(position) from None
        wishes.append(Wish(one.offer, one.image, one.quantity, one.term, _periods(one), rate, disk_rate))
    return wishes


def _periods(one: Wanted) -> int:
    """By the hour an order has no end."""
    return 1 if one.term == Term.HOUR else one.periods
