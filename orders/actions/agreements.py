"""The verbs of what is agreed apart from orders: packs are sold and drawn from, services begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization, Project, User
from marketplace.lib import clock
from marketplace.lib.refusals import Refusal
from orders.actions.placing import hold_expiry
from orders.agreements import service_periods
from orders.models import Order, OrderEvent, Pack, PackDraw, Quote, Service
from orders.pricing import SECONDS_PER_HOUR, Draw
from orders.queries import ordered_before

Status = Order.Status


class AgreementRefused(Refusal):
    """This cannot be agreed; nothing has changed."""


@transaction.atomic
def sell_pack(
    *,
    organization: Organization,
    project: Project,
    actor: User,
    request_key: str,
    gpu_class: str,
    card_hours: int,
    price_minor: int,
    months: int,
    at: datetime,
) -> Order:
    """An order for a pack of card-hours, to be paid in advance; the pack can be used from its payment on.

    Repeating it with the same request key gives the first order back. Raises AgreementRefused.
    """
    earlier = ordered_before(organization, request_key)
    if earlier is not None:
        return earlier
    if card_hours < 1 or months < 1 or price_minor < 1 or not gpu_class:
        raise AgreementRefused("bad_pack", _("A pack needs a class, card-hours, months and a price."))
    if project.organization_id != organization.pk:
        raise AgreementRefused("project", _("Choose a project of the organization."))
    order = Order.objects.create(
        kind=Order.Kind.PACK,
        organization=organization,
        project=project,
        placed_by=actor,
        request_key=request_key,
        status=Status.AWAITING_PAYMENT,
        currency=organization.currency,
        total_minor=price_minor,
        placed_at=at,
        hold_expires_at=_payable_until(price_minor, organization, at),
    )
    OrderEvent.objects.create(order=order, status=order.status, actor=actor, at=at)
    Pack.objects.create(
        organization=organization,
        order=order,
        gpu_class=gpu_class,
        card_seconds=card_hours * SECONDS_PER_HOUR,
        price_minor=price_minor,
        tax_percent=Decimal(settings.TAX_PERCENT),
        tax_code=settings.TAX_CODE,
        months=months,
    )
    return order


def _payable_until(price_minor: int, organization: Organization, at: datetime) -> datetime:
    """Nothing is held for a pack, so there is time: the days of a bank transfer, however it is paid."""
    days = clock.after_working_days(at, settings.ORDER_HOLD_BANK_DAYS, organization.zone)
    return max(days, hold_expiry(price_minor, organization, at) or days)


@transaction.atomic
def draw_from_packs(*, draws: Sequence[Draw], at: datetime) -> int:
    """Write down what packs pay, in billing's transaction; how many card-seconds this call took.

    Each (pack, fact) is taken once: repeating it takes nothing. The database holds a pack to what was bought.
    """
    taken = 0
    packs = Pack.objects.select_for_update(no_key=True).order_by("pk").in_bulk({draw.pack_id for draw in draws})
    for draw in draws:
        _made, new = PackDraw.objects.get_or_create(
            pack=packs[draw.pack_id], fact=draw.fact, defaults={"card_seconds": draw.card_seconds, "at": at}
        )
        if new:
            packs[draw.pack_id].used_seconds += draw.card_seconds
            taken += draw.card_seconds
    for pack in packs.values():
        pack.save(update_fields=["used_seconds"])
    return taken


def give_back_to_packs(*, facts: Sequence[str], at: datetime) -> int:
    """Undo what these facts drew, for an invoice that was voided; how many card-seconds went back. Repeating it gives
    nothing more."""
    drawn = PackDraw.objects.filter(fact__in=facts).order_by("pack_id", "pk")
    back = [Draw(one.pack_id, f"{one.fact}:back", -one.card_seconds) for one in drawn]
    return -draw_from_packs(draws=back, at=at)


@transaction.atomic
def add_service(
    *,
    organization: Organization,
    project: Project,
    actor: User,
    title_zh: str,
    title_en: str,
    interval: str,
    quantity: Decimal,
    rate: Decimal,
    starts_on: date,
    at: datetime,
    ends_on: date | None = None,
    tax_percent: Decimal | None = None,
    tax_code: str = "",
    quote: Quote | None = None,
) -> Service:
    """A service that is charged from its first day on, in the organization's currency. Raises AgreementRefused."""
    if project.organization_id != organization.pk:
        raise AgreementRefused("project", _("Choose a project of the organization."))
    if quote is not None and quote.organization_id != organization.pk:
        raise AgreementRefused("quote", _("This quote is another organization's."))
    if ends_on is not None and (ends_on <= starts_on or interval == Service.Interval.ONCE):
        raise AgreementRefused("ends_on", _("Only what recurs has an end, and that after its first day."))
    return Service.objects.create(
        organization=organization,
        project=project,
        quote=quote,
        title_zh=title_zh,
        title_en=title_en,
        interval=interval,
        quantity=quantity,
        currency=organization.currency,
        rate=rate,
        tax_percent=Decimal(settings.TAX_PERCENT) if tax_percent is None else tax_percent,
        tax_code=tax_code or settings.TAX_CODE,
        starts_on=starts_on,
        ends_on=ends_on,
        created_by=actor,
        created_at=at,
    )


@transaction.atomic
def end_service(*, service_id: int, ends_on: date, at: datetime) -> Service:
    """The first day without it. A period that has begun is paid and stays whole; of a later one its part is charged.

    Raises AgreementRefused for a day inside of what has begun, and for what is charged once.
    """
    service = (
        Service.objects.select_for_update(no_key=True, of=("self",)).select_related("organization").get(pk=service_id)
    )
    if service.interval == Service.Interval.ONCE:
        raise AgreementRefused("once", _("This is charged once; it has no end."))
    zone = service.organization.zone
    begun = service_periods(service, until=at + timedelta(microseconds=1))
    earliest = clock.local_date(begun[-1][1], zone) if begun else service.starts_on + timedelta(days=1)
    if service.ends_on is not None and clock.local_midnight(service.ends_on, zone) <= at:
        raise AgreementRefused("ended", _("This service has ended already."))
    if ends_on < earliest:
        raise AgreementRefused(
            "too_early",
            _("The period that has begun is charged; the first day without it is %(day)s at the earliest.")
            % {"day": earliest.isoformat()},
        )
    service.ends_on = ends_on
    service.save(update_fields=["ends_on"])
    return service
