"""Credit given for nothing: granted by finance or for a voucher, spent before the balance, gone when it expires."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization, User
from billing import ledger
from billing.actions.accounts import lock_account
from billing.models import BillingAccount, Book, Gift, Posting, Voucher
from marketplace.lib.refusals import Refusal

logger = logging.getLogger(__name__)

AT_MOST = 500
VOUCHERS_AT_MOST = 1000
# Without letters and digits that are taken for one another; 16 of them cannot be guessed.
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
CODE_LENGTH = 16


class GiftRefused(Refusal):
    """This credit cannot be granted; nothing was booked."""


class VoucherRefused(Refusal):
    """This code gives no credit to this organization; nothing was booked."""

    field = "code"


# --- granting -------------------------------------------------------------------------------------------------------
@transaction.atomic
def grant_gift(
    *,
    organization: Organization,
    amount_minor: int,
    reason: str,
    request_key: str,
    at: datetime,
    expires_at: datetime | None = None,
    actor: User | None = None,
) -> Gift:
    """Give the organization credit in its currency, once per request. Raises GiftRefused for what cannot be."""
    if amount_minor <= 0:
        raise GiftRefused("amount_not_positive", _("The amount must be more than zero."), field="amount")
    if not reason.strip():
        raise GiftRefused("reason_missing", _("Say what this credit is given for."), field="reason")
    if expires_at is not None and expires_at <= at:
        raise GiftRefused("expired", _("The credit would have expired already."), field="expires_at")
    account = lock_account(organization_id=organization.pk)
    gift, created = Gift.objects.get_or_create(
        request_key=request_key,
        defaults={
            "account": account,
            "amount_minor": amount_minor,
            "currency": account.organization.currency,
            "reason": reason.strip()[:200],
            "granted_at": at,
            "granted_by": actor,
            "expires_at": expires_at,
        },
    )
    if created:
        _book(gift, account, Posting.Kind.GIFT, amount_minor, at=at, actor=actor)
    return gift


def _book(
    gift: Gift, account: BillingAccount, kind: Posting.Kind, amount_minor: int, *, at: datetime, actor: User | None
) -> None:
    """So much more (or, negative, less) gifted credit, against what the company gives away."""
    ledger.post(
        account=account,
        kind=kind,
        fact=str(gift.key),
        entries={Book.PROMOTION: amount_minor, Book.GIFT: -amount_minor},
        at=at,
        currency=gift.currency,
        actor=actor,
        note=gift.reason,
    )


# --- spending and expiring ------------------------------------------------------------------------------------------
def spendable(account: BillingAccount, *, at: datetime) -> QuerySet[Gift]:
    """What can be spent at this moment, the first to expire first, what never expires last."""
    return (
        Gift.objects.filter(account=account, expired_at__isnull=True, spent_minor__lt=F("amount_minor"))
        .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=at))
        .order_by(F("expires_at").asc(nulls_last=True), "pk")
    )


def take_gifts(*, account: BillingAccount, most_minor: int, at: datetime) -> int:
    """Mark up to so much gifted credit as spent; returns how much. The caller holds the account's lock and books it."""
    taken = 0
    for gift in spendable(account, at=at):
        amount = min(gift.left_minor, most_minor - taken)
        if amount <= 0:
            break
        gift.spent_minor += amount
        gift.save(update_fields=["spent_minor"])
        taken += amount
    return taken


def give_back_gifts(*, account: BillingAccount, most_minor: int) -> int:
    """Take back that so much gifted credit was spent, what expires last first; returns how much could be given back:
    what expired meanwhile is gone. The caller holds the account's lock and books it."""
    given = 0
    spent = Gift.objects.filter(account=account, spent_minor__gt=0, expired_at__isnull=True)
    for gift in spent.order_by(F("expires_at").desc(nulls_first=True), "-pk"):
        amount = min(gift.spent_minor, most_minor - given)
        if amount <= 0:
            break
        gift.spent_minor -= amount
        gift.save(update_fields=["spent_minor"])
        given += amount
    return given


