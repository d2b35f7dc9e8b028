"""Questions about rentals."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Case, DecimalField, F, QuerySet, Sum, When

from accounts.models import Organization
from marketplace.lib.money import Money
from orders.pricing import METER_OF_TERM, line_amount
from rentals.models import Rental, Utilisation

Meter = Rental.Meter
# A reading older than this says nothing about now: the exporter or its sweep has fallen silent.
READING_HOLDS = timedelta(minutes=3)


def of_organization(organization: Organization) -> QuerySet[Rental]:
    """Its rentals with everything a page shows of each, the newest first."""
    return Rental.objects.filter(organization=organization).select_related(
        "subscription__organization",
        "order_line__offer__gpu_model",
        "order_line__offer__region",
        "order_line__image",
        "pool",
    )


def burn_per_hour(organization_id: int) -> Money:
    """What all open meters of an organization cost in an hour, rounded once."""
    exact = DecimalField(max_digits=30, decimal_places=10)
    total = Rental.objects.filter(organization_id=organization_id, metered_from__isnull=False).aggregate(
        total=Sum(
            Case(
                When(meter=Meter.CARD_HOUR, then=F("subscription__cards") * F("subscription__rate")),
                When(meter=Meter.DISK_GB_HOUR, then=F("subscription__disk_gb") * F("subscription__disk_rate")),
                output_field=exact,
            )
        )
    )["total"]
    currency = Organization.objects.values_list("currency", flat=True).get(pk=organization_id)
    return Money.rounded(total or Decimal(0), currency)


def prepaid(rental: Rental) -> Money | None:
    """What this unit's term cost in advance; None for an hourly one. Needs `subscription` loaded."""
    one = rental.subscription
    if one.is_hourly:
        return None
    return line_amount(
        meter=METER_OF_TERM[one.term], quantity=one.cards, rate=one.rate, currency=one.currency, periods=one.periods
    )


def latest_utilisation(rental_ids: Iterable[int], *, at: datetime | None = None) -> dict[int, Utilisation]:
    """The last reading of each of these rentals that runs, by rental id, with one statement.

    A rental that was never read is missing, and with `at` also one whose reading is too old to be true. Missing is
    "no reading", never zero percent.
    """
    read = Utilisation.objects.filter(
        rental__in=list(rental_ids), rental__status=Rental.Status.RUNNING, read_at__isnull=False
    )
    if at is not None:
        read = read.filter(read_at__gt=at - READING_HOLDS)
    return {one.rental_id: one for one in read}
