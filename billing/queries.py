"""Questions about invoices and money: what there is to pay, and what was used but stands on no invoice yet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import F, QuerySet, Sum

from accounts.models import CreditLine, Organization
from billing import ledger
from billing.models import BillingAccount, Book, Invoice, SettledUsage
from marketplace.lib.money import exponent
from orders.models import Order


def invoices_of(organization: Organization) -> QuerySet[Invoice]:
    """The organization's issued invoices, newest first, with what a list shows; a draft is nobody's document yet."""
    return (
        Invoice.objects.filter(organization=organization)
        .exclude(status=Invoice.Status.DRAFT)
        .select_related("order", "organization")
        .order_by("-issued_at", "-pk")
    )


def unpaid_invoices_of(organization: Organization) -> QuerySet[Invoice]:
    """What is to be paid, the first due first."""
    return invoices_of(organization).filter(status__in=Invoice.UNPAID).order_by("due_at", "pk")


# One rounding for each subscription and meter, as its invoice line will have; windows and the open meter together.
# Half up on the magnitude by whole division: a quotient of long figures would itself be rounded first.
_USED = """
    WITH used AS (
        SELECT w.subscription_id, w.meter, w.rate, w.quantity,
               sum(CASE WHEN w.reverses_id IS NULL THEN w.seconds ELSE -w.seconds END) AS seconds
        FROM rentals_usagewindow w
        JOIN orders_subscription s ON s.id = w.subscription_id AND s.term = 'hour'
        WHERE w.organization_id = %(organization)s AND {which}
        GROUP BY w.subscription_id, w.meter, w.rate, w.quantity
        UNION ALL
        SELECT r.subscription_id, r.meter,
               CASE r.meter WHEN 'card_hour' THEN s.rate ELSE s.disk_rate END,
               CASE r.meter WHEN 'card_hour' THEN s.cards ELSE s.disk_gb END,
               floor(extract(epoch FROM %(at)s - {since}))::bigint
        FROM rentals_rental r
        JOIN orders_subscription s ON s.id = r.subscription_id AND s.term = 'hour'
        WHERE r.organization_id = %(organization)s AND r.metered_from < %(at)s
    ), lines AS (
        SELECT sum(seconds) * quantity * rate * %(scale)s AS exact
        FROM used GROUP BY subscription_id, meter, rate, quantity
    )
    SELECT COALESCE(sum(sign(exact) * div(abs(exact) + 1800, 3600)), 0)::bigint FROM lines
"""
_UNBILLED = _USED.format(
    which="NOT EXISTS (SELECT 1 FROM billing_billedwindow b WHERE b.window_id = w.id)", since="r.metered_from"
)
_SINCE = _USED.format(which="lower(w.period) >= %(since)s", since="greatest(r.metered_from, %(since)s)")


def rounded(seconds: str, quantity: str, rate: str, scale: str) -> str:
    """SQL of one line's amount in minor units, as orders.pricing.line_amount works it out: half up on the magnitude, by
    whole division, for a quotient of long figures would itself be rounded first."""
    return f"sign({seconds}) * div(abs({seconds}) * {quantity} * {rate} * {scale} + 1800, 3600)"


def tax_within(amount: str, percent: str) -> str:
    """SQL of the tax within a gross amount, as orders.pricing.tax_within works it out."""
    return f"sign({amount}) * div(2 * abs({amount}) * {percent} + 100 + {percent}, 2 * (100 + {percent}))"


# Hourly usage that no invoice charged; a draft binds nothing.
PENDING = """
    FROM rentals_usagewindow w
    JOIN orders_subscription s ON s.id = w.subscription_id AND s.term = 'hour'
    WHERE NOT EXISTS (SELECT 1 FROM billing_billedwindow b WHERE b.window_id = w.id)
"""


def unbilled_minor(*, organization: Organization, at: datetime) -> int:
    """Used up to `at` and on no invoice yet: unbilled windows and running meters, in minor units."""
    return _used(_UNBILLED, organization, {"at": at})


def used_since_minor(*, organization: Organization, since: datetime, at: datetime) -> int:
    """Used by the hour in `[since, at)`, billed or not, in minor units. `since` is a local midnight of the
    organization: windows are cut there."""
    return _used(_SINCE, organization, {"since": since, "at": at})


def _used(query: str, organization: Organization, values: dict[str, datetime]) -> int:
    scale = 10 ** exponent(organization.currency)
    with connection.cursor() as cursor:
        cursor.execute(query, {**values, "organization": organization.pk, "scale": scale})
        return int(cursor.fetchone()[0])


def paid_in_advance_minor(*, organization: Organization, since: datetime, at: datetime) -> int:
    """What was paid in `[since, at)` for orders by the month or year, in minor units."""
    paid = Order.objects.filter(organization=organization, paid_at__gte=since, paid_at__lt=at)
    return paid.aggregate(total=Sum("total_minor", default=0))["total"]


def owed_minor(*, organization: Organization) -> int:
    """Outstanding on issued usage invoices. Prepaid orders are not counted: nothing was used yet."""
    unpaid = Invoice.objects.filter(organization=organization, kind=Invoice.Kind.USAGE, status__in=Invoice.UNPAID)
    return sum(invoice.outstanding_minor for invoice in unpaid.only("total_minor", "paid_minor"))


def held_minor(account: BillingAccount) -> int:
    """Balance and gifted credit, in minor units; negative where usage has brought the balance below zero."""
    return ledger.balance(account, Book.WALLET) + ledger.balance(account, Book.GIFT)


def settled_minor(account: BillingAccount) -> int:
    """Taken from the balance for usage that is on no invoice yet, in minor units."""
    return SettledUsage.objects.filter(account=account).aggregate(total=Sum("amount_minor", default=0))["total"]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an organization stands, in minor units of its currency, worked out at one moment."""

    currency: str
    limit_minor: int
    owed_minor: int
    """Outstanding on issued usage invoices."""
    unbilled_minor: int
    """Used and on no invoice yet; what was taken from the balance for it is not counted any more."""
    held_minor: int
    """Balance and gifted credit; negative where usage has brought the balance below zero."""
    committed_minor: int
    """Kept ready for running hourly machines."""
    frozen: bool

    @property
    def used_minor(self) -> int:
        return self.owed_minor + self.unbilled_minor

    @property
    def available_minor(self) -> int:
        """What is left of limit and balance; negative where more was used."""
        return self.limit_minor + self.held_minor - self.used_minor

    @property
    def headroom_minor(self) -> int:
        """What a new hourly order may still commit."""
        return 0 if self.frozen else max(self.available_minor - self.committed_minor, 0)


def standing_of(organization: Organization, *, at: datetime) -> Standing:
    """The credit line and the balance with their use up to `at`."""
    line = CreditLine.objects.get(organization=organization)
    account = BillingAccount.objects.filter(organization=organization).first()
    settled = settled_minor(account) if account else 0
    return Standing(
        currency=organization.currency,
        limit_minor=line.limit_minor,
        owed_minor=owed_minor(organization=organization),
        unbilled_minor=max(unbilled_minor(organization=organization, at=at) - settled, 0),
        held_minor=held_minor(account) if account else 0,
        committed_minor=line.committed_minor,
        frozen=line.standing != CreditLine.Standing.GOOD,
    )


def with_astray_money() -> QuerySet[Invoice]:
    """Invoices with money that nothing was delivered for: paid after the order's cards were gone, not credited yet."""
    return Invoice.objects.filter(
        status=Invoice.Status.PAID, order__status=Order.Status.CANCELLED, credited_minor__lt=F("total_minor")
    )
