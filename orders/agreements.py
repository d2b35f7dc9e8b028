"""What an organization has agreed apart from its orders, as billing asks for it month by month.

Months are `[start, end)`: instants of the organization's zone. Nothing here knows what was billed: every answer is the
same however often it is asked, and names its facts, so that billing can hold each to one charge.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db.models import Exists, OuterRef, QuerySet

from accounts.models import Organization
from marketplace.lib import clock, money
from orders import pricing
from orders.models import Commitment, OrderLine, Pack, Service, Subscription, VolumeTier
from orders.queries import UNSETTLED

MONTHS_OF = {Service.Interval.MONTH: 1, Service.Interval.YEAR: 12}
RENEWS_WITHIN, RENEWS_FROM_HOUR = timedelta(days=7), 9
NEVER = datetime.max.replace(tzinfo=UTC)


# --- services --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ServiceCharge:
    """One charge of a service: once, or for one of its periods. `amount_minor` is gross."""

    service: Service
    fact: str
    period_start: datetime
    period_end: datetime | None
    amount_minor: int

    @property
    def tax_minor(self) -> int:
        return pricing.tax_within(self.amount_minor, self.service.tax_percent)


def service_charges_due(organization_id: int, *, until: datetime) -> list[ServiceCharge]:
    """Every charge of the organization's services whose period begins before `until`, billed or not, oldest first.

    A service that ends inside a period is charged the part of it, by the whole anchor period. A charge never changes
    once its period has begun.
    """
    services = Service.objects.filter(organization=organization_id).select_related("organization", "project")
    charges = [charge for service in services for charge in charges_of(service, until=until)]
    return sorted(charges, key=lambda charge: (charge.period_start, charge.service.pk))


def organizations_with_services(*, until: datetime) -> list[int]:
    """Whose services could have a charge before `until`."""
    # A day of any zone begins at most 14 hours before the same day of UTC does.
    day = clock.local_date(until, "Pacific/Kiritimati")
    found = Service.objects.filter(starts_on__lte=day).values_list("organization_id", flat=True)
    return sorted(set(found))


def charges_of(service: Service, *, until: datetime) -> list[ServiceCharge]:
    """The charges of one service; needs its organization loaded."""
    zone, whole = service.organization.zone, service_amount(service.quantity, service.rate, service.currency)
    if service.interval == Service.Interval.ONCE:
        start = clock.local_midnight(service.starts_on, zone)
        return [ServiceCharge(service, f"service:{service.key}", start, None, whole)] if start < until else []
    ends_at = clock.local_midnight(service.ends_on, zone) if service.ends_on else None
    charges = []
    for start, end in service_periods(service, until=until):
        if ends_at is not None and start >= ends_at:
            break
        used = (start, end if ends_at is None else min(end, ends_at))
        amount = pricing.prorated(whole, used=used, period=(start, end))
        fact = f"service:{service.key}:{clock.local_date(start, zone).isoformat()}"
        charges.append(ServiceCharge(service, fact, start, used[1], amount))
    return charges


def service_periods(service: Service, *, until: datetime) -> list[pricing.Period]:
    """The anchor periods of a recurring service that begin before `until`, whether or not it has ended by then."""
    return list(
        pricing.anchor_periods(
            starts_on=service.starts_on,
            months=MONTHS_OF[Service.Interval(service.interval)],
            zone=service.organization.zone,
            until=until,
        )
    )


def service_amount(quantity: Decimal, rate: Decimal, currency: str) -> int:
    """Quantity × unit price in minor units, rounded once."""
    return money.minor(quantity * rate, currency)


# --- commitments -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class CommitmentDue:
    """What an organization pays for a month at least, gross; of a first or last month its share."""

    commitment: Commitment
    committed_minor: int


def commitments_of(organization_id: int, *, start: datetime, end: datetime) -> list[CommitmentDue]:
    """The commitments in force in the month `[start, end)`, in order of time: two where one followed another."""
    rows = Commitment.objects.filter(organization=organization_id).overlapping(start, end).order_by("valid_from")
    return [
        CommitmentDue(
            row,
            pricing.committed_in(row.amount_minor, month=(start, end), valid=(row.valid_from, row.valid_to or NEVER)),
        )
        for row in rows
    ]


# --- volume tiers ----------------------------------------------------------------------------------------------------
def tiers_of(organization_id: int, *, start: datetime) -> dict[str, tuple[pricing.Tier, ...]]:
    """The volume tiers of the month that begins at `start`, by class of cards. A class for which the organization has
    tiers of its own has only those; others have everybody's. Tiers that begin later count from the next month on."""
    rows = VolumeTier.objects.in_force(start).order_by("from_card_hours")
    everybody, own = _by_class(rows.filter(organization=None)), _by_class(rows.filter(organization=organization_id))
    return everybody | own


def _by_class(rows: QuerySet[VolumeTier]) -> dict[str, tuple[pricing.Tier, ...]]:
    tiers: dict[str, tuple[pricing.Tier, ...]] = {}
    for row in rows:
        tier = pricing.Tier(row.from_card_hours, row.discount_percent)
        tiers[row.gpu_class] = (*tiers.get(row.gpu_class, ()), tier)
    return tiers


def class_of(subscription: Subscription) -> str:
    """The class whose tiers and packs this subscription's card-hours count for. Needs the offer's GPU model loaded."""
    model = subscription.order_line.offer.gpu_model
    return model.rental_class if model else ""


# --- packs -----------------------------------------------------------------------------------------------------------
def packs_of(organization_id: int, *, start: datetime, end: datetime) -> list[pricing.PackLeft]:
    """What is left of the packs that may pay for use in `[start, end)`, oldest first."""
    rows = Pack.objects.filter(organization=organization_id, starts_at__lt=end, expires_at__gt=start)
    return [
        pricing.PackLeft(row.pk, row.gpu_class, row.left_seconds, row.starts_at, row.expires_at)
        for row in rows.order_by("starts_at", "pk")
        if row.starts_at is not None and row.expires_at is not None and row.left_seconds
    ]


def packs_bought(organization: Organization) -> QuerySet[Pack]:
    """All packs of an organization that were paid, the newest first."""
    return Pack.objects.filter(organization=organization, starts_at__isnull=False).order_by("-starts_at", "-pk")


# --- terms that renew themselves -------------------------------------------------------------------------------------
def terms_to_renew(*, at: datetime) -> list[Subscription]:
    """Running terms that renew themselves, within seven days of their end, once it is nine in the morning where they
    are billed; those for which an order is under way are not among them. The first to end comes first."""
    under_way = OrderLine.objects.filter(continues=OuterRef("pk"), order__status__in=UNSETTLED)
    terms = (
        Subscription.objects.filter(
            ~Exists(under_way), auto_renew=True, ended_at__isnull=True, ends_at__gt=at, ends_at__lte=at + RENEWS_WITHIN
        )
        .select_related("organization", "order_line__offer")
        .order_by("ends_at", "pk")
    )
    return [term for term in terms if at.astimezone(ZoneInfo(term.organization.zone)).hour >= RENEWS_FROM_HOUR]
