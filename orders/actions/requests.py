"""A customer asks for a quote: a draft that sales sees at once, priced as far as the list prices go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db import IntegrityError, transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization, User
from catalog.models import Image, Offer
from orders.actions.quotes import QuoteRefused, add_quote_line, first_draft
from orders.actions.refusals import OrderRefused
from orders.basket import MAX_LINES, Item
from orders.models import Quote
from orders.queries import offers_on_sale

# How long the draft stays valid until sales says otherwise.
REQUEST_DAYS = 30
NO_DISCOUNT = Decimal(0)


@dataclass(frozen=True, slots=True)
class Contact:
    """Who asks and how to reach them; `phone` is international or empty."""

    name: str
    company: str
    email: str
    phone: str


def request_quote(
    *,
    organization: Organization | None,
    actor: User | None,
    contact: Contact,
    currency: str,
    need: str,
    note: str,
    items: Sequence[Item],
    request_key: str,
    at: datetime,
) -> Quote:
    """A draft quote with what the customer wants: the basket as asked, and a line at list price for each item that has
    one and an image that runs on it. A visitor has no organization; sales is mailed and assigns the request to one.

    Idempotent: the same request key gives the first quote back, also when two requests run at once. Raises QuoteRefused
    when there is neither a line nor a note.
    """
    if not items and not note.strip():
        raise QuoteRefused("nothing_asked", _("Say what you need: add offers or describe it."))
    if len(items) > MAX_LINES:
        raise QuoteRefused("too_many_lines", _("The basket holds %(most)d lines.") % {"most": MAX_LINES})
    try:
        with transaction.atomic():
            quote = first_draft(
                Quote(
                    organization=organization,
                    currency=organization.currency if organization else currency,
                    valid_until=at + timedelta(days=REQUEST_DAYS),
                    created_at=at,
                    origin=Quote.Origin.CUSTOMER,
                    need=need,
                    contact_name=contact.name,
                    contact_company=contact.company,
                    contact_email=contact.email,
                    contact_phone=contact.phone,
                    request_note=note.strip(),
                    asked=[str(item) for item in items],
                    request_key=request_key,
                    sales_mail_due_at=at,
                ),
                actor,
            )
            _add_lines(quote, items, at)
            return quote
    except IntegrityError:
        earlier = Quote.objects.filter(request_key=request_key).first()
        if earlier is None:
            raise
        return earlier


def _add_lines(quote: Quote, items: Sequence[Item], at: datetime) -> None:
    offers = {offer.slug: offer for offer in offers_on_sale()} if items else {}
    images = _first_images(offers)
    for item in items:
        offer = offers.get(item.slug)
        image = images.get(offer.gpu_model.software_stack) if offer and offer.gpu_model else None
        if offer is None or image is None:
            continue
        try:
            add_quote_line(
                quote_id=quote.pk,
                offer=offer,
                image=image,
                quantity=item.quantity,
                term=item.term,
                periods=item.periods,
                discount_percent=NO_DISCOUNT,
                at=at,
            )
        except OrderRefused:
            continue  # sold on quote only, paused or without a price: the request says it, sales prices it


def _first_images(offers: Mapping[str, Offer]) -> dict[str, Image]:
    """The first image by name of each software stack that is asked for."""
    stacks = {offer.gpu_model.software_stack for offer in offers.values() if offer.gpu_model}
    images: dict[str, Image] = {}
    for image in Image.objects.filter(enabled=True, software_stack__in=stacks).order_by("name", "pk"):
        images.setdefault(image.software_stack, image)
    return images
