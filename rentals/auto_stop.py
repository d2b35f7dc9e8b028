"""Which auto-stop rules are due. Only reads; `rentals.actions.auto_stop` acts on it, under locks, after another look.

An idle window counts only when it was watched: readings of every card, none busy, and no gap longer than WATCHED. A
reading holds until the next, so the last one before the window counts too: the time runs from the first idle reading,
and from no earlier than the machine's last start and the rule itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from marketplace.lib.money import Money
from rentals import metering
from rentals.models import AutoStopRule, Rental

Kind, Status = AutoStopRule.Kind, Rental.Status

# Readings come once a minute, the one of a minute at the latest 40 seconds into it. A minute without any is a gap.
WATCHED = timedelta(seconds=110)
MOST_MINUTES = 24 * 60
# At most so many rules are looked at in one sweep, those that were set first before the others.
BATCH = 500

IDLE = """
SELECT rule.id
FROM rentals_autostoprule rule
JOIN rentals_rental rental ON rental.id = rule.rental_id AND rental.status = 'running'
JOIN orders_subscription subscription ON subscription.id = rental.subscription_id
CROSS JOIN LATERAL (SELECT %(at)s - rule.minutes * interval '1 minute' AS begins) span
JOIN LATERAL (
    SELECT max(event.at) AS started
    FROM rentals_rentalevent event
    WHERE event.rental_id = rental.id AND event.kind = 'status' AND event.what = 'running'
) life ON life.started <= span.begins
CROSS JOIN LATERAL (
    SELECT coalesce(max(at), span.begins) AS since
    FROM rentals_utilisationsample
    WHERE rental_id = rental.id AND at BETWEEN life.started AND span.begins
) held
JOIN LATERAL (
    SELECT max(reading.busiest) AS busiest, min(reading.cards_read) AS cards, max(reading.gap) AS gap,
           max(reading.at) AS latest
    FROM (
        SELECT busiest, cards_read, at, at - lag(at, 1, held.since) OVER (ORDER BY at) AS gap
        FROM rentals_utilisationsample
        WHERE rental_id = rental.id AND at BETWEEN held.since AND %(at)s
    ) reading
) seen ON seen.busiest < rule.threshold_percent AND seen.cards >= subscription.cards
     AND seen.gap <= %(watched)s AND %(at)s - seen.latest <= %(watched)s
WHERE rule.enabled AND rule.kind = 'idle' AND rule.created_at <= span.begins {only}
ORDER BY rule.id
LIMIT %(batch)s
"""


def due(*, at: datetime) -> list[int]:
    """Ids of rules in force whose condition holds at `at`, whether or not the rental can be stopped now."""
    return [*_idle(at), *_timed(at), *_spent(at)]


def is_due(rule: AutoStopRule, *, at: datetime) -> bool:
    """The same for one rule; what the caller has locked cannot change behind the answer."""
    if rule.kind == Kind.IDLE:
        return bool(_idle(at, rule_id=rule.pk))
    if rule.kind == Kind.AT_TIME:
        return rule.stop_at is not None and rule.stop_at <= at
    rental = Rental.objects.select_related("subscription").get(pk=rule.rental_id)
    return _reached(rule, cost_so_far([rental], at=at)[rental.pk])


def _idle(at: datetime, *, rule_id: int | None = None) -> list[int]:
    # The fragment is this module's own text; every value is a parameter.
    query = IDLE.format(only="AND rule.id = %(rule)s" if rule_id else "")
    with connection.cursor() as cursor:
        values: dict[str, Any] = {"at": at, "watched": WATCHED, "batch": BATCH, "rule": rule_id}
        cursor.execute(query, values)
        return [found for (found,) in cursor.fetchall()]


def _timed(at: datetime) -> Sequence[int]:
    """Those of rentals that come up, or were lost, wait until they run."""
    settled = [Status.RUNNING, Status.STOPPING, Status.STOPPED, Status.DESTROYING, *Rental.OVER]
    rules = AutoStopRule.objects.filter(enabled=True, kind=Kind.AT_TIME, stop_at__lte=at, rental__status__in=settled)
    return list(rules.order_by("stop_at", "pk").values_list("pk", flat=True)[:BATCH])


def _spent(at: datetime) -> list[int]:
    """Only of rentals that run: while one is stopped its disk costs, and there is nothing to stop."""
    rules = list(
        AutoStopRule.objects.filter(enabled=True, kind=Kind.AT_SPEND, rental__status=Status.RUNNING)
        .select_related("rental__subscription")
        .order_by("pk")
    )
    costs = cost_so_far([rule.rental for rule in rules], at=at)
    return [rule.pk for rule in rules if _reached(rule, costs[rule.rental_id])][:BATCH]


def _reached(rule: AutoStopRule, cost: Money) -> bool:
    return rule.amount_minor is not None and cost.currency == rule.currency and cost.minor >= rule.amount_minor


def cost_so_far(rentals: Iterable[Rental], *, at: datetime) -> dict[int, Money]:
    """What each rental has cost up to `at`, tax included, as its page and its invoices count it; by rental id.

    One query; needs `subscription` loaded. Nothing for a prepaid term.
    """
    rentals = list(rentals)
    usage = metering.so_far(rentals=rentals, at=at)
    return {
        rental.pk: sum((one.amount for one in usage[rental.pk]), Money(0, rental.subscription.currency))
        for rental in rentals
    }
