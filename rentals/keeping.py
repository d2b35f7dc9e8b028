"""How long a machine's disk is kept after its stop by the hour, after its term, and while it is suspended for arrears:
days of the settings. The disks of arrears are released by billing, which knows the balance."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q

from catalog.models import Offer
from orders.models import Term
from rentals.models import Rental

Status = Rental.Status


def kept_until(rental: Rental) -> datetime | None:
    """When the disk of a machine that is off is deleted by itself; None while it is not off, a term has no end yet, or
    our staff decides.

    Needs the subscription and the order line's offer loaded.
    """
    if rental.status not in {Status.STOPPED, Status.SUSPENDED}:
        return None
    if rental.subscription.is_hourly and rental.suspended_at is not None:
        in_arrears = rental.suspension == Rental.Suspension.ARREARS
        return rental.suspended_at + timedelta(days=settings.ARREARS_RETENTION_DAYS) if in_arrears else None
    if rental.subscription.is_hourly:
        return rental.stopped_at + timedelta(days=settings.STOPPED_RETENTION_DAYS) if rental.stopped_at else None
    ends_at, is_cluster = rental.subscription.ends_at, rental.order_line.offer.kind == Offer.Kind.CLUSTER
    days = settings.CLUSTER_RETENTION_DAYS if is_cluster else settings.EXPIRED_RETENTION_DAYS
    return ends_at + timedelta(days=days) if ends_at else None


def kept_long_enough(at: datetime) -> Sequence[int]:
    """Ids of rentals whose disk's days are over by `at`, whatever state an expired term was left in."""

    def ago(days: int) -> datetime:
        return at - timedelta(days=days)

    is_cluster = Q(order_line__offer__kind=Offer.Kind.CLUSTER)
    return list(
        Rental.objects.exclude(status__in=[*Rental.OVER, Status.DESTROYING])
        .filter(
            Q(
                subscription__term=Term.HOUR,
                status=Status.STOPPED,
                stopped_at__lte=ago(settings.STOPPED_RETENTION_DAYS),
            )
            | (~is_cluster & Q(subscription__ends_at__lte=ago(settings.EXPIRED_RETENTION_DAYS)))
            | (is_cluster & Q(subscription__ends_at__lte=ago(settings.CLUSTER_RETENTION_DAYS)))
        )
        .order_by("pk")
        .values_list("pk", flat=True)
    )
