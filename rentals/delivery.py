"""How fast we deliver and answer, measured on rentals and their events and written down for the catalogue."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from catalog.models import DeliveryRecord


def measure_delivery(*, at: datetime) -> int:
    """Write today's DeliveryRecord of every pool, over the last `settings.DELIVERY_WINDOW_DAYS` days; how many pools.

    A machine counts on the day it first ran: from the moment its order was confirmed to the login that found its cards,
    waiting of every kind included. Machines given up without having run are counted beside them, a customer's own
    change of mind is not. A fault is answered by the first act of a staff member on that machine after it. Measuring
    again replaces today's rows; rows of past days stay. The day is the site's.
    """
    since = at - timedelta(days=settings.DELIVERY_WINDOW_DAYS)
    with connection.cursor() as cursor:
        cursor.execute(_MEASURE, {"since": since, "at": at})
        names = [column.name for column in cursor.description]
        measured = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    day = timezone.localdate(at, timezone.get_default_timezone())
    common: dict[str, Any] = {"measured_on": day, "measured_at": at, "since": since}
    DeliveryRecord.objects.bulk_create(
        (DeliveryRecord(**common, **figures) for figures in measured),
        update_conflicts=True,
        unique_fields=["pool", "measured_on"],
        update_fields=["measured_at", "since", *(name for name in names if name != "pool_id")],
    )
    return len(measured)


# The percentiles are figures that were really measured (disc), not values between two of them.
_MEASURE = """
WITH confirmed AS (
  SELECT order_id, min(at) AS at FROM orders_orderevent WHERE status = 'confirmed' GROUP BY order_id
), delivery AS (
  SELECT r.pool_id, greatest(0, extract(epoch FROM r.running_at - c.at)) AS seconds
    FROM rentals_rental r
    JOIN orders_orderline l ON l.id = r.order_line_id
    JOIN confirmed c ON c.order_id = l.order_id
   WHERE r.running_at >= %(since)s AND r.running_at < %(at)s
), delivered AS (
  SELECT pool_id, count(*) AS machines, round(percentile_disc(0.5) WITHIN GROUP (ORDER BY seconds)) AS median,
         round(percentile_disc(0.9) WITHIN GROUP (ORDER BY seconds)) AS p90
    FROM delivery GROUP BY pool_id
), failed AS (
  SELECT pool_id, count(*) AS machines FROM rentals_rental
   WHERE running_at IS NULL AND failure <> '' AND status IN ('failed', 'gone')
     AND ended_at >= %(since)s AND ended_at < %(at)s
   GROUP BY pool_id
), fault AS (
  SELECT r.pool_id, extract(epoch FROM (
           SELECT min(a.at) FROM rentals_rentalevent a JOIN accounts_user u ON u.id = a.actor_id AND u.is_staff
            WHERE a.rental_id = e.rental_id AND a.at >= e.at AND a.at < %(at)s AND a.id > e.id) - e.at) AS seconds
    FROM rentals_rentalevent e JOIN rentals_rental r ON r.id = e.rental_id
   WHERE e.kind = 'status' AND e.what IN ('lost', 'needs_operator') AND e.at >= %(since)s AND e.at < %(at)s
), answered AS (
  SELECT pool_id, count(*) AS faults, count(seconds) AS answers,
         round(percentile_disc(0.5) WITHIN GROUP (ORDER BY seconds)) AS median
    FROM fault GROUP BY pool_id
)
SELECT p.id AS pool_id, coalesce(d.machines, 0) AS delivered, coalesce(f.machines, 0) AS failed,
       d.median::int AS median_seconds, d.p90::int AS p90_seconds, coalesce(a.faults, 0) AS faults,
       coalesce(a.answers, 0) AS answered, a.median::int AS median_answer_seconds
  FROM catalog_pool p
  LEFT JOIN delivered d ON d.pool_id = p.id
  LEFT JOIN failed f ON f.pool_id = p.id
  LEFT JOIN answered a ON a.pool_id = p.id
 ORDER BY p.id"""
