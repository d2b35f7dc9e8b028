"""Refunds: money on its way back to where it came from, one state machine for Stripe's and the bank's.

pending → submitted → succeeded or failed; one that failed puts the money onto the balance. The database says who may
talk to Stripe about a refund (a lease that expires) and what came of it; the network is used between transactions.
Killed at any point, repeated or run twice at once, Stripe sends the money once.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Q, Sum
from django.utils.translation import gettext_lazy as _

from accounts.models import Notification, User
from accounts.notices import notify
from billing import ledger, stripe_gateway
from billing.actions.accounts import lock_account
from billing.models import BillingAccount, Book, CreditNote, Payment, Posting, Refund, TopUp
from marketplace.lib.money import format_minor
from marketplace.lib.refusals import Refusal

logger = logging.getLogger(__name__)

Status, Method = Refund.Status, Refund.Method

# How long one attempt may work before another may take over; both send the same key.
LEASE = timedelta(minutes=2)
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(hours=1)
# While Stripe has not decided, it is asked a growing while apart, should no webhook come.
FIRST_CHECK = timedelta(minutes=10)
LONGEST_CHECK = timedelta(hours=12)
AT_MOST = 200


class RefundRefused(Refusal):
    """Nothing is sent back; `message` says why."""


class IllegalRefundMove(Exception):
    """A move that the transition table does not have: a bug, never a customer's mistake."""


def locked_refund(refund_id: int) -> Refund:
    """The refund as it is now, its row locked until the transaction ends."""
    return Refund.objects.select_for_update(no_key=True).get(pk=refund_id)


def move_refund(refund: Refund, to: str) -> None:
    """The only code that writes Refund.status; the row is locked, its history is kept by the database."""
    if not connection.in_atomic_block:
        raise RuntimeError("a refund moves under its row lock")
    if to not in Refund.NEXT.get(refund.status, set()):
        raise IllegalRefundMove(f"{refund} is {refund.status} and cannot become {to}")
    refund.status = to
    refund.save()


# --- opening --------------------------------------------------------------------------------------------------------
def open_refunds(*, note: CreditNote, most_minor: int, at: datetime, actor: User | None) -> int:
    """Refund up to so much of a note to where its invoice's money came from, the newest payment first; returns how
    much that is. What was paid from the balance has no other source.

    In the caller's transaction, which holds the account and books it.
    """
    left = most_minor
    payments = note.invoice.payments.filter(method__in=[Payment.Method.STRIPE, Payment.Method.BANK_TRANSFER])
    for payment in payments.order_by("-received_at", "-pk"):
        amount = min(refundable_minor(payment), left)
        if amount <= 0:
            continue
        by_stripe = payment.method == Payment.Method.STRIPE and payment.reference.startswith("pi_")
        Refund.objects.create(
            account=note.account,
            request_key=f"note:{note.key}:{payment.pk}",
            credit_note=note,
            payment=payment,
            method=Method.STRIPE if by_stripe else Method.BANK_TRANSFER,
            amount_minor=amount,
            currency=note.currency,
            requested_by=actor,
            created_at=at,
            next_attempt_at=at if by_stripe else None,
        )
        left -= amount
    return most_minor - left


def refundable_minor(source: Payment | TopUp) -> int:
    """What no refund has taken of a payment or a top-up yet, and no lost or open dispute. Exact under its account's
    lock."""
    if isinstance(source, TopUp) and source.status != TopUp.Status.PAID:
        return 0
    refunded = source.refunds.exclude(status=Status.FAILED).aggregate(total=Sum("amount_minor", default=0))["total"]
    disputed = source.disputes.exclude(status="won").aggregate(total=Sum("amount_minor", default=0))["total"]
    return max(source.amount_minor - refunded - disputed, 0)


