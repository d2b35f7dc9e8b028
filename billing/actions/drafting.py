"""Drafting: orders that wait for payment and months of usage that ended become invoices, each exactly once."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from django.db import connection, transaction

from billing.actions.accounts import lock_account
from billing.actions.issuing import issue
from billing.actions.payments import settle_without_money
from billing.models import BillingAccount, Invoice, InvoiceLine
from marketplace.lib import clock
from marketplace.lib.limits import below_minimum
from marketplace.lib.money import major
from orders import pricing
from orders.models import Order, OrderLine, Pack, Subscription, Term

logger = logging.getLogger(__name__)


@dataclass
class Drafted:
    """What one run of usage drafting did, by organization id."""

    invoices: list[Invoice] = field(default_factory=list)
    carried: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)


# --- prepaid orders -----------------------------------------------------------------------------------------
def draft_order_invoices(*, at: datetime) -> list[Invoice]:
    """Invoice every order that waits for payment and has none. An order that cannot be invoiced stops no other."""
    drafted = []
    for order in orders_without_invoice(at):
        try:
            invoice = draft_order_invoice(order=order, at=at)
        except Exception:
            logger.exception("order %s could not be invoiced", order.pk)
            continue
        if invoice is not None:
            drafted.append(invoice)
    return drafted


def orders_without_invoice(at: datetime) -> Iterator[Order]:
    """Orders whose hold still runs and whose invoice is missing or was voided."""
    return (
        Order.objects.filter(status=Order.Status.AWAITING_PAYMENT, hold_expires_at__gt=at)
        .exclude(invoices__in=Invoice.objects.filter(kind=Invoice.Kind.ORDER).exclude(status=Invoice.Status.VOID))
        .order_by("pk")
        .iterator()
    )


@transaction.atomic
def draft_order_invoice(*, order: Order, at: datetime) -> Invoice | None:
    """The order's invoice, drafted and issued if it has none; None when the order does not wait for payment any more.

    One line per order line that is paid in advance, at the order's frozen rate and amount. Repeating it, also in
    parallel, returns the same invoice.
    """
    order = Order.objects.select_for_update(no_key=True).get(pk=order.pk)
    account = lock_account(organization_id=order.organization_id)
    existing = order.invoices.exclude(status=Invoice.Status.VOID).first()
    if existing is not None:
        return existing
    if order.status != Order.Status.AWAITING_PAYMENT or order.hold_expires_at is None or order.hold_expires_at <= at:
        return None
    invoice = Invoice(
        account=account,
        organization=account.organization,
        kind=Invoice.Kind.ORDER,
        order=order,
        currency=order.currency,
        drafted_at=at,
    )
    lines = [_order_line(line, order) for line in _prepaid_lines(order)]
    if order.kind == Order.Kind.PACK:
        lines = [_pack_line(Pack.objects.get(order=order), order)]
    stored = _store(invoice, lines, at=at)
    if stored.total_minor == 0:
        settle_without_money(invoice=stored, at=at)
    return stored


def _prepaid_lines(order: Order) -> Sequence[OrderLine]:
    return list(
        order.lines.exclude(term=Term.HOUR)
        .select_related("offer__gpu_model", "offer__region", "order__project")
        .order_by("pk")
    )


def _order_line(line: OrderLine, order: Order) -> InvoiceLine:
    return InvoiceLine(
        order_line=line,
        meter=line.term,
        title=line.offer.title,
        region=_region_name(line),
        resource=order.number,
        project=order.project.name,
        quantity=line.cards,
        periods=line.periods,
        rate=line.rate,
        amount_minor=line.amount_minor,
        tax_percent=line.tax_percent,
        tax_minor=pricing.tax_within(line.amount_minor, line.tax_percent),
        tax_code=line.tax_code,
    )


def _pack_line(pack: Pack, order: Order) -> InvoiceLine:
    """Card-hours that are bought in advance, for every offer of a class; in both languages, as a region is."""
    return InvoiceLine(
        kind=InvoiceLine.Kind.ONCE,
        meter="unit",
        title=f"算力包 Compute pack · {pack.gpu_class} · {pack.card_hours:,} h",
        region="",
        resource=order.number,
        project=order.project.name,
        quantity=1,
        periods=1,
        rate=major(pack.price_minor, order.currency),
        amount_minor=pack.price_minor,
        tax_percent=pack.tax_percent,
        tax_minor=pricing.tax_within(pack.price_minor, pack.tax_percent),
        tax_code=pack.tax_code,
    )


# --- usage --------------------------------------------------------------------------------------------------
def draft_usage_invoices(*, at: datetime) -> Drafted:
    """Invoice every local calendar month that ended by `at` and has usage no invoice charged.

    Each organization is a transaction of its own: one that fails is logged and stops no other. Usage of a month that
    was invoiced before (a late window, a correction) stands on the next month's lines; a month below the least amount
    Stripe collects waits for the next one.
    """
    done = Drafted()
    for organization_id, earliest in _organizations_with_usage(at):
        try:
            invoices, carried = _draft_months(organization_id=organization_id, earliest=earliest, at=at)
        except Exception:
            logger.exception("usage of organization %s could not be invoiced", organization_id)
            done.failed.append(organization_id)
            continue
        done.invoices += invoices
        if carried:
            done.carried.append(organization_id)
    return done


_PENDING = """
    FROM rentals_usagewindow w
    JOIN orders_subscription s ON s.id = w.subscription_id AND s.term = 'hour'
    WHERE NOT EXISTS (SELECT 1 FROM billing_billedwindow b WHERE b.window_id = w.id)
