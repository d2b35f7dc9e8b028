"""Drafting: orders that wait for payment become invoices, each exactly once. Months of usage: see `months`."""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db import transaction

from billing.actions.accounts import lock_account
from billing.actions.issuing import issue
from billing.actions.payments import settle_without_money
from billing.actions.telling import tell_of_issue
from billing.models import Invoice, InvoiceLine
from marketplace.lib.money import major
from orders import pricing
from orders.models import Order, OrderLine, Pack, Term

logger = logging.getLogger(__name__)


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
        kind=InvoiceLine.Kind.PREPAID,
        order_line=line,
        meter=line.term,
        title=line.offer.title,
        region=line.offer.region.both_names,
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


def _store(invoice: Invoice, lines: list[InvoiceLine], *, at: datetime) -> Invoice:
    """Save the draft with its lines, its totals their sums, and issue it in the same transaction."""
    invoice.total_minor = sum(line.amount_minor for line in lines)
    invoice.tax_minor = sum(line.tax_minor for line in lines)
    invoice.save()
    for position, line in enumerate(lines, start=1):
        line.invoice, line.position = invoice, position
    InvoiceLine.objects.bulk_create(lines)
    issued = issue(invoice=invoice, at=at)
    tell_of_issue(invoices=[issued], at=at)
    return issued
