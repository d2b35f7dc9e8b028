"""What a running term would pay back if it ended at an instant, by the rule of the settings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet

from catalog.models import Price
from orders import pricing
from orders.models import OrderLine, Subscription, TermRefund, TermRefundLine

Rule = TermRefund.Rule
# Without a reason, within so many days of a term's beginning.
DAYS_WITHOUT_REASON = 5


@dataclass(frozen=True, slots=True)
class Part:
    """What one paid order line bought of one unit's term, and what of it is paid back, in minor units."""

    order_line: OrderLine
    paid_minor: int
    refund_minor: int


@dataclass(frozen=True, slots=True)
class Offered:
    """What ending a term at `at` pays back."""

    rule: str
    currency: str
    parts: tuple[Part, ...]

    @property
    def paid_minor(self) -> int:
        return sum(part.paid_minor for part in self.parts)

    @property
    def refund_minor(self) -> int:
        return sum(part.refund_minor for part in self.parts)


def refund_of(subscription: Subscription, *, at: datetime) -> Offered:
    """What ending this term at `at` pays back, with the figures of its orders; nothing else is ever read.

    A term whose machine was never handed over is paid back whole. Needs the organization and the order line's order.
    """
    bought = bought_by(subscription)
    paid = [one for _line, one in bought]
    if subscription.started_at is None:
        rule, amounts = Rule.NOT_DELIVERED, [one.amount_minor for one in paid]
    else:
        rule = _rule(subscription, at)
        amounts = _amounts(rule, subscription, paid, at)
    parts = (Part(line, one.amount_minor, amount) for (line, one), amount in zip(bought, amounts, strict=True))
    return Offered(rule, subscription.currency, tuple(parts))


def bought_by(subscription: Subscription) -> list[tuple[OrderLine, pricing.Paid]]:
    """The order lines that paid for this unit's term, each with this unit's share of its amount and its periods."""
    zone, line = subscription.organization.zone, subscription.order_line
    share = pricing.shares(line.amount_minor, line.quantity)[line.units.index(subscription.unit)]
    started_at = subscription.started_at or line.order.placed_at
    periods = pricing.term_periods(started_at=started_at, term=line.term, periods=line.periods, zone=zone)
    bought = [(line, pricing.Paid(share, tuple(periods)))]
    for extension in subscription.extensions.select_related("order_line").order_by("starts_at"):
        line = extension.order_line
        added = pricing.extension_periods(
            ends_at=extension.starts_at,
            anchor_day=subscription.anchor_day or 1,
            term=line.term,
            periods=line.periods,
            zone=zone,
        )
        bought.append((line, pricing.Paid(line.amount_minor, tuple(added))))
    return bought


def _rule(subscription: Subscription, at: datetime) -> Rule:
    """The rule that holds for this term now: the five days are over once, and once for the whole organization."""
    rule = Rule(settings.ORDERS_REFUND_RULE)
    if rule != Rule.FIVE_DAYS_ONCE:
        return rule
    started_at = subscription.started_at
    late = started_at is None or at >= started_at + timedelta(days=DAYS_WITHOUT_REASON)
    used_up = TermRefund.objects.filter(organization=subscription.organization_id, rule=Rule.FIVE_DAYS_ONCE).exists()
    return Rule.NONE if late or used_up else rule


def _amounts(rule: Rule, subscription: Subscription, paid: list[pricing.Paid], at: datetime) -> list[int]:
    if rule == Rule.NONE:
        return [0] * len(paid)
    hourly = _listed_by_the_hour(subscription) if rule == Rule.FIVE_DAYS_ONCE else None
    if hourly is None:
        return pricing.unused(paid, at=at)
    return pricing.less(paid, _used_at(hourly, subscription, at))


def _used_at(hourly: Price, subscription: Subscription, at: datetime) -> int:
    """What the hours until `at` cost at the list price by the hour, begun seconds counted whole."""
    started_at = subscription.started_at or at
    seconds = -((started_at - at) // timedelta(seconds=1))
    return pricing.line_amount(
        meter="card_hour",
        quantity=subscription.cards,
        rate=hourly.rate,
        currency=subscription.currency,
        seconds=max(seconds, 0),
    ).minor


def _listed_by_the_hour(subscription: Subscription) -> Price | None:
    """The list price by the hour as it was when the term was ordered."""
    line = subscription.order_line
    prices = Price.objects.filter(offer=line.offer_id, meter=Price.Meter.CARD_HOUR, currency=subscription.currency)
    return prices.in_force(line.order.placed_at).first()


def refunds_to_credit() -> QuerySet[TermRefundLine]:
    """What is to be paid back and has no credit note yet, oldest first. Billing pulls it."""
    return (
        TermRefundLine.objects.filter(credited_at__isnull=True)
        .select_related("refund__organization", "refund__subscription", "order_line__order")
        .order_by("pk")
    )
