"""Quotes: prices frozen line by line, versions that are never edited once sent, acceptance that places the order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from django.db import connection, transaction
from django.db.models import Max
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.models import Notification, Organization, Project, SshKey, User
from accounts.notices import notify
from accounts.queries import email_is_verified
from catalog.models import Image, Offer
from marketplace.lib import clock
from marketplace.lib.refusals import Refusal
from orders.actions.placing import Buyer, Wish, check_buyer, check_line, place, rates_now
from orders.actions.refusals import BadChoice, EmailNotVerified
from orders.models import Order, Quote, QuoteEvent, QuoteLine, Term
from orders.pricing import advance_amount, discounted

Status = Quote.Status
ASKED = (
    "origin", "need", "contact_name", "contact_company", "contact_email", "contact_phone", "request_note", "asked",
)  # fmt: skip
COPIED = (
    "position", "offer_id", "image_id", "quantity", "term", "periods",
    "list_rate", "discount_percent", "rate", "disk_rate", "amount_minor",
)  # fmt: skip


class QuoteRefused(Refusal):
    """This cannot be done with the quote."""


class IllegalQuoteMove(QuoteRefused):
    """The quote's status has no such arrow."""

    def __init__(self, quote: Quote) -> None:
        message = _("A quote in the state “%(state)s” does not allow this.") % {"state": quote.get_status_display()}
        super().__init__("illegal_move", message)
        self.quote = quote


def locked_quote(quote_id: int) -> Quote:
    """The quote under its row lock. It is taken before any lock that placing an order takes."""
    return Quote.objects.select_for_update(no_key=True, of=("self",)).select_related("organization").get(pk=quote_id)


@transaction.atomic
def move_quote(*, quote_id: int, to: str, actor: User | None, at: datetime, order: Order | None = None) -> Quote:
    """Change a quote's status, the only code that does, and leave an event. `order` goes with an acceptance.

    Raises IllegalQuoteMove where the transition table has no such arrow.
    """
    quote = locked_quote(quote_id)
    if to not in Quote.NEXT.get(quote.status, set()):
        raise IllegalQuoteMove(quote)
    quote.status = to
    if order is not None:
        quote.order = order
    quote.save(update_fields=["status", "order"])
    QuoteEvent.objects.create(quote=quote, status=to, actor=actor, at=at)
    return quote


@transaction.atomic
def create_quote(
    *, organization: Organization, actor: User, valid_until: datetime, at: datetime, note: str = ""
) -> Quote:
    """Version 1 of a new quote, an empty draft in the organization's currency."""
    quote = Quote(
        organization=organization,
        currency=organization.currency,
        valid_until=valid_until,
        note=note,
        salesperson=actor,
        created_at=at,
    )
    return first_draft(quote, actor)


def first_draft(quote: Quote, actor: User | None) -> Quote:
    """Save version 1 of a new quote under a number of its own, with its event."""
    quote.pk = _next_quote_id()
    local_day = timezone.localtime(quote.created_at, timezone.get_default_timezone())
    quote.number = f"QT{local_day:%y%m%d}{quote.pk:06d}"
    return _draft(quote, actor)


def _draft(quote: Quote, actor: User | None) -> Quote:
    quote.save(force_insert=True)
    QuoteEvent.objects.create(quote=quote, status=quote.status, actor=actor, at=quote.created_at)
    return quote


def _next_quote_id() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [Quote._meta.db_table])
        return int(cursor.fetchone()[0])


