"""Terms that renew themselves: from seven days before the end, daily from nine in the morning, by the balance only."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import transaction

from billing.actions.drafting import draft_order_invoice
from billing.actions.wallet import BalanceRefused, covering, pay_from_wallet
from billing.models import Invoice
from marketplace.lib import clock
from orders import actions as orders
from orders import agreements, pricing
from orders.models import Order, Subscription

logger = logging.getLogger(__name__)


def renew_terms(*, at: datetime) -> int:
    """Extend every term that renews itself and is due, by one of its periods at today's price; how many were.

    Where the balance does not pay the whole, nothing is ordered and a later run asks again until the term has ended.
    Safe to repeat and in parallel. One that fails stops no other.
    """
    return sum(_attempt(term, at) for term in agreements.terms_to_renew(at=at))


def _attempt(term: Subscription, at: datetime) -> bool:
    try:
        return _renew(term, at)
    except (orders.OrderRefused, BalanceRefused) as refusal:
        logger.warning("term %s does not renew itself: %s", term.pk, refusal)
    except Exception:
        logger.exception("term %s could not renew itself", term.pk)
    return False


@transaction.atomic
def _renew(term: Subscription, at: datetime) -> bool:
    """Order, invoice and payment are one transaction: an order that the balance does not pay was never there."""
    organization = term.organization
    rate, _disk = orders.rates_now(
        offer=term.order_line.offer, term=term.term, currency=term.currency, at=at, organization=organization
    )
    amount = pricing.advance_amount(term=term.term, cards=term.cards, rate=rate, currency=term.currency, periods=1)
    if amount.minor and covering(organization=organization, amount_minor=amount.minor, at=at) is None:
        return False
    order = orders.extend_term(
        subscription_id=term.pk,
        actor=None,
        request_key=f"auto-renew:{term.key.hex}:{clock.local_date(at, organization.zone):%Y%m%d}",
        term=term.term,
        periods=1,
        seen_rate=rate,
        at=at,
    )
    if order.status != Order.Status.AWAITING_PAYMENT:
        return False
    invoice = draft_order_invoice(order=order, at=at)
    if invoice is not None and invoice.status != Invoice.Status.PAID:
        pay_from_wallet(invoice=invoice, at=at)
    return True
