"""Automatic top-ups: a saved card is charged once each time the balance falls below a mark.

The crossing is written on the account and the top-up beside it before Stripe is asked, so that whatever dies in
between, the sweep charges the same top-up under the same key.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from accounts.models import Notification, Organization
from accounts.notices import notify
from billing import stripe_gateway
from billing.actions.accounts import account_of, lock_account
from billing.actions.pushing import ensure_customer
from billing.actions.topups import (
    STRAY,
    expect_amount,
    for_each_due,
    locked_top_up,
    move_top_up,
    settle_charge,
)
from billing.actions.wallet import holdings
from billing.models import BillingAccount, TopUp
from billing.stripe_gateway import CardDeclined, CheckoutSession, PaymentIntent, SavedMethod, UnknownOutcome
from marketplace.lib.money import format_minor
from marketplace.lib.refusals import Refusal

logger = logging.getLogger(__name__)

Status = TopUp.Status

DECLINES_AT_MOST = 3
# How long after a refusal the card is tried again: an hour, then a day.
AGAIN = (timedelta(hours=1), timedelta(hours=24))
SETUP_PAGE = timedelta(minutes=60)


class AutoTopUpRefused(Refusal):
    """Automatic top-up cannot be set so; nothing changed."""


# --- the card -------------------------------------------------------------------------------------------------------
def begin_card_setup(
    *, organization: Organization, setup_key: UUID, success_url: str, cancel_url: str, at: datetime
) -> str:
    """The address of a page on which a card is left; nothing is charged. Lets Stripe's errors through."""
    account = BillingAccount.objects.select_related("organization").get(pk=account_of(organization=organization).pk)
    session = stripe_gateway.create_setup_checkout(
        setup_key=setup_key,
        version=1,
        currency=organization.currency,
        customer=ensure_customer(account, version=1),
        success_url=success_url,
        cancel_url=cancel_url,
        expires_at=at + SETUP_PAGE,
    )
    return session.url


def record_card(*, session: CheckoutSession) -> bool:
    """Keep the card that somebody left on a setup page of ours; False when there is none (yet). Repeatable.

    Asks Stripe which card it is, so never inside a transaction.
    """
    if session.mode != "setup" or not session.setup_intent or not session.customer:
        return False
    account = BillingAccount.objects.filter(stripe_customer_id=session.customer).first()
    method = stripe_gateway.retrieve_setup_method(setup_intent=session.setup_intent) if account else None
    if account is None or method is None or method.customer != account.stripe_customer_id:
        return False
    with transaction.atomic():
        fresh = lock_account(organization_id=account.organization_id)
        fresh.stripe_payment_method_id, fresh.saved_card = method.id, _words(method)
        fresh.save(update_fields=["stripe_payment_method_id", "saved_card"])
    return True


def _words(method: SavedMethod) -> str:
    return f"{method.brand.title()} ··{method.last4} {method.exp_month:02d}/{method.exp_year}"


def remove_card(*, organization: Organization) -> None:
    """Forget the saved card, here and at Stripe, and switch automatic top-up off. Repeating it changes nothing."""
    with transaction.atomic():
        account = lock_account(organization_id=organization.pk)
        method = account.stripe_payment_method_id
        account.stripe_payment_method_id = account.saved_card = ""
        _off(account)
    if method:
        stripe_gateway.detach_method(payment_method=method)


# --- the rule -------------------------------------------------------------------------------------------------------
@transaction.atomic
def set_auto_top_up(*, organization: Organization, below_minor: int, amount_minor: int) -> BillingAccount:
    """Charge `amount_minor` to the saved card each time the balance falls below `below_minor`."""
    account = lock_account(organization_id=organization.pk)
    if not account.stripe_payment_method_id:
        raise AutoTopUpRefused("no_card", _("Save a card first."))
    expect_amount(amount_minor, organization.currency)
    if amount_minor < below_minor:
        raise AutoTopUpRefused(
            "amount_below_mark", _("Charge at least as much as the mark, so that one charge is enough."), field="amount"
        )
    account.auto_top_up_below_minor, account.auto_top_up_minor = below_minor, amount_minor
    account.save(update_fields=["auto_top_up_below_minor", "auto_top_up_minor"])
    return account


@transaction.atomic
def switch_auto_top_up_off(*, organization: Organization) -> None:
    _off(lock_account(organization_id=organization.pk))


def _off(account: BillingAccount) -> None:
    account.auto_top_up_below_minor = account.auto_top_up_minor = account.auto_top_up_crossed_at = None
    account.save()


# --- crossings ------------------------------------------------------------------------------------------------------
def sweep_automatic(*, at: datetime) -> int:
    """Find balances that fell below their mark and charge what is due; returns how many top-ups were tried."""
    watched = BillingAccount.objects.filter(auto_top_up_minor__isnull=False).order_by("pk")
    for organization_id in watched.values_list("organization_id", flat=True):
        try:
            _watch(organization_id=organization_id, at=at)
        except Exception:
            logger.exception("the balance of organization %s could not be watched", organization_id)
    return for_each_due(charge, automatic=True, at=at)