def expire_gifts(*, at: datetime) -> int:
    """Take back what is left of credit that expired; returns how many gifts ended. Repeated or parallel: once each."""
    ended = 0
    for gift in _over(at)[:AT_MOST]:
        try:
            ended += _expire(gift_id=gift.pk, organization_id=gift.account.organization_id, at=at)
        except Exception:
            logger.exception("gifted credit %s could not expire", gift.key)
    return ended


def _over(at: datetime) -> QuerySet[Gift]:
    return (
        Gift.objects.filter(expired_at__isnull=True, expires_at__lte=at, spent_minor__lt=F("amount_minor"))
        .select_related("account")
        .order_by("expires_at", "pk")
    )


@transaction.atomic
def _expire(*, gift_id: int, organization_id: int, at: datetime) -> bool:
    account = lock_account(organization_id=organization_id)
    gift = _over(at).filter(pk=gift_id).first()
    if gift is None:
        return False
    gift.expired_at = at
    gift.save(update_fields=["expired_at"])
    _book(gift, account, Posting.Kind.GIFT_EXPIRED, gift.spent_minor - gift.amount_minor, at=at, actor=None)
    return True


# --- vouchers -------------------------------------------------------------------------------------------------------
@transaction.atomic
def create_vouchers(
    *,
    count: int,
    amount_minor: int,
    currency: str,
    reason: str,
    valid_until: datetime,
    at: datetime,
    days: int = 365,
    actor: User | None = None,
) -> list[Voucher]:
    """So many codes over the same amount, each good once until `valid_until` for credit that then lasts `days`."""
    if not 1 <= count <= VOUCHERS_AT_MOST:
        facts = {"most": VOUCHERS_AT_MOST}
        raise VoucherRefused("count", _("Between 1 and %(most)s vouchers at a time.") % facts, field="count")
    if amount_minor <= 0:
        raise VoucherRefused("amount_not_positive", _("The amount must be more than zero."), field="amount")
    if valid_until <= at:
        raise VoucherRefused("expired", _("The vouchers would have expired already."), field="valid_until")
    return Voucher.objects.bulk_create(
        Voucher(
            code=code,
            amount_minor=amount_minor,
            currency=currency,
            reason=reason[:200],
            valid_until=valid_until,
            days=days,
            created_by=actor,
            created_at=at,
        )
        for code in _codes(count)
    )


def _codes(count: int) -> Iterator[str]:
    for _each in range(count):
        yield "".join(secrets.choice(ALPHABET) for _place in range(CODE_LENGTH))


def plain_code(text: str) -> str:
    """A code as people type it (lower case, spaces, hyphens) as it is kept."""
    return "".join(character for character in text.upper() if character.isalnum())[:32]


@transaction.atomic
def redeem_voucher(*, organization: Organization, code: str, at: datetime, actor: User | None = None) -> Gift:
    """Turn a voucher into gifted credit, once. Raises VoucherRefused for a code that gives none.

    The same organization's second press returns the same credit; anybody else's reads that the code was used.
    """
    account = lock_account(organization_id=organization.pk)
    voucher = Voucher.objects.select_for_update(no_key=True).filter(code=plain_code(code)).first()
    if voucher is None:
        raise VoucherRefused("unknown", _("There is no voucher with this code. Check what you typed."))
    if voucher.gift_id is not None:
        return _redeemed(voucher, account)
    if voucher.valid_until <= at:
        raise VoucherRefused("expired", _("This voucher has expired."))
    if voucher.currency != account.organization.currency:
        facts = {"theirs": voucher.currency, "ours": account.organization.currency}
        raise VoucherRefused(
            "currency_differs", _("This voucher is in %(theirs)s, your balance is in %(ours)s.") % facts
        )
    voucher.gift = grant_gift(
        organization=account.organization,
        amount_minor=voucher.amount_minor,
        reason=voucher.reason,
        request_key=f"voucher:{voucher.pk}",
        at=at,
        expires_at=at + timedelta(days=voucher.days),
        actor=actor,
    )
    voucher.save(update_fields=["gift"])
    return voucher.gift


def _redeemed(voucher: Voucher, account: BillingAccount) -> Gift:
    gift = Gift.objects.get(voucher=voucher)
    if gift.account_id != account.pk:
        raise VoucherRefused("used", _("This voucher was used already."))
    return gift
