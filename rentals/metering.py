"""Metering to the second: open and close a rental's meter, cut it at local midnights, and say what it comes to so far.

Instants are cut off to whole seconds when a meter opens and when it closes, so every window has whole seconds, the
windows of a rental touch without gap or overlap, and their sum is the running time to the second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import Case, F, Max, Sum, When

from marketplace.lib import clock
from marketplace.lib.money import Money
from orders.models import Subscription
from orders.pricing import SECONDS_PER_HOUR, line_amount
from rentals.models import Rental, UsageWindow

Meter = Rental.Meter

# Rentals cut in one transaction: enough that the statement is bulk, few enough that a customer's stop waits briefly.
CUT_BATCH = 2000


def whole_second(at: datetime) -> datetime:
    return at.replace(microsecond=0)


def terms_of(subscription: Subscription, meter: str) -> tuple[int, Decimal]:
    """What a meter counts, cards or GB, and the rate per hour of one of them."""
    if meter == Meter.CARD_HOUR:
        return subscription.cards, subscription.rate
    if meter == Meter.DISK_GB_HOUR:
        return subscription.disk_gb, subscription.disk_rate
    raise ValueError(f"no such meter: {meter!r}")


# --- inside the caller's transaction, on a rental whose row it has locked --------------------------------------------


def open_meter(*, rental: Rental, meter: str, at: datetime) -> None:
    """The meter runs from `at` on; one that runs already is closed first. Nothing for prepaid terms or a zero rate.

    Where windows already reach past `at` it runs from their end on: no second can have two windows.
    """
    close_meter(rental=rental, at=at)
    quantity, rate = terms_of(rental.subscription, meter)
    if not rental.subscription.is_hourly or not quantity or not rate:
        return
    since = whole_second(at)
    _set(rental, meter, max(since, _metered_through(rental) or since))


def close_meter(*, rental: Rental, at: datetime) -> None:
    """The meter ends at `at`; what ran since the last cut becomes windows. Repeating it changes nothing.

    Where a cut already went past `at` (a month closed ahead of its end, or a midnight that fell while the customer's
    request waited), reversing windows take back what lies after `at`.
    """
    if not rental.meter:
        return
    assert rental.metered_from is not None  # noqa: S101 - a database constraint
    start, end = rental.metered_from, whole_second(at)
    if end < start:
        _take_back(rental, end)
    quantity, rate = terms_of(rental.subscription, rental.meter)
    UsageWindow.objects.bulk_create(
        UsageWindow(
            rental=rental,
            subscription_id=rental.subscription_id,
            organization_id=rental.organization_id,
            meter=rental.meter,
            quantity=quantity,
            currency=rental.subscription.currency,
            rate=rate,
            period=DateTimeTZRange(begins, ends),
            seconds=seconds_between(begins, ends),
        )
        for begins, ends in clock.split_at_midnights(start, end, rental.subscription.organization.zone)
    )
    _set(rental, Meter.NONE, None)


def _metered_through(rental: Rental) -> datetime | None:
    """The end of the rental's last window."""
    windows = UsageWindow.objects.filter(rental=rental, reverses__isnull=True)
    return windows.aggregate(through=Max(F("period__endswith")))["through"]


def _take_back(rental: Rental, since: datetime) -> None:
    """Reverse what the rental's windows hold after `since`, each once; the next invoice carries the difference."""
    ahead = UsageWindow.objects.filter(
        rental=rental, reverses__isnull=True, reversed_by__isnull=True, period__endswith__gt=since
    )
    for window in ahead.order_by("period"):
        begins, ends = max(since, window.period.lower), window.period.upper
        UsageWindow.objects.create(
            rental=rental,
            subscription_id=window.subscription_id,
            organization_id=window.organization_id,
            meter=window.meter,
            quantity=window.quantity,
            currency=window.currency,
            rate=window.rate,
            period=DateTimeTZRange(begins, ends),
            seconds=seconds_between(begins, ends),
            reverses=window,
        )


def _set(rental: Rental, meter: str, since: datetime | None) -> None:
    rental.meter, rental.metered_from = meter, since
    rental.save(update_fields=["meter", "metered_from"])


def seconds_between(start: datetime, end: datetime) -> int:
    """Whole seconds of `[start, end)`; none when it is empty."""
    return max(int((end - start).total_seconds()), 0)


# --- cutting at midnight ---------------------------------------------------------------------------------------------