"""


def _organizations_with_usage(at: datetime) -> list[tuple[int, datetime]]:
    """Organizations with unbilled usage that ended by `at`, and when the earliest of it began."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT w.organization_id, min(lower(w.period)) {_PENDING} AND upper(w.period) <= %s"
            " GROUP BY w.organization_id ORDER BY w.organization_id",
            [at],
        )
        return cursor.fetchall()


@transaction.atomic
def _draft_months(*, organization_id: int, earliest: datetime, at: datetime) -> tuple[list[Invoice], bool]:
    """The organization's invoices of every month that ended by `at`, and whether something was carried forward."""
    account = lock_account(organization_id=organization_id)
    zone = account.organization.zone
    invoiced = set(
        Invoice.objects.filter(organization_id=organization_id, kind=Invoice.Kind.USAGE)
        .exclude(status=Invoice.Status.VOID)
        .values_list("period_start", flat=True)
    )
    drafted: list[Invoice] = []
    carried = False
    for start, end in _closed_months(earliest, at, zone):
        if start in invoiced:
            continue
        lines = _usage_lines(organization_id, until=end)
        carried = bool(lines)
        if not lines or below_minimum(sum(line.line.amount_minor for line in lines), account.organization.currency):
            continue
        drafted.append(_draft_month(account, lines, start=start, end=end, at=at))
        carried = False
    return drafted, carried


def _closed_months(earliest: datetime, at: datetime, zone: str) -> Iterator[tuple[datetime, datetime]]:
    """Every local calendar month from that of `earliest` that ended by `at`, oldest first."""
    start = clock.month_start(earliest, zone)
    while (end := clock.next_month_start(start, zone)) <= at:
        yield start, end
        start = end


class Used(NamedTuple):
    """Unbilled usage of one subscription and meter: what the database adds up."""

    subscription_id: int
    meter: str
    quantity: int
    rate: Decimal
    currency: str
    seconds: Decimal
    start: datetime
    end: datetime
    window_ids: list[int]


class UsageLine(NamedTuple):
    """A line to be and the windows it charges."""

    line: InvoiceLine
    window_ids: list[int]


def _usage_lines(organization_id: int, *, until: datetime) -> list[UsageLine]:
    """Unbilled usage that ended by `until`, one line per subscription and meter (and rate, should one have changed)."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT w.subscription_id, w.meter, w.quantity, w.rate, w.currency,
                   sum(CASE WHEN w.reverses_id IS NULL THEN w.seconds ELSE -w.seconds END),
                   min(lower(w.period)), max(upper(w.period)), array_agg(w.id)
            {_PENDING} AND w.organization_id = %s AND upper(w.period) <= %s
            GROUP BY w.subscription_id, w.meter, w.quantity, w.rate, w.currency
            ORDER BY min(lower(w.period)), w.subscription_id, w.meter, w.rate, w.quantity
            """,
            [organization_id, until],
        )
        found = [Used(*row) for row in cursor.fetchall()]
    subscriptions = (
        Subscription.objects.filter(pk__in={used.subscription_id for used in found})
        .select_related("order_line__offer__gpu_model", "order_line__offer__region", "project", "rental")
        .in_bulk()
    )
    return [UsageLine(_usage_line(subscriptions[used.subscription_id], used), used.window_ids) for used in found]


def _usage_line(subscription: Subscription, used: Used) -> InvoiceLine:
    seconds = int(used.seconds)
    amount = pricing.line_amount(
        meter=used.meter, quantity=used.quantity, rate=used.rate, currency=used.currency, seconds=seconds
    )
    return InvoiceLine(
        order_line=subscription.order_line,
        subscription=subscription,
        meter=used.meter,
        title=subscription.order_line.offer.title,
        region=_region_name(subscription.order_line),
        resource=subscription.rental.name,
        project=subscription.project.name,
        quantity=used.quantity,
        seconds=seconds,
        rate=used.rate,
        amount_minor=amount.minor,
        tax_percent=subscription.tax_percent,
        tax_minor=pricing.tax_within(amount.minor, subscription.tax_percent),
        tax_code=subscription.tax_code,
        period_start=used.start,
        period_end=used.end,
    )


def _draft_month(
    account: BillingAccount, lines: list[UsageLine], *, start: datetime, end: datetime, at: datetime
) -> Invoice:
    invoice = Invoice(
        account=account,
        organization=account.organization,
        kind=Invoice.Kind.USAGE,
        currency=account.organization.currency,
        period_start=start,
        period_end=end,
        drafted_at=at,
    )
    stored = _store(invoice, [usage.line for usage in lines], at=at)
    _bind_windows(lines)
    return stored


def _bind_windows(lines: list[UsageLine]) -> None:
    """Mark the windows as charged; each can be charged by one line only, which the database holds."""
    pairs = [(usage.line.pk, window_id) for usage in lines for window_id in usage.window_ids]
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO billing_billedwindow (line_id, window_id) SELECT * FROM unnest(%s::bigint[], %s::bigint[])",
            [[line for line, _window in pairs], [window for _line, window in pairs]],
        )


# --- both ---------------------------------------------------------------------------------------------------
def _store(invoice: Invoice, lines: list[InvoiceLine], *, at: datetime) -> Invoice:
    """Save the draft with its lines, its totals their sums, and issue it in the same transaction."""
    invoice.total_minor = sum(line.amount_minor for line in lines)
    invoice.tax_minor = sum(line.tax_minor for line in lines)
    invoice.save()
    for position, line in enumerate(lines, start=1):
        line.invoice, line.position = invoice, position
    InvoiceLine.objects.bulk_create(lines)
    return issue(invoice=invoice, at=at)


def _region_name(line: OrderLine) -> str:
    """Both languages, because a frozen line is read by people of either."""
    region = line.offer.region
    return f"{region.name_zh} {region.name_en}"[:60]
