"""What ended terms and undelivered orders pay back, as orders wrote it down, turned into credit notes once each."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import transaction
from django.utils import translation
from django.utils.translation import gettext as _

from billing.actions.credit_notes import issue_credit_note, remaining_by_line
from billing.models import CreditNote, Invoice, InvoiceLine
from orders import actions as orders_actions
from orders.models import TermRefundLine

logger = logging.getLogger(__name__)

AT_MOST = 200


def credit_term_refunds(*, at: datetime) -> int:
    """Credit every line of a term's refund that waits to its organization's balance; returns how many notes were made.

    Each in a transaction of its own and once: repeated, in parallel or killed, nothing is credited twice. One whose
    order was never invoiced or not paid waits, and holds up no other.
    """
    waiting = TermRefundLine.objects.filter(credited_at__isnull=True).order_by("pk")
    return sum(_attempt(line_id, at) for line_id in list(waiting.values_list("pk", flat=True)[:AT_MOST]))


def _attempt(refund_line_id: int, at: datetime) -> bool:
    try:
        return _credit(refund_line_id, at)
    except Exception:
        logger.exception("line %s of a term's refund could not be credited", refund_line_id)
        return False


@transaction.atomic
def _credit(refund_line_id: int, at: datetime) -> bool:
    owed = (
        TermRefundLine.objects.select_for_update(no_key=True, of=("self",))
        .select_related("refund")
        .get(pk=refund_line_id)
    )
    if owed.credited_at is not None:
        return False
    line = _invoiced(owed)
    if line is None:
        logger.warning("line %s of a term's refund has no paid invoice", refund_line_id)
        return False
    amount = min(owed.amount_minor, remaining_by_line(line.invoice)[line.pk])
    if amount < owed.amount_minor:
        logger.error("%s: only %s of %s is left to be paid back", line.invoice, amount, owed.amount_minor)
    if amount:
        issue_credit_note(
            invoice=line.invoice,
            amounts={line.pk: amount},
            destination=CreditNote.Destination.BALANCE,
            reason=_reason(owed),
            request_key=f"term_refund:{owed.pk}",
            at=at,
            actor=owed.refund.actor,
        )
    orders_actions.mark_refund_credited(refund_line_id=owed.pk, at=at)
    return bool(amount)


def _invoiced(owed: TermRefundLine) -> InvoiceLine | None:
    """The line that charged what is paid back, once its invoice is paid."""
    return (
        InvoiceLine.objects.filter(order_line=owed.order_line_id, amount_minor__gt=0)
        .filter(invoice__kind=Invoice.Kind.ORDER, invoice__status=Invoice.Status.PAID)
        .select_related("invoice")
        .first()
    )


def _reason(owed: TermRefundLine) -> str:
    """In the language of the documents of its currency."""
    with translation.override("zh-hans" if owed.refund.currency == "CNY" else "en"):
        return _("Refund of a term: %(rule)s") % {"rule": owed.refund.get_rule_display()}