@transaction.atomic
def refund_top_up(
    *, top_up: TopUp, amount_minor: int, request_key: str, at: datetime, actor: User | None = None
) -> Refund:
    """Send so much of a top-up back, once per request, taken from the balance now. Raises RefundRefused when the
    balance or the top-up has less."""
    account = lock_account(organization_id=top_up.account.organization_id)
    known = Refund.objects.filter(request_key=request_key).first()
    if known is not None:
        return known
    if amount_minor <= 0:
        raise RefundRefused("amount_not_positive", _("The amount must be more than zero."), field="amount")
    fresh = TopUp.objects.select_for_update(no_key=True).get(pk=top_up.pk)
    most = min(refundable_minor(fresh), max(ledger.balance(account, Book.WALLET), 0))
    if amount_minor > most:
        facts = {"most": format_minor(most, fresh.currency)}
        raise RefundRefused("too_much", _("At most %(most)s can be sent back.") % facts, field="amount")
    refund = Refund.objects.create(
        account=account,
        request_key=request_key,
        top_up=fresh,
        method=Method.STRIPE,
        amount_minor=amount_minor,
        currency=fresh.currency,
        requested_by=actor,
        created_at=at,
        next_attempt_at=at,
    )
    _post(refund, Posting.Kind.REFUND, f"{refund.key}:opened", Book.WALLET, Book.REFUNDS, at=at, actor=actor)
    return refund


# --- sending --------------------------------------------------------------------------------------------------------
def due_refunds(*, at: datetime) -> list[int]:
    """Ids of Stripe's refunds that wait: new ones, those whose pause is over, those whose attempt died."""
    return list(
        Refund.objects.filter(method=Method.STRIPE, next_attempt_at__lte=at)
        .filter(Q(status=Status.PENDING) | Q(status=Status.SUBMITTED))
        .order_by("next_attempt_at", "pk")
        .values_list("pk", flat=True)[:AT_MOST]
    )


def sweep_refunds(*, at: datetime) -> int:
    """Bring every waiting refund one step further; returns how many were taken up. One that fails holds up no other."""
    taken = due_refunds(at=at)
    for refund_id in taken:
        try:
            send_refund(refund_id=refund_id, at=at)
        except Exception:
            logger.exception("refund %s could not be sent", refund_id)
    return len(taken)


def send_refund(*, refund_id: int, at: datetime) -> Refund:
    """One attempt: send it, or ask what became of it. Returns it as it then is; Stripe raises nothing."""
    refund = _lease(refund_id, at)
    if refund is None:
        return Refund.objects.get(pk=refund_id)
    try:
        theirs = _at_stripe(refund)
    except stripe_gateway.Refused as problem:
        return _refused(refund, problem, at)
    except stripe_gateway.GatewayError as problem:
        return _postpone(refund, problem, at)
    apply_refund(theirs=theirs, at=at)
    return Refund.objects.get(pk=refund_id)


@transaction.atomic
def _lease(refund_id: int, at: datetime) -> Refund | None:
    refund = locked_refund(refund_id)
    waiting = refund.status in {Status.PENDING, Status.SUBMITTED} and refund.method == Method.STRIPE
    if not waiting or refund.next_attempt_at is None or refund.next_attempt_at > at:
        return None
    refund.next_attempt_at = at + LEASE
    refund.attempts += 1
    refund.save(update_fields=["next_attempt_at", "attempts"])
    return Refund.objects.select_related("payment", "top_up", "account").get(pk=refund_id)


def _at_stripe(refund: Refund) -> stripe_gateway.Refund:
    """Everything said to Stripe. Any attempt but the first looks up what exists, so a key's age never matters."""
    if refund.reference:
        return stripe_gateway.retrieve_refund(refund_id=refund.reference)
    intent = source_intent(refund)
    found = stripe_gateway.find_refund(payment_intent=intent, refund_key=refund.key) if refund.attempts > 1 else None
    return found or stripe_gateway.create_refund(
        payment_intent=intent, amount=refund.amount_minor, refund_key=refund.key, version=refund.version
    )


