"""What an organization spends in a calendar month, by project: used by the hour, and ordered in advance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import connection
from django.db.models import Sum

from accounts.models import Organization
from marketplace.lib import clock
from marketplace.lib.money import exponent
from orders.models import Order
from rentals import outlook
from rentals.queries import burn_by_project

# One rounding for each subscription and meter, as its invoice line will have; windows and the open meter together.
_USED = """
    WITH used AS (
        SELECT s.project_id, w.subscription_id, w.meter, w.rate, w.quantity,
               sum(CASE WHEN w.reverses_id IS NULL THEN w.seconds ELSE -w.seconds END) AS seconds
        FROM rentals_usagewindow w
        JOIN orders_subscription s ON s.id = w.subscription_id AND s.term = 'hour'
        WHERE w.organization_id = %(organization)s AND lower(w.period) >= %(since)s AND lower(w.period) < %(at)s
        GROUP BY s.project_id, w.subscription_id, w.meter, w.rate, w.quantity
        UNION ALL
        SELECT s.project_id, r.subscription_id, r.meter,
               CASE r.meter WHEN 'card_hour' THEN s.rate ELSE s.disk_rate END,
               CASE r.meter WHEN 'card_hour' THEN s.cards ELSE s.disk_gb END,
               floor(extract(epoch FROM %(at)s - greatest(r.metered_from, %(since)s)))::bigint
        FROM rentals_rental r
        JOIN orders_subscription s ON s.id = r.subscription_id AND s.term = 'hour'
        WHERE r.organization_id = %(organization)s AND r.metered_from < %(at)s
    ), lines AS (
        SELECT project_id, sum(seconds) * quantity * rate * %(scale)s AS exact
        FROM used GROUP BY project_id, subscription_id, meter, rate, quantity
    )
    SELECT project_id, sum(sign(exact) * div(abs(exact) + 1800, 3600))::bigint FROM lines GROUP BY project_id
"""
_NOT_BOUGHT = (Order.Status.CANCELLED, Order.Status.FAILED)


@dataclass(frozen=True, slots=True)
class Spending:
    """Of one month so far: minor units used by the hour and ordered in advance; `burn` in major units an hour."""

    used_minor: int = 0
    advance_minor: int = 0
    burn: Decimal = Decimal(0)

    @property
    def spent_minor(self) -> int:
        return max(self.used_minor, 0) + self.advance_minor

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            self.used_minor + other.used_minor, self.advance_minor + other.advance_minor, self.burn + other.burn
        )


@dataclass(frozen=True, slots=True)
class Month:
    """The local month of an instant, and what each project has spent in it up to then."""

    currency: str
    at: datetime
    until: datetime
    projects: Mapping[int, Spending]

    def of(self, project_id: int | None) -> Spending:
        """One project's, or with None the whole organization's."""
        if project_id is None:
            return sum(self.projects.values(), Spending())
        return self.projects.get(project_id, Spending())

    def forecast_minor(self, spending: Spending) -> int:
        """What the month comes to if all that is metered now runs on."""
        return outlook.forecast_minor(
            spent_minor=spending.spent_minor, burn=spending.burn, currency=self.currency, at=self.at, until=self.until
        )


def month_spending(organization: Organization, *, at: datetime) -> Month:
    """What the organization has spent in the local month of `at`, by project, in three queries.

    An order in advance counts in the month it was placed in, from then on, unless it was cancelled or failed.
    """
    since = clock.month_start(at, organization.zone)
    used, advance, burn = (
        _used(organization, since, at),
        _advance(organization, since, at),
        burn_by_project(organization),
    )
    projects: Iterable[int] = {*used, *advance, *burn}
    return Month(
        currency=organization.currency,
        at=at,
        until=clock.next_month_start(at, organization.zone),
        projects={one: Spending(used.get(one, 0), advance.get(one, 0), burn.get(one, Decimal(0))) for one in projects},
    )


def _used(organization: Organization, since: datetime, at: datetime) -> dict[int, int]:
    scale = 10 ** exponent(organization.currency)
    with connection.cursor() as cursor:
        cursor.execute(_USED, {"organization": organization.pk, "since": since, "at": at, "scale": scale})
        return dict(cursor.fetchall())


def _advance(organization: Organization, since: datetime, at: datetime) -> dict[int, int]:
    placed = Order.objects.filter(organization=organization, placed_at__gte=since, placed_at__lte=at, total_minor__gt=0)
    rows = placed.exclude(status__in=_NOT_BOUGHT).order_by().values_list("project").annotate(total=Sum("total_minor"))
    return dict(rows)
