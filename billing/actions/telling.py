"""What the customer is told about money, in the transaction that makes it so."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import CharField, Exists, OuterRef, QuerySet
from django.db.models.functions import Cast

from accounts.models import CreditLine, Notification
from accounts.notices import Notice, notify, notify_many
from billing.actions.moving import locked
from billing.models import Invoice
from marketplace.lib import clock
from marketplace.lib.money import format_minor
from rentals.queries import burn_per_hour

logger = logging.getLogger(__name__)

Kind, Status = Notification.Kind, Invoice.Status
# What somebody still has to pay in time. A prepaid order that nobody pays expires instead.
PAYABLE = (Status.ISSUED, Status.PUSHING, Status.OPEN)
AT_MOST = 500

# Hours of burn that credit lasts, the last warning first.
CREDIT_NOTICES = (24, 72)
# While credit does not rise, a warning is not repeated sooner, however machines are stopped and started.
WARNED_FOR = timedelta(hours=24)


def tell_of_issue(*, invoices: Iterable[Invoice], at: datetime) -> None:
    """New invoices that are to be paid: number, amount and until when. Called in the transaction that issues them."""
    told = [_notice(invoice, invoice.total_minor) for invoice in invoices if invoice.total_minor]
    notify_many(kind=Kind.INVOICE_ISSUED, notices=told, at=at)


def tell_of_overdue(*, at: datetime) -> int:
    """Tell of usage invoices that were not paid in time, once each; how many were told.

    Safe to repeat and to run in parallel. Each is read again under its lock, so that nobody is asked for money that
    has just come.
    """
    told = 0
    for invoice_id in list(_overdue(at).values_list("pk", flat=True)[:AT_MOST]):
        try:
            told += _tell_overdue(invoice_id=invoice_id, at=at)
        except Exception:
            logger.exception("invoice %s: nobody could be told that it is overdue", invoice_id)
    return told


def _overdue(at: datetime) -> QuerySet[Invoice]:
    told = Notification.objects.filter(
        organization=OuterRef("organization"), kind=Kind.INVOICE_OVERDUE, fact=OuterRef("fact")
    )
    return (
        Invoice.objects.annotate(fact=Cast("key", CharField()))
        .filter(~Exists(told), kind=Invoice.Kind.USAGE, status__in=PAYABLE, due_at__lt=at)
        .order_by("due_at", "pk")
    )


@transaction.atomic
def _tell_overdue(*, invoice_id: int, at: datetime) -> bool:
    invoice = locked(invoice_id)
    if invoice.status not in PAYABLE or not invoice.outstanding_minor:
        return False
    return notify_many(kind=Kind.INVOICE_OVERDUE, notices=[_notice(invoice, invoice.outstanding_minor)], at=at) == 1


def _notice(invoice: Invoice, amount_minor: int) -> Notice:
    if invoice.due_at is None:
        raise ValueError(f"{invoice}: issued without a day of payment")
    return Notice(
        organization_id=invoice.organization_id,
        fact=str(invoice.key),
        params={
            "number": str(invoice.number),
            "amount": format_minor(amount_minor, invoice.currency),
            "date": clock.read(invoice.due_at, invoice.organization.zone),
        },
        page="billing:invoice",
        page_args=[str(invoice.key)],
    )


def tell_of_low_credit(*, line: CreditLine, available_minor: int, at: datetime) -> None:
    """Warn when what is left lasts no longer than 72 or 24 hours at the present burn: once per crossing.

    Armed again once credit has risen above the mark (a payment, a higher limit) or, where only the burn fell, a day
    after the warning. The caller holds the line's lock and has the organization loaded.
    """
    burn = burn_per_hour(line.organization_id).minor
    level = next((hours for hours in CREDIT_NOTICES if burn > 0 and available_minor <= hours * burn), None)
    warned = line.warned_hours
    if level == warned:
        return
    if level is not None and (warned is None or level < warned):
        _remember(line, level, at, available_minor)
        notify(
            organization=line.organization,
            kind=Kind.CREDIT_LOW,
            fact=f"{level}:{at.isoformat()}",
            params={"hours": level, "left": format_minor(max(available_minor, 0), line.organization.currency)},
            page="billing:overview",
            page_args=[],
            at=at,
        )
    elif _recovered(line, available_minor, at):
        _remember(line, level, at if level else None, available_minor if level else None)


def _recovered(line: CreditLine, available_minor: int, at: datetime) -> bool:
    has_risen = line.warned_available_minor is None or available_minor > line.warned_available_minor
    return has_risen or line.warned_at is None or at - line.warned_at >= WARNED_FOR


def _remember(line: CreditLine, hours: int | None, at: datetime | None, available_minor: int | None) -> None:
    CreditLine.objects.filter(pk=line.pk).update(
        warned_hours=hours, warned_at=at, warned_available_minor=available_minor
    )
