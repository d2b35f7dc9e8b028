"""Reminders of unpaid invoices for customers with a credit line: their machines run on, their days are counted."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from accounts.models import Notification
from accounts.notices import notify
from billing.actions.moving import locked
from billing.actions.telling import PAYABLE
from billing.models import BillingAccount, Dispute, DunningStep, Invoice
from marketplace.lib import clock
from marketplace.lib.money import format_minor

logger = logging.getLogger(__name__)
AT_MOST = 500


def remind_of_unpaid(*, at: datetime) -> int:
    """Remind of usage invoices on the days of the settings after their day of payment, once a day; how many were
    reminded of.

    Nobody is reminded of one that is paid, void, uncollectible, settled by a credit note or disputed, nor an account
    that pays from its balance. After a pause only the last day that passed is told of. Safe to repeat and in parallel:
    each invoice is read again under its lock.
    """
    told = 0
    for days in sorted(settings.DUNNING_DAYS, reverse=True):
        for invoice_id in list(_due(days, at).values_list("pk", flat=True)[:AT_MOST]):
            try:
                told += _remind(invoice_id=invoice_id, days=days, at=at)
            except Exception:
                logger.exception("invoice %s: nobody could be reminded of it", invoice_id)
    return told


def _due(days: int, at: datetime) -> QuerySet[Invoice]:
    """Those that are that many days late and were not reminded of on this day or a later one."""
    later = DunningStep.objects.filter(invoice=OuterRef("pk"), days__gte=days)
    return Invoice.objects.filter(
        ~Exists(later),
        ~Exists(_disputes()),
        account__mode=BillingAccount.Mode.CREDIT,
        kind=Invoice.Kind.USAGE,
        status__in=PAYABLE,
        due_at__lte=at - timedelta(days=days),
    ).order_by("due_at", "pk")


def _disputes() -> QuerySet[Dispute]:
    return Dispute.objects.filter(payment__invoice=OuterRef("pk"), status=Dispute.Status.OPEN)


@transaction.atomic
def _remind(*, invoice_id: int, days: int, at: datetime) -> bool:
    invoice = locked(invoice_id)
    if not invoice.outstanding_minor or not _due(days, at).filter(pk=invoice_id).exists():
        return False
    if invoice.due_at is None:
        raise ValueError(f"{invoice}: issued without a day of payment")
    DunningStep.objects.create(invoice=invoice, days=days, at=at)
    notify(
        organization=invoice.organization,
        kind=Notification.Kind.INVOICE_REMINDER,
        fact=f"{invoice.key}:{days}",
        params={
            "number": str(invoice.number),
            "amount": format_minor(invoice.outstanding_minor, invoice.currency),
            "date": clock.read(invoice.due_at, invoice.organization.zone),
            "days": days,
        },
        page="billing:invoice",
        page_args=[str(invoice.key)],
        at=at,
    )
    return True
