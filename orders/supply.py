"""What is known of when sold cards come back. Asked by pages of the catalogue, which knows of no orders itself."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Min, OuterRef, Subquery

from orders.models import Subscription


def earliest_term_ends(pool_ids: Iterable[int], *, at: datetime) -> dict[int, datetime]:
    """By pool: when the first of its running terms ends, unless it is renewed. Hourly units have no known end."""
    running = Subscription.objects.filter(
        order_line__offer__pool__in=list(pool_ids), ended_at__isnull=True, ends_at__gt=at
    )
    return dict(running.values_list("order_line__offer__pool").annotate(Min("ends_at")).order_by())


def first_term_end(pool: OuterRef, *, at: datetime) -> Subquery:
    """As `earliest_term_ends`, of the one pool that another statement names; part of that statement."""
    running = Subscription.objects.filter(order_line__offer__pool=pool, ended_at__isnull=True, ends_at__gt=at)
    return Subquery(running.order_by("ends_at").values("ends_at")[:1])
