"""Taking an invoice back, and settling orders whose hold ran out: Stripe first, our rows only when that is certain."""

import logging
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from billing import stripe_gateway
from billing.actions.moving import locked, move_invoice
from billing.actions.pushing import leased, take_lease
from billing.actions.releasing import VoidRefused, expect_voidable, mark_void
from billing.actions.syncing import apply_stripe_invoice
from billing.models import Invoice
from orders import actions as orders_actions
from orders.models import Order

logger = logging.getLogger(__name__)

Status = Invoice.Status


def void_invoice(*, invoice: Invoice, at: datetime, actor: User | None = None, note: str = "") -> Invoice:
    """Take an unpaid invoice back: at Stripe first, outside any transaction, then here; its usage is unbilled again.

    Repeating it changes nothing. Raises VoidRefused when money came or an attempt to push is running, and lets
    Stripe's errors through when Stripe's answer is unclear; then the invoice stays.
    """
    fresh = _hold_still(invoice.pk, at)
    if fresh.status == Status.VOID:
        return fresh
    try:
        _take_back_at_stripe(fresh, at)
    except stripe_gateway.GatewayError as problem:
        _note_failure(fresh.pk, problem)
        raise
    return mark_void(invoice_id=fresh.pk, at=at, actor=actor, note=note)


@transaction.atomic
def _hold_still(invoice_id: int, at: datetime) -> Invoice:
    """The invoice, with a lease on it while it is neither open nor over, so that no push starts meanwhile."""
    invoice = locked(invoice_id)
    expect_voidable(invoice)
    if leased(invoice, at):
        raise VoidRefused("busy", _("The invoice is being sent to Stripe at this moment. Try again in two minutes."))
    if invoice.collection == Invoice.Collection.STRIPE and invoice.status in {Status.ISSUED, Status.PUSHING}:
        if invoice.status == Status.ISSUED:
            move_invoice(invoice, Status.PUSHING, at=at, note="to be voided")
        take_lease(invoice, at)
    return Invoice.objects.select_related("account", "organization").get(pk=invoice_id)


def _take_back_at_stripe(invoice: Invoice, at: datetime) -> None:
    """Make sure that nobody can pay it there. A paid one is recorded as paid and raises VoidRefused."""
    if invoice.collection != Invoice.Collection.STRIPE:
        return
    theirs = _at_stripe(invoice)
    if theirs is not None and theirs.status == "draft":
        stripe_gateway.delete_draft(invoice_id=theirs.id)
        return
    if theirs is not None and theirs.status in {"open", "uncollectible"}:
        theirs = _void_there(invoice, theirs)
    if theirs is not None and theirs.status == "paid":
        apply_stripe_invoice(theirs=theirs, at=at)
        raise VoidRefused("paid", _("The invoice was paid in the meantime."))


def _at_stripe(invoice: Invoice) -> stripe_gateway.StripeInvoice | None:
    if invoice.stripe_invoice_id:
        return stripe_gateway.retrieve_invoice(invoice_id=invoice.stripe_invoice_id)
    if not invoice.account.stripe_customer_id:
        return None
    return stripe_gateway.find_invoice(customer=invoice.account.stripe_customer_id, invoice_uuid=invoice.key)


def _void_there(invoice: Invoice, theirs: stripe_gateway.StripeInvoice) -> stripe_gateway.StripeInvoice:
    """Void it; where Stripe refuses, its state now says whether it was paid a moment ago."""
    try:
        return stripe_gateway.void_invoice(invoice_id=theirs.id, invoice_uuid=invoice.key, version=invoice.push_version)
    except stripe_gateway.Refused:
        seen = stripe_gateway.retrieve_invoice(invoice_id=theirs.id)
        if seen.status not in {"paid", "void"}:
            raise
        return seen


@transaction.atomic
def _note_failure(invoice_id: int, problem: stripe_gateway.GatewayError) -> None:
    """An attempt to void ended without a clear answer: whatever held the invoice is over, and the next attempt must
    not repeat a failure that Stripe remembers."""
    invoice = locked(invoice_id)
    invoice.push_error = str(problem)[:300]
    if isinstance(problem, stripe_gateway.UnknownOutcome) and problem.stored:
        invoice.push_version += 1
    invoice.save(update_fields=["push_error", "push_version"])


# --- orders whose hold ran out ------------------------------------------------------------------------------
def settle_expiring(*, at: datetime) -> dict[str, list[int]]:
    """For every expiring order make sure at Stripe that nobody can pay any more, then cancel it and free its cards.

    Paid after all: the order is confirmed. Unclear: the cards stay held and the next sweep asks again. Returns order
    ids under "cancelled", "paid" and "waiting".
    """
    done: dict[str, list[int]] = {"cancelled": [], "paid": [], "waiting": []}
    for order_id in Order.objects.filter(status=Order.Status.EXPIRING).order_by("pk").values_list("pk", flat=True):
        try:
            outcome = _settle_order(order_id, at)
        except Exception:
            logger.exception("order %s could not be settled", order_id)
            outcome = "waiting"
        done[outcome].append(order_id)
    return done


def _settle_order(order_id: int, at: datetime) -> str:
    invoice = Invoice.objects.filter(order_id=order_id).exclude(status=Status.VOID).first()
    if invoice is not None and invoice.status != Status.PAID:
        try:
            void_invoice(invoice=invoice, at=at, note="the order's hold expired")
        except (VoidRefused, stripe_gateway.GatewayError) as problem:
            invoice.refresh_from_db()
            if invoice.status != Status.PAID:
                logger.warning("order %s keeps its cards: %s", order_id, problem)
                return "waiting"
    if invoice is not None and invoice.status == Status.PAID:
        orders_actions.confirm(order_id=order_id, at=at)
        return "paid"
    orders_actions.cancel_unpaid(order_id=order_id, at=at)
    return "cancelled"
