"""The credit line kept fresh: what an organization has used and not paid, written down where orders look."""

import logging
from datetime import datetime

from django.db import connection, transaction

from accounts import actions as accounts_actions
from accounts.models import CreditLine, Organization
from billing.models import Invoice
from marketplace.lib.money import exponent

logger = logging.getLogger(__name__)

# One rounding for each subscription and meter, as its invoice line will have; windows and the open meter together.
_UNBILLED = """
    WITH used AS (
        SELECT w.subscription_id, w.meter, w.rate, w.quantity,
               sum(CASE WHEN w.reverses_id IS NULL THEN w.seconds ELSE -w.seconds END) AS seconds
        FROM rentals_usagewindow w
        JOIN orders_subscription s ON s.id = w.subscription_id AND s.term = 'hour'
        WHERE w.organization_id = %(organization)s
          AND NOT EXISTS (SELECT 1 FROM billing_billedwindow b WHERE b.window_id = w.id)
        GROUP BY w.subscription_id, w.meter, w.rate, w.quantity
        UNION ALL
        SELECT r.subscription_id, r.meter,
               CASE r.meter WHEN 'card_hour' THEN s.rate ELSE s.disk_rate END,
               CASE r.meter WHEN 'card_hour' THEN s.cards ELSE s.disk_gb END,
               floor(extract(epoch FROM %(at)s - r.metered_from))::bigint
        FROM rentals_rental r
        JOIN orders_subscription s ON s.id = r.subscription_id AND s.term = 'hour'
        WHERE r.organization_id = %(organization)s AND r.metered_from < %(at)s
    ), lines AS (
        SELECT round(sum(seconds) * quantity * rate * %(scale)s / 3600) AS amount
        FROM used GROUP BY subscription_id, meter, rate, quantity
    )
    SELECT COALESCE(sum(amount), 0)::bigint FROM lines
"""


def unbilled_minor(*, organization: Organization, at: datetime) -> int:
    """Used up to `at` and on no invoice yet: unbilled windows and running meters, in minor units."""
    values = {"organization": organization.pk, "at": at, "scale": 10 ** exponent(organization.currency)}
    with connection.cursor() as cursor:
        cursor.execute(_UNBILLED, values)
        return int(cursor.fetchone()[0])


def owed_minor(*, organization: Organization) -> int:
    """Outstanding on issued usage invoices. Prepaid orders are not counted: nothing was used yet."""
    unpaid = Invoice.objects.filter(organization=organization, kind=Invoice.Kind.USAGE, status__in=Invoice.UNPAID)
    return sum(invoice.outstanding_minor for invoice in unpaid.only("total_minor", "paid_minor"))


@transaction.atomic
def refresh_credit(*, organization_id: int, at: datetime) -> int:
    """Write what is available to the credit line: limit − unpaid usage invoices − everything unbilled up to `at`.

    Returns the amount spent in minor units. The line's row lock comes first, so that figures read later are never
    overwritten by older ones.
    """
    line = (
        CreditLine.objects.select_for_update(no_key=True, of=("self",))
        .select_related("organization")
        .get(organization_id=organization_id)
    )
    spent = owed_minor(organization=line.organization) + unbilled_minor(organization=line.organization, at=at)
    accounts_actions.set_available(organization_id=organization_id, spent_minor=max(spent, 0), at=at)
    return spent


def refresh_all(*, at: datetime) -> int:
    """Refresh every credit line, each in a transaction of its own; returns how many were refreshed."""
    done = 0
    for organization_id in CreditLine.objects.order_by("pk").values_list("organization_id", flat=True):
        try:
            refresh_credit(organization_id=organization_id, at=at)
        except Exception:
            logger.exception("credit line of organization %s could not be refreshed", organization_id)
            continue
        done += 1
    return done
