"""Paying invoices from what an organization holds with us: gifted credit first, then its balance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization, User
from billing import ledger
from billing.actions.accounts import lock_account
from billing.actions.gifts import spendable, take_gifts
from billing.actions.moving import locked
from billing.actions.payments import record_payment
from billing.models import BillingAccount, Book, Invoice, Payment
from marketplace.lib.money import format_minor
from marketplace.lib.refusals import Refusal
from orders.models import Order


class BalanceRefused(Refusal):
    """The balance cannot pay this; nothing was taken."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What an account can pay with now, in minor units of its currency. A balance below zero pays nothing."""

    gift_minor: int
    wallet_minor: int

    @property
    def total_minor(self) -> int:
        return self.gift_minor + max(self.wallet_minor, 0)


def holdings(account: BillingAccount, *, at: datetime) -> Holdings:
    """Spendable gifted credit and the balance. Exact while the account's row is locked."""
    gifts = sum(gift.left_minor for gift in spendable(account, at=at))
    return Holdings(gift_minor=gifts, wallet_minor=ledger.balance(account, Book.WALLET))


def covering(*, organization: Organization, amount_minor: int, at: datetime) -> Holdings | None:
    """What the organization holds, where that pays the whole amount; None where it does not."""
    account = BillingAccount.objects.filter(organization=organization).first()
    held = holdings(account, at=at) if account else Holdings(0, 0)
    return held if held.total_minor >= amount_minor > 0 else None


def apply_credit(*, invoice: Invoice, at: datetime, actor: User | None = None, gifts: bool = True) -> int:
    """Pay an issued invoice with gifted credit, then from the balance, as far as they go; returns what was paid.

    In the caller's transaction, which holds the rows of the invoice's order (if any), its account and itself. A
    prepaid order is paid whole or not at all: its cards cannot be let go once part of it is paid. The balance is
    never brought below zero. Without `gifts` only the balance pays.
    """
    account = invoice.account
    due = invoice.outstanding_minor
    held = holdings(account, at=at) if gifts else Holdings(0, ledger.balance(account, Book.WALLET))
    if not invoice.is_unpaid or due == 0 or (invoice.order_id is not None and held.total_minor < due):
        return 0
    gift = take_gifts(account=account, most_minor=min(due, held.gift_minor), at=at)
    wallet = max(min(due - gift, held.wallet_minor), 0)
    for method, amount in ((Payment.Method.GIFT, gift), (Payment.Method.WALLET, wallet)):
        if amount:
            _pay(invoice, method, amount, at=at, actor=actor)
    return gift + wallet


def _pay(invoice: Invoice, method: Payment.Method, amount_minor: int, *, at: datetime, actor: User | None) -> None:
    earlier = Payment.objects.filter(invoice=invoice, method=method).count()
    record_payment(
        invoice=invoice,
        method=method,
        reference=f"{method}:{invoice.key}:{earlier + 1}",
        amount_minor=amount_minor,
        currency=invoice.currency,
        received_at=at,
        actor=actor,
        at=at,
    )


@transaction.atomic
def pay_from_wallet(*, invoice: Invoice, at: datetime, actor: User | None = None, gifts: bool = True) -> int:
    """Pay an unpaid invoice with what the organization holds with us; returns how much was paid, in minor units.

    A month's usage may be paid in part. Raises BalanceRefused when it is not to be paid any more, when there is
    nothing to pay with, or when a prepaid order is not covered whole.
    """
    if invoice.order_id is not None:
        Order.objects.select_for_update(no_key=True).get(pk=invoice.order_id)
    account = lock_account(organization_id=invoice.organization_id)
    fresh = locked(invoice.pk)
    if not fresh.is_unpaid:
        raise BalanceRefused("not_unpaid", _("This invoice is not to be paid any more."))
    paid = apply_credit(invoice=fresh, at=at, actor=actor, gifts=gifts)
    if paid == 0:
        raise _too_little(fresh, holdings(account, at=at))
    invoice.refresh_from_db()
    return paid


def _too_little(invoice: Invoice, held: Holdings) -> BalanceRefused:
    facts = {
        "held": format_minor(held.total_minor, invoice.currency),
        "due": format_minor(invoice.outstanding_minor, invoice.currency),
    }
    refusal = BalanceRefused(
        "balance_too_low", _("Your balance and gifted credit come to %(held)s; %(due)s is to be paid.") % facts
    )
    refusal.next_step = _("Top up first, or pay online.")
    return refusal