@transaction.atomic
def add_quote_line(
    *,
    quote_id: int,
    offer: Offer,
    image: Image,
    quantity: int,
    term: str,
    periods: int,
    discount_percent: Decimal,
    at: datetime,
) -> QuoteLine:
    """Add a line to a draft at today's list rate less the discount; the line keeps both whatever prices do later.

    Raises IllegalQuoteMove outside draft, OfferUnavailable or BadChoice for a line that cannot be sold.
    """
    quote = _draft_only(quote_id)
    periods = 1 if term == Term.HOUR else periods
    check_line(offer=offer, image=image, quantity=quantity, term=term, periods=periods)
    if not 0 <= discount_percent <= 100:
        raise BadChoice("discount_percent", _("The discount is between 0 and 100 percent."))
    list_rate, disk_rate = rates_now(
        offer=offer, term=term, currency=quote.currency, at=at, organization=quote.organization
    )
    rate = discounted(list_rate, discount_percent)
    amount = advance_amount(
        term=term,
        cards=quantity * offer.cards_per_unit,
        rate=rate,
        currency=quote.currency,
        periods=periods,
    )
    return QuoteLine.objects.create(
        quote=quote,
        position=(quote.lines.aggregate(last=Max("position"))["last"] or 0) + 1,
        offer=offer,
        image=image,
        quantity=quantity,
        term=term,
        periods=periods,
        list_rate=list_rate,
        discount_percent=discount_percent,
        rate=rate,
        disk_rate=disk_rate,
        amount_minor=amount.minor,
    )


@transaction.atomic
def remove_quote_line(*, line_id: int) -> None:
    """Take a line out of a draft. Raises IllegalQuoteMove once it left draft."""
    line = QuoteLine.objects.get(pk=line_id)
    _draft_only(line.quote_id)
    line.delete()


def _draft_only(quote_id: int) -> Quote:
    quote = locked_quote(quote_id)
    if quote.status != Status.DRAFT:
        raise IllegalQuoteMove(quote)
    return quote


@transaction.atomic
def send_quote(*, quote_id: int, actor: User, at: datetime) -> Quote:
    """Make the draft binding and open at its link; who sends a request that nobody took is its salesperson.

    Raises QuoteRefused without an organization, without lines or with a date gone by.
    """
    quote = _draft_only(quote_id)
    if quote.organization is None:
        raise QuoteRefused(
            "no_organization", _("Assign this request to the customer's organization before the quote is sent.")
        )
    if not quote.lines.exists():
        raise QuoteRefused("no_lines", _("A quote needs at least one line before it is sent."))
    if quote.valid_until <= at:
        raise QuoteRefused("valid_until_past", _("The date until which the quote is valid has passed."))
    if quote.currency != quote.organization.currency:
        raise QuoteRefused("currency", _("The organization's currency is no longer the one of this quote."))
    if quote.salesperson_id is None:
        Quote.objects.filter(pk=quote_id).update(salesperson=actor)
    sent = move_quote(quote_id=quote_id, to=Status.SENT, actor=actor, at=at)
    notify(
        organization=quote.organization,
        kind=Notification.Kind.QUOTE_SENT,
        fact=str(quote.key),
        params={
            "number": str(quote) if quote.version > 1 else quote.number,
            "date": clock.read(quote.valid_until, quote.organization.zone),
        },
        page="orders:quote",
        page_args=[quote.token],
        at=at,
    )
    return sent


@transaction.atomic
def assign_quote(*, quote_id: int, organization: Organization, actor: User, at: datetime) -> Quote:
    """Give a visitor's request to the organization it is for; whoever does is its salesperson.

    Raises QuoteRefused when it has one already, or lines priced in another currency than the organization's.
    """
    quote = _draft_only(quote_id)
    if quote.organization is not None:
        raise QuoteRefused("has_organization", _("This quote has an organization already."))
    if quote.currency != organization.currency and quote.lines.exists():
        raise QuoteRefused(
            "currency", _("Its lines are priced in another currency than the organization's. Remove them first.")
        )
    quote.organization, quote.currency, quote.salesperson = organization, organization.currency, actor
    quote.save(update_fields=["organization", "currency", "salesperson"])
    QuoteEvent.objects.create(quote=quote, status=quote.status, actor=actor, at=at)
    return quote