def source_intent(refund: Refund) -> str:
    """The payment intent that a refund of Stripe's goes back along."""
    if refund.payment is not None:
        return refund.payment.reference
    return (refund.top_up.payment_intent or "") if refund.top_up else ""


def _refused(refund: Refund, problem: stripe_gateway.Refused, at: datetime) -> Refund:
    """Stripe will not send it. Unless an earlier attempt had come through after all, it failed."""
    try:
        found = stripe_gateway.find_refund(payment_intent=source_intent(refund), refund_key=refund.key)
    except stripe_gateway.GatewayError as unclear:
        return _postpone(refund, unclear, at)
    if found is not None:
        apply_refund(theirs=found, at=at)
    else:
        logger.error("refund %s: Stripe refuses: %s", refund, problem)
        _fail(refund.pk, error=str(problem), at=at)
    return Refund.objects.get(pk=refund.pk)


@transaction.atomic
def _postpone(refund: Refund, problem: stripe_gateway.GatewayError, at: datetime) -> Refund:
    fresh = locked_refund(refund.pk)
    if fresh.status not in {Status.PENDING, Status.SUBMITTED}:
        return fresh
    fresh.error = str(problem)[:300]
    if isinstance(problem, stripe_gateway.UnknownOutcome) and problem.stored and fresh.version == refund.version:
        fresh.version += 1
    fresh.next_attempt_at = at + min(FIRST_PAUSE * 2 ** min(fresh.attempts - 1, 10), LONGEST_PAUSE)
    fresh.save(update_fields=["error", "version", "next_attempt_at"])
    logger.warning("refund %s was not sent: %s", refund, problem)
    return fresh


# --- what became of it ----------------------------------------------------------------------------------------------
def apply_refund(*, theirs: stripe_gateway.Refund, at: datetime) -> Refund | None:
    """Bring our refund to what Stripe's state says, by rank: an older state changes nothing. None when it is none of
    ours."""
    mine = _ours(theirs)
    if mine is None:
        return None
    if theirs.status in {"failed", "canceled"}:
        _fail(mine.pk, error=theirs.failure_reason or theirs.status, at=at, reference=theirs.id)
    elif theirs.status == "succeeded":
        _succeed(mine.pk, reference=theirs.id, at=at)
    else:
        _submitted(mine.pk, reference=theirs.id, at=at)
    return Refund.objects.get(pk=mine.pk)


def _ours(theirs: stripe_gateway.Refund) -> Refund | None:
    try:
        return Refund.objects.filter(key=UUID(theirs.refund_key)).first()
    except ValueError:
        return Refund.objects.filter(method=Method.STRIPE, reference=theirs.id).first()


def _account_of(refund_id: int) -> BillingAccount:
    """The refund's account, locked: books are written by one at a time."""
    organization_id = Refund.objects.values_list("account__organization_id", flat=True).get(pk=refund_id)
    return lock_account(organization_id=organization_id)


@transaction.atomic
def _submitted(refund_id: int, *, reference: str, at: datetime) -> None:
    refund = locked_refund(refund_id)
    if refund.status not in {Status.PENDING, Status.SUBMITTED}:
        return
    refund.reference = refund.reference or reference
    refund.error = ""
    refund.next_attempt_at = at + min(max((at - refund.created_at) / 4, FIRST_CHECK), LONGEST_CHECK)
    if refund.status == Status.PENDING:
        move_refund(refund, Status.SUBMITTED)
    else:
        refund.save(update_fields=["reference", "error", "next_attempt_at"])


