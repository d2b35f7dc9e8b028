"""Top-ups by Stripe Checkout: begun, opened for payment, credited once per payment intent.

The row is written before Stripe is asked and after it answered, never while; a payment is heard of by webhook, by the
customer's way back and by the sweep, and all three end in `record_top_up`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization, User
from billing import ledger, stripe_gateway
from billing.actions.accounts import account_of, lock_account
from billing.actions.pushing import ensure_customer
from billing.models import Book, Posting, TopUp
from billing.stripe_gateway import CheckoutSession, PaymentIntent
from marketplace.lib.limits import MAXIMUM_MINOR, MINIMUM_MINOR
from marketplace.lib.money import format_minor
from marketplace.lib.refusals import Refusal

logger = logging.getLogger(__name__)

Status = TopUp.Status

# Stripe takes pages that last at least half an hour; a minute more for the call itself.
SHORTEST_PAGE = timedelta(minutes=31)
# What one call may take while somebody waits for the page.
PAGE_SECONDS = 6
FIRST_CHECK = timedelta(minutes=2)
LONGEST_CHECK = timedelta(hours=1)
# A page that nobody was shown may still be made by a request on its way.
STRAY = timedelta(minutes=10)
CHECK_AT_MOST = 200


class TopUpRefused(Refusal):
    """This top-up cannot be; nothing was charged."""


class IllegalTopUp(Refusal):
    """The top-up's state does not allow this."""

    code = "illegal_move"

    def __init__(self, top_up: TopUp, to: str) -> None:
        facts = {"status": top_up.get_status_display(), "to": TopUp.Status(to).label}
        super().__init__(message=_("A top-up that is “%(status)s” cannot become “%(to)s”.") % facts)