@transaction.atomic
def _watch(*, organization_id: int, at: datetime) -> None:
    """Once per crossing: armed again when the balance is back at the mark."""
    account = lock_account(organization_id=organization_id)
    below, amount = account.auto_top_up_below_minor, account.auto_top_up_minor
    if below is None or amount is None:
        return
    held = holdings(account, at=at)
    is_below = held.gift_minor + held.wallet_minor < below
    if is_below == (account.auto_top_up_crossed_at is not None):
        return
    account.auto_top_up_crossed_at = at if is_below else None
    account.save(update_fields=["auto_top_up_crossed_at"])
    if is_below:
        TopUp.objects.create(
            account=account,
            request_key=f"auto:{at.isoformat()}",
            amount_minor=amount,
            currency=account.organization.currency,
            is_automatic=True,
            created_at=at,
            next_check_at=at,
        )


def charge(*, top_up_id: int, at: datetime) -> TopUp:
    """Charge the saved card for an automatic top-up, once; looks first what an earlier attempt left.

    Re-reads the balance right before the first attempt: who topped up meanwhile is charged nothing. Lets Stripe's
    passing errors through; the sweep comes again.
    """
    top_up = TopUp.objects.select_related("account__organization").get(pk=top_up_id)
    account = top_up.account
    if top_up.status not in {Status.CREATED, Status.OPEN}:
        return top_up
    earlier = _earlier(top_up) if top_up.attempts else None
    if earlier is not None:
        settle_charge(intent=earlier, at=at)
        return TopUp.objects.get(pk=top_up_id)
    if not account.stripe_payment_method_id or account.auto_top_up_minor is None:
        return _end(top_up_id, Status.FAILED, "switched off", at)
    if not top_up.attempts and not _still_below(account, at):
        return _end(top_up_id, Status.EXPIRED, "not needed any more", at)
    TopUp.objects.filter(pk=top_up_id).update(attempts=F("attempts") + 1)
    try:
        intent = stripe_gateway.charge_saved(
            topup_key=top_up.key,
            version=top_up.version,
            amount=top_up.amount_minor,
            currency=top_up.currency,
            customer=account.stripe_customer_id,
            payment_method=account.stripe_payment_method_id,
            description=_now("Automatic top-up of the balance"),
        )
    except CardDeclined as declined:
        return _declined(top_up_id, declined, at)
    except UnknownOutcome as problem:
        if problem.stored and _earlier(top_up) is None:
            TopUp.objects.filter(pk=top_up_id, version=top_up.version).update(version=top_up.version + 1)
        raise
    settle_charge(intent=intent, at=at)
    if intent.status == "succeeded":
        _tell_credited(top_up_id, at)
    return TopUp.objects.get(pk=top_up_id)


def _earlier(top_up: TopUp) -> PaymentIntent | None:
    """A charge for this top-up that went through or still may; refused ones are over."""
    customer = top_up.account.stripe_customer_id
    found = stripe_gateway.find_charges(customer=customer, topup_key=top_up.key, since=top_up.created_at - STRAY)
    return next((intent for intent in found if intent.status in {"succeeded", "processing"}), None)


def _still_below(account: BillingAccount, at: datetime) -> bool:
    held = holdings(account, at=at)
    below = account.auto_top_up_below_minor
    return below is not None and held.gift_minor + held.wallet_minor < below


@transaction.atomic
def _end(top_up_id: int, to: str, error: str, at: datetime) -> TopUp:
    top_up = locked_top_up(top_up_id)
    if top_up.status in {Status.CREATED, Status.OPEN}:
        top_up.error = error
        move_top_up(top_up, to, at=at)
    return top_up


def _declined(top_up_id: int, declined: CardDeclined, at: datetime) -> TopUp:
    """Another try later under the next version; after the third refusal none, and the rule is switched off."""
    organization_id = TopUp.objects.values_list("account__organization_id", flat=True).get(pk=top_up_id)
    with transaction.atomic():
        account = lock_account(organization_id=organization_id)
        top_up = locked_top_up(top_up_id)
        if top_up.status not in {Status.CREATED, Status.OPEN}:
            return top_up
        top_up.declines += 1
        top_up.version += 1
        top_up.error = (declined.decline_code or declined.reason or "declined")[:300]
        over = top_up.declines >= DECLINES_AT_MOST
        if over:
            move_top_up(top_up, Status.FAILED, at=at)
            _off(account)
        else:
            top_up.next_check_at = at + AGAIN[top_up.declines - 1]
            top_up.save()
        if over or top_up.declines == 1:
            notify(
                organization=account.organization,
                kind=Notification.Kind.TOP_UP_DECLINED,
                fact=f"{top_up.key}:{top_up.declines}",
                params={
                    "amount": format_minor(top_up.amount_minor, top_up.currency),
                    "what": "off" if over else "again",
                },
                page="billing:auto_top_up",
                page_args=[],
                at=at,
            )
    return top_up


@transaction.atomic
def _tell_credited(top_up_id: int, at: datetime) -> None:
    top_up = TopUp.objects.select_related("account__organization").get(pk=top_up_id)
    notify(
        organization=top_up.account.organization,
        kind=Notification.Kind.BALANCE_CREDITED,
        fact=f"top-up:{top_up.key}",
        params={"amount": format_minor(top_up.amount_minor, top_up.currency), "how": "automatic"},
        page="billing:balance",
        page_args=[],
        at=at,
    )