@transaction.atomic
def _succeed(refund_id: int, *, reference: str, at: datetime, actor: User | None = None) -> Refund:
    """The money has left: what we owed is paid. Repeating it, or after a failure, changes nothing."""
    account = _account_of(refund_id)
    refund = locked_refund(refund_id)
    if refund.status not in {Status.PENDING, Status.SUBMITTED}:
        return refund
    refund.reference, refund.error = reference, ""
    refund.finished_at, refund.next_attempt_at = at, None
    move_refund(refund, Status.SUCCEEDED)
    _post(refund, Posting.Kind.REFUND, str(refund.key), Book.REFUNDS, Book.CASH, at=at, actor=actor)
    _tell(refund, account, "done", at)
    return refund


@transaction.atomic
def _fail(refund_id: int, *, error: str, at: datetime, reference: str = "", actor: User | None = None) -> Refund:
    """It cannot be sent, or came back: the money is on the balance. Repeating it changes nothing."""
    account = _account_of(refund_id)
    refund = locked_refund(refund_id)
    if refund.status == Status.FAILED:
        return refund
    was_sent = refund.status == Status.SUCCEEDED
    refund.reference = refund.reference or reference
    refund.error, refund.finished_at, refund.next_attempt_at = error[:300], at, None
    move_refund(refund, Status.FAILED)
    source = Book.CASH if was_sent else Book.REFUNDS
    _post(refund, Posting.Kind.REFUND_FAILED, str(refund.key), source, Book.WALLET, at=at, actor=actor)
    _tell(refund, account, "failed", at)
    return refund


def _post(
    refund: Refund, kind: Posting.Kind, fact: str, debit: Book, credit: Book, *, at: datetime, actor: User | None
) -> None:
    ledger.post(
        account=refund.account,
        kind=kind,
        fact=fact,
        entries={debit: refund.amount_minor, credit: -refund.amount_minor},
        at=at,
        currency=refund.currency,
        invoice=None,
        actor=actor,
        note=refund.reference,
    )


def _tell(refund: Refund, account: BillingAccount, how: str, at: datetime) -> None:
    notify(
        organization=account.organization,
        kind=Notification.Kind.REFUND_ENDED,
        fact=f"{refund.key}:{how}",
        params={"amount": format_minor(refund.amount_minor, refund.currency), "how": how},
        page="billing:overview",
        page_args=[],
        at=at,
    )


# --- finance: the bank's, and giving one up -------------------------------------------------------------------------
def confirm_bank_refund(*, refund: Refund, reference: str, at: datetime, actor: User | None = None) -> Refund:
    """Finance has transferred the money under this reference. Raises RefundRefused when Stripe sends it, when it is
    over, or without a reference."""
    if refund.method != Method.BANK_TRANSFER:
        raise RefundRefused("not_by_bank", _("Stripe sends this refund by itself."))
    if not reference.strip():
        raise RefundRefused("reference_missing", _("Give the reference of the transfer."), field="reference")
    if refund.status != Status.PENDING:
        raise RefundRefused("over", _("This refund is over."))
    return _succeed(refund.pk, reference=reference.strip()[:100], at=at, actor=actor)


@transaction.atomic
def keep_on_balance(*, refund: Refund, at: datetime, actor: User | None = None) -> Refund:
    """Put the money of a refund that nobody has sent onto the balance instead. Raises RefundRefused once Stripe has
    been asked to send it."""
    lock_account(organization_id=refund.account.organization_id)
    fresh = locked_refund(refund.pk)
    if fresh.status != Status.PENDING or (fresh.method == Method.STRIPE and fresh.attempts):
        raise RefundRefused("under_way", _("This refund is under way or over."))
    return _fail(fresh.pk, error="kept on the balance", at=at, actor=actor)


@transaction.atomic
def hurry_refund(*, refund: Refund, at: datetime) -> None:
    """Skip the pause of a waiting refund; the next sweep takes it up."""
    fresh = locked_refund(refund.pk)
    if fresh.method != Method.STRIPE or fresh.status not in {Status.PENDING, Status.SUBMITTED}:
        raise RefundRefused("over", _("This refund is over."))
    fresh.next_attempt_at = at
    fresh.save(update_fields=["next_attempt_at"])