def move_top_up(top_up: TopUp, to: str, *, at: datetime) -> None:
    """The only code that writes TopUp.status: along an arrow of its table, under its row lock. Raises IllegalTopUp.

    Fields changed on the instance beforehand are saved with it. The database keeps the history.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("a top-up moves under its row lock")
    if to not in TopUp.NEXT.get(top_up.status, set()):
        raise IllegalTopUp(top_up, to)
    top_up.status = to
    if to == Status.PAID:
        top_up.paid_at = at
    if to not in {Status.CREATED, Status.OPEN}:
        top_up.next_check_at = None
    top_up.save()


def locked_top_up(top_up_id: int) -> TopUp:
    """The top-up as it is now, its row locked until the transaction ends."""
    return TopUp.objects.select_for_update(no_key=True).get(pk=top_up_id)


# --- begun and opened -----------------------------------------------------------------------------------------------
@transaction.atomic
def begin_top_up(
    *, organization: Organization, amount_minor: int, request_key: str, at: datetime, actor: User | None = None
) -> TopUp:
    """Write down that the organization wants to pay so much into its balance, once per form and amount.

    Raises TopUpRefused for less than Stripe collects or more than one charge can hold.
    """
    expect_amount(amount_minor, organization.currency)
    account = account_of(organization=organization)
    top_up, _created = TopUp.objects.get_or_create(
        account=account,
        request_key=f"{request_key}:{amount_minor}"[:64],
        defaults={
            "amount_minor": amount_minor,
            "currency": organization.currency,
            "created_by": actor,
            "created_at": at,
            "expires_at": at + timedelta(minutes=settings.TOP_UP_MINUTES),
            "next_check_at": at + FIRST_CHECK,
        },
    )
    return top_up


def expect_amount(amount_minor: int, currency: str) -> None:
    """Raises TopUpRefused for an amount that one charge cannot hold."""
    least, most = MINIMUM_MINOR[currency], MAXIMUM_MINOR
    facts = {"least": format_minor(least, currency), "most": format_minor(most, currency)}
    if amount_minor < least:
        raise TopUpRefused("amount_too_small", _("The least amount is %(least)s.") % facts, field="amount")
    if amount_minor > most:
        text = _("The most that can be paid online at once is %(most)s. Larger amounts come by bank transfer.")
        raise TopUpRefused("amount_too_large", text % facts, field="amount")


def open_top_up(*, top_up_id: int, success_url: str, cancel_url: str, at: datetime) -> TopUp:
    """Make sure that the top-up has its page at Stripe and return it with that; never inside a transaction.

    Pressed again, also after an unclear answer, the same page is found. Lets Stripe's errors through: nothing was
    charged then, and the same press may be repeated. Raises TopUpRefused once the page would be over too soon.
    """
    top_up = TopUp.objects.select_related("account__organization").get(pk=top_up_id)
    if top_up.status != Status.CREATED:
        return top_up
    with stripe_gateway.hurried(PAGE_SECONDS):
        session = _page(top_up, success_url=success_url, cancel_url=cancel_url, at=at)
    settle_checkout(session=session, at=at)
    return TopUp.objects.get(pk=top_up_id)


def _page(top_up: TopUp, *, success_url: str, cancel_url: str, at: datetime) -> CheckoutSession:
    customer = ensure_customer(top_up.account, version=top_up.version)
    first = not top_up.attempts
    found = None if first else _find_page(top_up)
    if found is not None:
        return found
    assert top_up.expires_at is not None  # noqa: S101 - only automatic ones have none
    if top_up.expires_at - at < SHORTEST_PAGE:
        raise TopUpRefused("page_over", _("This form is too old. Nothing was charged; begin again."))
    TopUp.objects.filter(pk=top_up.pk).update(attempts=top_up.attempts + 1)
    try:
        return stripe_gateway.create_checkout(
            topup_key=top_up.key,
            version=top_up.version,
            amount=top_up.amount_minor,
            currency=top_up.currency,
            customer=customer,
            methods=settings.TOP_UP_METHODS,
            success_url=success_url,
            cancel_url=cancel_url,
            expires_at=top_up.expires_at,
            description=_now("Top-up of the balance"),
        )
    except stripe_gateway.KeyReused:
        # The first press came in another language or from another address: its page is as good.
        found = _find_page(top_up)
        if found is None:
            raise
        return found
    except stripe_gateway.UnknownOutcome as problem:
        found = _find_page(top_up)
        if found is not None:
            return found
        if problem.stored:
            TopUp.objects.filter(pk=top_up.pk, version=top_up.version).update(version=top_up.version + 1)
        raise


def _find_page(top_up: TopUp) -> CheckoutSession | None:
    """What an attempt without a clear answer left behind: one that was paid rather than the newest."""
    customer = top_up.account.stripe_customer_id
    if not customer:
        return None
    since = top_up.created_at - STRAY
    found = stripe_gateway.find_checkouts(customer=customer, topup_key=top_up.key, since=since)
    return next((session for session in found if session.is_paid), found[0] if found else None)


# --- what came of it ------------------------------------------------------------------------------------------------
def record_top_up(*, top_up_id: int, payment_intent: str, amount_minor: int, currency: str, at: datetime) -> bool:
    """Credit the balance with a payment, once per payment intent, whatever became of the top-up meanwhile.

    Returns whether it was credited now. A second payment for the same top-up is a top-up of its own: no money is lost.
    """
    organization_id = TopUp.objects.values_list("account__organization_id", flat=True).get(pk=top_up_id)
    with transaction.atomic():
        account = lock_account(organization_id=organization_id)
        top_up = locked_top_up(top_up_id)
        if TopUp.objects.filter(payment_intent=payment_intent).exists():
            return False
        if currency != top_up.currency:
            raise TopUpRefused("currency_differs", _("The balance is in %(currency)s.") % {"currency": top_up.currency})
        if top_up.status == Status.PAID:
            logger.error("top-up %s was paid twice: %s and %s", top_up, top_up.payment_intent, payment_intent)
            top_up = _sibling(top_up, payment_intent, at)
        if amount_minor != top_up.amount_minor:
            logger.error("top-up %s was %s, but %s came", top_up, top_up.amount_minor, amount_minor)
            top_up.amount_minor = amount_minor
        top_up.payment_intent = payment_intent
        top_up.error = ""
        move_top_up(top_up, Status.PAID, at=at)
        ledger.post(
            account=account,
            kind=Posting.Kind.TOP_UP,
            fact=payment_intent,
            entries={Book.CASH: amount_minor, Book.WALLET: -amount_minor},
            at=at,
            currency=currency,
            actor=top_up.created_by,
        )
    return True


def _sibling(top_up: TopUp, payment_intent: str, at: datetime) -> TopUp:
    return TopUp.objects.create(
        account=top_up.account,
        request_key=payment_intent[:64],
        amount_minor=top_up.amount_minor,
        currency=top_up.currency,
        created_by=top_up.created_by,
        created_at=at,
    )


def settle_checkout(*, session: CheckoutSession, at: datetime) -> bool:
    """Bring the top-up to what its page at Stripe says; False when the page is none of ours. Repeatable, any order.

    May ask Stripe about the payment behind the page, so never inside a transaction.
    """
    top_up = _of_key(session.topup_key)
    if top_up is None:
        return False
    if session.is_paid:
        record_top_up(
            top_up_id=top_up.pk,
            payment_intent=session.payment_intent,
            amount_minor=session.amount_total,
            currency=session.currency,
            at=at,
        )
    elif session.status == "open":
        _remember_page(top_up.pk, session, at)
    elif session.status == "expired":
        _end(top_up.pk, Status.EXPIRED, at, only_session=session.id)
    elif session.payment_intent:
        # Completed but not paid: the payer's bank or wallet has not decided, or said no after all.
        settle_charge(intent=stripe_gateway.retrieve_payment_intent(payment_intent_id=session.payment_intent), at=at)
    return True


def settle_charge(*, intent: PaymentIntent, at: datetime) -> bool:
    """Bring the top-up to what its payment at Stripe says; False when the payment is none of ours. Repeatable."""
    top_up = _of_key(intent.topup_key)
    if top_up is None:
        return False
    if intent.status == "succeeded":
        record_top_up(
            top_up_id=top_up.pk,
            payment_intent=intent.id,
            amount_minor=intent.amount_received or intent.amount,
            currency=intent.currency,
            at=at,
        )
    elif intent.status in {"canceled", "requires_payment_method"} and _is_over(top_up):
        _end(top_up.pk, Status.FAILED, at, error=intent.failure_message or intent.failure_code)
    return True


def _is_over(top_up: TopUp) -> bool:
    """A payment that was declined ends nothing while its page lets the customer try again."""
    if top_up.is_automatic:
        return False  # tried again by its own rules
    if not top_up.stripe_session_id:
        return False
    return stripe_gateway.retrieve_checkout(session_id=top_up.stripe_session_id).status != "open"


def _of_key(key: str) -> TopUp | None:
    try:
        return TopUp.objects.filter(key=UUID(key)).first()
    except ValueError:
        return None


@transaction.atomic
def _remember_page(top_up_id: int, session: CheckoutSession, at: datetime) -> None:
    top_up = locked_top_up(top_up_id)
    if top_up.status != Status.CREATED:
        return
    top_up.stripe_session_id, top_up.checkout_url = session.id, session.url
    top_up.next_check_at = at + FIRST_CHECK
    move_top_up(top_up, Status.OPEN, at=at)


@transaction.atomic
def _end(top_up_id: int, to: str, at: datetime, *, only_session: str = "", error: str = "") -> None:
    """Expired or failed, unless it was paid meanwhile; the end of an older page than the one shown ends nothing."""
    top_up = locked_top_up(top_up_id)
    shown = top_up.stripe_session_id
    if top_up.status not in {Status.CREATED, Status.OPEN} or (only_session and shown and shown != only_session):
        return
    top_up.stripe_session_id = shown or only_session
    top_up.error = error[:300]
    move_top_up(top_up, to, at=at)


# --- asking, should no webhook come ---------------------------------------------------------------------------------
def settle_top_up(*, top_up_id: int, at: datetime, impatient: bool = False) -> TopUp:
    """Ask Stripe what became of the top-up and write it down; `impatient` while somebody waits for the page.

    Lets Stripe's errors through. What never got a page and whose time is over has expired.
    """
    top_up = TopUp.objects.select_related("account").get(pk=top_up_id)
    if top_up.status == Status.PAID:
        return top_up
    with stripe_gateway.hurried(PAGE_SECONDS) if impatient else nullcontext():
        shown = top_up.stripe_session_id
        session = stripe_gateway.retrieve_checkout(session_id=shown) if shown else _find_page(top_up)
        if session is not None:
            settle_checkout(session=session, at=at)
    if session is None and top_up.expires_at is not None and top_up.expires_at + STRAY <= at:
        _end(top_up.pk, Status.EXPIRED, at)
    return TopUp.objects.get(pk=top_up_id)


def sweep_top_ups(*, at: datetime) -> int:
    """Settle every top-up whose check is due, a growing while apart; returns how many were looked at.

    One that fails is logged and comes again. Automatic ones have rules of their own (`sweep_automatic`).
    """
    return for_each_due(settle_top_up, automatic=False, at=at)


def for_each_due(step: Callable[..., object], *, automatic: bool, at: datetime) -> int:
    """Call `step` with every top-up whose check is due, each by one worker at a time."""
    due = TopUp.objects.filter(status__in=[Status.CREATED, Status.OPEN], next_check_at__lte=at, is_automatic=automatic)
    done = 0
    for top_up in due.order_by("next_check_at", "pk")[:CHECK_AT_MOST]:
        claimed = TopUp.objects.filter(pk=top_up.pk, next_check_at=top_up.next_check_at)
        if not claimed.update(next_check_at=at + _until_check(top_up, at)):
            continue  # another worker has it
        try:
            step(top_up_id=top_up.pk, at=at)
        except stripe_gateway.GatewayError as problem:
            logger.warning("top-up %s could not be settled: %s", top_up, problem)
        except Exception:
            logger.exception("top-up %s could not be settled", top_up)
        done += 1
    return done


def _until_check(top_up: TopUp, at: datetime) -> timedelta:
    return min(max((at - top_up.created_at) / 4, FIRST_CHECK), LONGEST_CHECK)