# One statement, so a killed run leaves all or nothing of a batch. A parallel run waits at the row locks and then sees
# metered_from moved on; the exclusion constraint stands behind both.
CUT = """
WITH due AS MATERIALIZED (
    SELECT r.id, r.subscription_id, r.organization_id, r.meter, r.metered_from, o.zone, s.currency,
           CASE r.meter WHEN 'card_hour' THEN s.cards ELSE s.disk_gb END AS quantity,
           CASE r.meter WHEN 'card_hour' THEN s.rate ELSE s.disk_rate END AS rate,
           {until} AS until
    FROM rentals_rental r
    JOIN accounts_organization o ON o.id = r.organization_id
    JOIN orders_subscription s ON s.id = r.subscription_id
    WHERE r.metered_from IS NOT NULL AND r.metered_from < {until} AND r.id > %(after)s {only}
    ORDER BY r.id
    LIMIT %(batch)s
    FOR NO KEY UPDATE OF r
), pieces AS (
    SELECT due.*, GREATEST(metered_from, day AT TIME ZONE zone) AS starts,
           LEAST(until, (day + interval '1 day') AT TIME ZONE zone) AS ends
    FROM due, LATERAL generate_series(
        date_trunc('day', metered_from AT TIME ZONE zone),
        date_trunc('day', (until - interval '1 microsecond') AT TIME ZONE zone),
        interval '1 day'
    ) AS day
), written AS (
    INSERT INTO rentals_usagewindow
        (key, rental_id, subscription_id, organization_id, meter, quantity, currency, rate, period, seconds)
    SELECT gen_random_uuid(), id, subscription_id, organization_id, meter, quantity, currency, rate,
           tstzrange(starts, ends), EXTRACT(EPOCH FROM ends - starts)::bigint
    FROM pieces WHERE starts < ends
    RETURNING 1
), moved AS (
    UPDATE rentals_rental r SET metered_from = due.until FROM due WHERE r.id = due.id RETURNING r.id
)
SELECT (SELECT count(*) FROM written), count(*), max(id) FROM moved
"""
LAST_MIDNIGHT = "(date_trunc('day', %(at)s::timestamptz AT TIME ZONE o.zone) AT TIME ZONE o.zone)"


def cut_windows(*, at: datetime) -> int:
    """Cut every open meter at each midnight of its organization up to `at`; returns how many windows were written.

    Safe to repeat, in parallel and after being killed: the rows come out the same. Bulk SQL in batches.
    """
    return _cut(LAST_MIDNIGHT, at, None)


def close_through(*, organization_id: int | None, until: datetime) -> int:
    """Cut the open meters of one organization (or of all) at midnights and at `until`; the meters run on.

    The month's close calls this with the local midnight that ends the month.
    """
    return _cut("%(at)s::timestamptz", whole_second(until), organization_id)


def _cut(until: str, at: datetime, organization_id: int | None) -> int:
    # The fragments are this module's own text; every value is a parameter.
    query = CUT.format(until=until, only="AND r.organization_id = %(organization)s" if organization_id else "")
    values = {"at": at, "organization": organization_id, "after": 0, "batch": CUT_BATCH}
    written = 0
    while values["after"] is not None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(query, values)
            count, _moved, values["after"] = cursor.fetchone()
        written += count
    return written


# --- what it comes to ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds of one meter at one rate, and what they cost, rounded once as the invoice line will be."""

    meter: str
    quantity: int
    rate: Decimal
    seconds: int
    amount: Money

    @property
    def hours(self) -> Decimal:
        return Decimal(self.seconds) / SECONDS_PER_HOUR


def unbilled_and_open(*, rental: Rental, at: datetime) -> list[Usage]:
    """Everything a rental has used up to `at`, by meter: its windows and the part of an open meter not yet cut."""
    return so_far(rentals=[rental], at=at)[rental.pk]


def so_far(*, rentals: Iterable[Rental], at: datetime) -> dict[int, list[Usage]]:
    """The same for many rentals with one query; needs `subscription` loaded."""
    by_id = {rental.pk: rental for rental in rentals}
    totals: dict[int, dict[tuple[str, int, Decimal], int]] = defaultdict(lambda: defaultdict(int))
    net = Case(When(reverses__isnull=True, then=F("seconds")), default=-F("seconds"))
    rows = (
        UsageWindow.objects.filter(rental__in=by_id)
        .values_list("rental_id", "meter", "quantity", "rate")
        .annotate(total=Sum(net))
    )
    for rental_id, meter, quantity, rate, seconds in rows:
        totals[rental_id][meter, quantity, rate] += seconds
    for rental in by_id.values():
        if rental.meter and rental.metered_from is not None:
            key = (rental.meter, *terms_of(rental.subscription, rental.meter))
            totals[rental.pk][key] += seconds_between(rental.metered_from, whole_second(at))
    return {pk: _priced(totals[pk], rental.subscription.currency) for pk, rental in by_id.items()}


def _priced(totals: dict[tuple[str, int, Decimal], int], currency: str) -> list[Usage]:
    return [
        Usage(
            meter=meter,
            quantity=quantity,
            rate=rate,
            seconds=seconds,
            amount=line_amount(meter=meter, quantity=quantity, rate=rate, currency=currency, seconds=seconds),
        )
        for (meter, quantity, rate), seconds in sorted(totals.items())
        if seconds
    ]


def burn(rental: Rental) -> Decimal:
    """What the running meter costs in an hour, exact, in major units of the subscription's currency."""
    if not rental.meter:
        return Decimal(0)
    quantity, rate = terms_of(rental.subscription, rental.meter)
    return quantity * rate