@transaction.atomic
def revise_quote(*, quote_id: int, actor: User, at: datetime, valid_until: datetime | None = None) -> Quote:
    """The next version as a draft with the same frozen lines; this version is superseded and its link says so.

    A declined or expired version stays what it is. Raises IllegalQuoteMove for an accepted or superseded one, and for
    one that is not the latest.
    """
    quote = locked_quote(quote_id)
    latest = Quote.objects.filter(number=quote.number).aggregate(last=Max("version"))["last"]
    if quote.status in {Status.ACCEPTED, Status.SUPERSEDED} or quote.version != latest:
        raise IllegalQuoteMove(quote)
    if quote.status in {Status.DRAFT, Status.SENT}:
        move_quote(quote_id=quote_id, to=Status.SUPERSEDED, actor=actor, at=at)
    successor = _draft(
        Quote(
            number=quote.number,
            version=quote.version + 1,
            organization=quote.organization,
            currency=quote.currency,
            valid_until=valid_until or quote.valid_until,
            note=quote.note,
            salesperson=actor,
            created_at=at,
            **{name: getattr(quote, name) for name in ASKED},
        ),
        actor,
    )
    QuoteLine.objects.bulk_create(
        QuoteLine(quote=successor, **{name: getattr(line, name) for name in COPIED}) for line in quote.lines.all()
    )
    return successor


@transaction.atomic
def accept_quote(*, quote_id: int, project: Project, ssh_keys: Sequence[SshKey], actor: User, at: datetime) -> Order:
    """Place the quote's order at its frozen prices; cards are claimed in the same transaction.

    Accepting again, also in parallel, gives the one order back. Raises QuoteRefused when it is not open (any more) and
    OrderRefused when it cannot be placed; then the quote stays sent and nothing has changed.
    """
    quote = locked_quote(quote_id)
    if quote.order is not None:
        return quote.order
    if quote.status != Status.SENT:
        raise IllegalQuoteMove(quote)
    if quote.valid_until <= at:
        raise QuoteRefused("expired", _("This quote has expired. Ask your salesperson for a new one."))
    organization = quote.organization
    if organization is None or organization.currency != quote.currency:
        raise QuoteRefused("currency", _("The organization's currency is no longer the one of this quote."))
    buyer = Buyer(organization, project, actor, f"quote:{quote.key}", ssh_keys)
    check_buyer(buyer)
    if not email_is_verified(actor):
        raise EmailNotVerified
    order = place(buyer, _wishes(quote), at=at)
    move_quote(quote_id=quote.pk, to=Status.ACCEPTED, actor=actor, at=at, order=order)
    return order


def _wishes(quote: Quote) -> list[Wish]:
    lines = quote.lines.select_related("offer__gpu_model", "offer__pool", "offer__region", "image")
    wishes = [
        Wish(line.offer, line.image, line.quantity, line.term, line.periods, line.rate, line.disk_rate)
        for line in lines
    ]
    for wish in wishes:
        check_line(offer=wish.offer, image=wish.image, quantity=wish.quantity, term=wish.term, periods=wish.periods)
    return wishes


def decline_quote(*, quote_id: int, actor: User, at: datetime) -> Quote:
    """The customer says no. Repeating it changes nothing; raises IllegalQuoteMove when it is not open."""
    with transaction.atomic():
        quote = locked_quote(quote_id)
        if quote.status == Status.DECLINED:
            return quote
        return move_quote(quote_id=quote_id, to=Status.DECLINED, actor=actor, at=at)


def expire_quotes(*, at: datetime) -> int:
    """Mark sent quotes whose last instant has passed; how many this call marked."""
    due = Quote.objects.filter(status=Status.SENT, valid_until__lte=at).order_by("pk")
    marked = 0
    for quote_id in list(due.values_list("pk", flat=True)):
        try:
            move_quote(quote_id=quote_id, to=Status.EXPIRED, actor=None, at=at)
        except IllegalQuoteMove:
            continue  # accepted or superseded since the list was read
        marked += 1
    return marked
