"""That a paid term ends early, or that a paid order cannot be carried out: the fact that money is owed back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from accounts.models import CreditLine, User
from orders.models import Order, Subscription, TermRefund, TermRefundLine
from orders.refunds import Part, refund_of

Rule = TermRefund.Rule


@transaction.atomic
def refund_term(*, subscription_id: int, actor: User | None, at: datetime) -> TermRefund | None:
    """Write down what ending this running term now pays back, by the rule of the settings; its lines only where it is
    more than nothing. Billing makes the credit notes.

    Call it in the transaction that ends the term, before its end is written. None for what is hourly or has ended:
    then nothing is owed back. Repeating it changes nothing.
    """
    organization_id = Subscription.objects.values_list("organization_id", flat=True).get(pk=subscription_id)
    # The five days are once for the organization: two terms that end at one moment follow each other.
    list(CreditLine.objects.select_for_update(no_key=True).filter(organization=organization_id).values_list("pk"))
    subscription = (
        Subscription.objects.select_for_update(no_key=True, of=("self",))
        .select_related("organization", "order_line__order")
        .get(pk=subscription_id)
    )
    if subscription.is_hourly or subscription.ended_at is not None:
        return None
    offered = refund_of(subscription, at=at)
    return _write(subscription, rule=offered.rule, parts=offered.parts, actor=actor, at=at)


def refund_order(*, order: Order, at: datetime) -> None:
    """A paid order about a running machine came too late: all of it is owed back. In the caller's transaction."""
    for line in order.lines.select_related("continues"):
        if line.continues is not None and line.amount_minor:
            part = Part(line, line.amount_minor, line.amount_minor)
            _write(line.continues, rule=Rule.NOT_DELIVERED, parts=[part], actor=None, at=at)


def _write(
    subscription: Subscription, *, rule: str, parts: Sequence[Part], actor: User | None, at: datetime
) -> TermRefund:
    refund = TermRefund.objects.create(
        subscription=subscription,
        organization_id=subscription.organization_id,
        rule=rule,
        currency=subscription.currency,
        paid_minor=sum(part.paid_minor for part in parts),
        amount_minor=sum(part.refund_minor for part in parts),
        actor=actor,
        at=at,
    )
    TermRefundLine.objects.bulk_create(
        TermRefundLine(
            refund=refund, order_line=part.order_line, paid_minor=part.paid_minor, amount_minor=part.refund_minor
        )
        for part in parts
        if part.refund_minor
    )
    return refund


def mark_refund_credited(*, refund_line_id: int, at: datetime) -> bool:
    """Billing has made the credit note of this line, in the same transaction; False when somebody already had."""
    waiting = TermRefundLine.objects.filter(pk=refund_line_id, credited_at__isnull=True)
    return bool(waiting.update(credited_at=at))
