"""Applying what webhooks stored: re-fetch the object, act on what it is now, keep what went wrong."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from billing import stripe_gateway
from billing.actions import apply_stripe_invoice
from billing.actions.autotopup import record_card
from billing.actions.disputes import apply_dispute
from billing.actions.moving import locked, record_event
from billing.actions.refunds import apply_refund
from billing.actions.telling_stripe import apply_credit_note
from billing.actions.topups import settle_charge, settle_checkout
from billing.models import Invoice, StripeEvent

logger = logging.getLogger(__name__)

BATCH = 500
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(hours=6)

# What an invoice's history should say although its state at Stripe does not.
TOLD = {
    "invoice.payment_failed": "a payment failed at Stripe",
    "invoice.payment_action_required": "the payer's bank asks its customer to confirm a payment",
    "invoice.overdue": "overdue at Stripe",
    "invoice.overpaid": "attention: overpaid at Stripe",
}


# --- by what an event is about --------------------------------------------------------------------------------------
def _invoice(stripe_id: str, at: datetime) -> bool:
    return apply_stripe_invoice(theirs=stripe_gateway.retrieve_invoice(invoice_id=stripe_id), at=at) is not None


def _checkout(stripe_id: str, at: datetime) -> bool:
    session = stripe_gateway.retrieve_checkout(session_id=stripe_id)
    return settle_checkout(session=session, at=at) or record_card(session=session)


def _intent(stripe_id: str, at: datetime) -> bool:
    return settle_charge(intent=stripe_gateway.retrieve_payment_intent(payment_intent_id=stripe_id), at=at)


def _refund(stripe_id: str, at: datetime) -> bool:
    return apply_refund(theirs=stripe_gateway.retrieve_refund(refund_id=stripe_id), at=at) is not None


def _dispute(stripe_id: str, at: datetime) -> bool:
    return apply_dispute(theirs=stripe_gateway.retrieve_dispute(dispute_id=stripe_id), at=at) is not None


def _credit_note(stripe_id: str, at: datetime) -> bool:
    return apply_credit_note(theirs=stripe_gateway.retrieve_credit_note(credit_note_id=stripe_id)) is not None


Apply = Callable[[str, datetime], bool]

# By the beginning of the event's type, the longest first. What is not named says nothing that another does not.
FAMILIES: tuple[tuple[str, Apply], ...] = (
    ("charge.dispute.", _dispute),
    ("charge.refund.", _refund),
    ("checkout.session.", _checkout),
    ("credit_note.", _credit_note),
    ("invoice.", _invoice),
    ("invoice_payment.", _invoice),
    ("payment_intent.canceled", _intent),
    ("payment_intent.payment_failed", _intent),
    ("payment_intent.succeeded", _intent),
    ("refund.", _refund),
)


def _family(type: str) -> Apply | None:
    return next((apply for beginning, apply in FAMILIES if type.startswith(beginning)), None)


# --- the sweep ------------------------------------------------------------------------------------------------------
def apply_waiting(*, at: datetime) -> int:
    """Apply stored events that wait, oldest first; returns how many are done.

    Events about one object are one question to Stripe. What fails keeps its error and comes again later, ever more
    rarely; it holds up no other. In parallel and repeated: the same state.
    """
    waiting = (
        StripeEvent.objects.filter(processed_at__isnull=True)
        .filter(Q(next_attempt_at__isnull=True) | Q(next_attempt_at__lte=at))
        .order_by("received_at", "pk")
        .only("pk", "type", "object_id", "attempts")
    )
    by_object: dict[tuple[Apply, str], list[StripeEvent]] = defaultdict(list)
    done = 0
    for event in waiting[:BATCH]:
        apply = _family(event.type)
        if apply is None or not event.object_id:
            done += _finish([event], at, note="")
        else:
            by_object[apply, event.object_id].append(event)
    for (apply, stripe_id), events in by_object.items():
        done += _apply(apply, stripe_id, events, at)
    return done


def apply_again(*, event_id: int, at: datetime) -> bool:
    """Apply one stored event now, whatever its pause; whether it is done. One that was applied already stays so."""
    event = StripeEvent.objects.get(pk=event_id)
    if event.processed_at is not None:
        return True
    apply = _family(event.type)
    if apply is None or not event.object_id:
        return _finish([event], at, note="") > 0
    return _apply(apply, event.object_id, [event], at) > 0


def _apply(apply: Apply, stripe_id: str, events: Sequence[StripeEvent], at: datetime) -> int:
    try:
        is_ours = apply(stripe_id, at)
    except stripe_gateway.Refused as problem:
        if problem.reason == "resource_missing":
            return _finish(events, at, note="gone at Stripe")
        return _postpone(events, problem, at)
    except Exception as problem:
        if not isinstance(problem, stripe_gateway.GatewayError):
            logger.exception("Stripe events about %s could not be applied", stripe_id)
        return _postpone(events, problem, at)
    return _finish(events, at, note="" if is_ours else "not one of ours")


@transaction.atomic
def _finish(events: Sequence[StripeEvent], at: datetime, *, note: str) -> int:
    """Done, each once: what only its history can tell of an invoice is written in the same transaction."""
    waiting = StripeEvent.objects.filter(pk__in=[event.pk for event in events], processed_at__isnull=True)
    taken = list(waiting.select_for_update().order_by("pk").values_list("pk", "type", "object_id"))
    for _pk, type, object_id in taken:
        if type in TOLD and (invoice_id := _invoice_named(object_id)):
            record_event(locked(invoice_id), at=at, note=TOLD[type])
    StripeEvent.objects.filter(pk__in=[pk for pk, _type, _object_id in taken]).update(
        processed_at=at, error=note, attempts=F("attempts") + 1
    )
    return len(taken)


def _invoice_named(stripe_id: str) -> int | None:
    return Invoice.objects.filter(stripe_invoice_id=stripe_id).values_list("pk", flat=True).first()


def _postpone(events: Sequence[StripeEvent], problem: Exception, at: datetime) -> int:
    """Back-off with the reason kept on the rows; nothing is ever given up silently."""
    attempts = max(event.attempts for event in events)
    pause = min(FIRST_PAUSE * 2 ** min(attempts, 12), LONGEST_PAUSE)
    StripeEvent.objects.filter(pk__in=[event.pk for event in events], processed_at__isnull=True).update(
        attempts=F("attempts") + 1, error=f"{type(problem).__name__}: {problem}"[:300], next_attempt_at=at + pause
    )
    return 0
