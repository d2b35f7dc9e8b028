"""Applying what webhooks stored: re-fetch the invoice, act on what it is now, keep what went wrong."""

import logging
from collections import defaultdict
from datetime import datetime, timedelta

from django.db.models import F, Q

from billing import stripe_gateway
from billing.actions import apply_stripe_invoice
from billing.models import StripeEvent

logger = logging.getLogger(__name__)

BATCH = 500
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(hours=6)


def apply_waiting(*, at: datetime) -> int:
    """Apply stored events that wait, oldest first; returns how many are done.

    Events about one invoice are one question to Stripe. What fails keeps its error and comes again later, ever more
    rarely; it holds up no other. In parallel and repeated: the same state.
    """
    waiting = (
        StripeEvent.objects.filter(processed_at__isnull=True)
        .filter(Q(next_attempt_at__isnull=True) | Q(next_attempt_at__lte=at))
        .order_by("received_at", "pk")
        .values_list("pk", "type", "object_id", "attempts")
    )
    by_object: dict[str, list[tuple[int, int]]] = defaultdict(list)
    done = 0
    for pk, _type, object_id, attempts in waiting[:BATCH]:
        if object_id.startswith("in_"):
            by_object[object_id].append((pk, attempts))
        else:
            done += _finish([pk], at, note="")
    for stripe_invoice_id, events in by_object.items():
        done += _apply(stripe_invoice_id, events, at)
    return done


def apply_again(*, event_id: int, at: datetime) -> bool:
    """Apply one stored event now, whatever its pause; whether it is done. One that was applied already stays so."""
    event = StripeEvent.objects.get(pk=event_id)
    if event.processed_at is not None:
        return True
    if not event.object_id.startswith("in_"):
        return _finish([event.pk], at, note="") > 0
    return _apply(event.object_id, [(event.pk, event.attempts)], at) > 0


def _apply(stripe_invoice_id: str, events: list[tuple[int, int]], at: datetime) -> int:
    ids = [pk for pk, _attempts in events]
    try:
        theirs = stripe_gateway.retrieve_invoice(invoice_id=stripe_invoice_id)
        invoice = apply_stripe_invoice(theirs=theirs, at=at)
    except stripe_gateway.Refused as problem:
        if problem.reason == "resource_missing":
            return _finish(ids, at, note="gone at Stripe")
        return _postpone(ids, max(attempts for _pk, attempts in events), problem, at)
    except Exception as problem:
        if not isinstance(problem, stripe_gateway.GatewayError):
            logger.exception("Stripe events about %s could not be applied", stripe_invoice_id)
        return _postpone(ids, max(attempts for _pk, attempts in events), problem, at)
    return _finish(ids, at, note="" if invoice else "not one of ours")


def _finish(ids: list[int], at: datetime, *, note: str) -> int:
    return StripeEvent.objects.filter(pk__in=ids, processed_at__isnull=True).update(
        processed_at=at, error=note, attempts=F("attempts") + 1
    )


def _postpone(ids: list[int], attempts: int, problem: Exception, at: datetime) -> int:
    """Back-off with the reason kept on the rows; nothing is ever given up silently."""
    pause = min(FIRST_PAUSE * 2 ** min(attempts, 12), LONGEST_PAUSE)
    StripeEvent.objects.filter(pk__in=ids, processed_at__isnull=True).update(
        attempts=F("attempts") + 1, error=f"{type(problem).__name__}: {problem}"[:300], next_attempt_at=at + pause
    )
    return 0
