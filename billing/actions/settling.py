"""Prepaid accounts: usage is taken from gifted credit and the balance while it runs, and turned into payment when its
month is invoiced.

What was taken is kept per line to be and always brought to that line's rounded sum so far, so it ends equal to the
invoice, however often and in whatever steps it was taken.
"""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.models import Sum

from accounts.models import Organization, User
from billing import ledger
from billing.actions.accounts import lock_account, lock_accounts
from billing.actions.gifts import give_back_gifts, take_gifts
from billing.actions.moving import move_invoices
from billing.models import BillingAccount, Book, Invoice, Payment, Posting, SettledGift, SettledUsage
from billing.queries import rounded
from marketplace.lib.money import BILLING_CURRENCIES, exponent

logger = logging.getLogger(__name__)

# Accounts settled in one transaction.
BATCH = 500


def settle_usage(*, at: datetime) -> int:
    """Take what prepaid organizations used up to `at`; returns how many accounts were looked at.

    Repeated, in parallel or killed, what is taken in the end is the same: each step brings every line to what it comes
    to by then. A batch that fails is logged and stops no other.
    """
    done, after = 0, 0
    while ids := _prepaid_after(after):
        after = ids[-1]
        try:
            with transaction.atomic():
                accounts = lock_accounts(organization_ids=ids).values()
                settle(accounts=[account for account in accounts if account.pays_from_balance], at=at)
        except Exception:
            logger.exception("usage of %s organizations from %s on could not be settled", len(ids), ids[0])
            continue
        done += len(ids)
    return done


def _prepaid_after(organization_id: int) -> list[int]:
    prepaid = BillingAccount.objects.filter(mode=BillingAccount.Mode.WALLET, organization_id__gt=organization_id)
    return list(prepaid.order_by("organization_id").values_list("organization_id", flat=True)[:BATCH])


class Step(NamedTuple):
    """One line to be: what it comes to now and by how much that differs from what was taken."""

    organization_id: int
    month: datetime
    subscription_id: int
    meter: str
    quantity: int
    rate: Decimal
    amount: int
    difference: int


def settle(*, accounts: Sequence[BillingAccount], at: datetime) -> None:
    """Take what these locked accounts used up to `at` and was not taken: gifted credit first, then the balance, which
    may fall below zero by it. Inside the caller's transaction."""
    by_organization = {account.organization_id: account for account in accounts}
    steps = _steps(by_organization, at)
    if not steps:
        return
    _remember(steps, by_organization)
    taken: dict[int, dict[datetime, int]] = defaultdict(lambda: defaultdict(int))
    for step in steps:
        taken[step.organization_id][step.month] += step.difference
    gifted = _gifts_first(taken, by_organization, at)
    ledger.post_many(
        [_fact(by_organization[one], sum(months.values()), gifted.get(one, 0)) for one, months in taken.items()], at=at
    )


def _fact(account: BillingAccount, amount: int, from_gift: int) -> ledger.Fact:
    return ledger.Fact(
        account.pk,
        Posting.Kind.SETTLE,
        # What was taken stands beside each line to be, so a repeated step has nothing left to post.
        str(uuid.uuid4()),
        account.organization.currency,
        {Book.GIFT: from_gift, Book.WALLET: amount - from_gift, Book.UNBILLED: -amount},
    )


# Lines to be, by the local month, as billing.actions.months will write them: unbilled windows, and meters that run.
# Windows are cut at local midnights, so each lies within one month.
_STEPS = """
    WITH chosen AS (
        SELECT o.id, o.zone, t.scale
        FROM accounts_organization o JOIN unnest(%(currencies)s::text[], %(scales)s::bigint[]) AS t (currency, scale)
            ON t.currency = o.currency
        WHERE o.id = ANY(%(organizations)s)
    ), used AS (
        SELECT c.id, date_trunc('month', lower(w.period) AT TIME ZONE c.zone) AT TIME ZONE c.zone AS month, c.scale,
               w.subscription_id, w.meter, w.quantity, w.rate,
               CASE WHEN w.reverses_id IS NULL THEN w.seconds ELSE -w.seconds END AS seconds
        FROM chosen c JOIN rentals_usagewindow w ON w.organization_id = c.id
        JOIN orders_subscription s ON s.id = w.subscription_id AND s.term = 'hour'
        WHERE NOT EXISTS (SELECT 1 FROM billing_billedwindow b WHERE b.window_id = w.id)
        UNION ALL
        SELECT c.id, date_trunc('month', r.metered_from AT TIME ZONE c.zone) AT TIME ZONE c.zone, c.scale,
               r.subscription_id, r.meter,
               CASE r.meter WHEN 'card_hour' THEN s.cards ELSE s.disk_gb END,
               CASE r.meter WHEN 'card_hour' THEN s.rate ELSE s.disk_rate END,
               floor(extract(epoch FROM %(at)s - r.metered_from))::bigint
        FROM chosen c JOIN rentals_rental r ON r.organization_id = c.id
        JOIN orders_subscription s ON s.id = r.subscription_id AND s.term = 'hour'
        WHERE r.metered_from < %(at)s
    ), lines AS (
        SELECT id, month, subscription_id, meter, quantity, rate,
               AMOUNT AS amount
        FROM used GROUP BY id, month, scale, subscription_id, meter, quantity, rate
    )
    SELECT l.id, l.month, l.subscription_id, l.meter, l.quantity, l.rate, l.amount::bigint,
           (l.amount - COALESCE(s.amount_minor, 0))::bigint
    FROM lines l
    JOIN billing_billingaccount a ON a.organization_id = l.id
    LEFT JOIN billing_settledusage s ON s.account_id = a.id AND s.month = l.month
        AND s.subscription_id = l.subscription_id AND s.meter = l.meter AND s.quantity = l.quantity AND s.rate = l.rate
    WHERE l.amount <> COALESCE(s.amount_minor, 0)
    ORDER BY l.id, l.month, l.subscription_id
""".replace("AMOUNT", rounded("sum(seconds)", "quantity", "rate", "scale"))


def _steps(accounts: Mapping[int, BillingAccount], at: datetime) -> list[Step]:
    values: dict[str, Any] = {
        "organizations": list(accounts), "at": at, "currencies": list(BILLING_CURRENCIES),
        "scales": [10 ** exponent(currency) for currency in BILLING_CURRENCIES],
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_STEPS, values)
        return [Step(*row) for row in cursor.fetchall()]


def _remember(steps: Sequence[Step], accounts: Mapping[int, BillingAccount]) -> None:
    SettledUsage.objects.bulk_create(
        [
            SettledUsage(
                account=accounts[step.organization_id],
                subscription_id=step.subscription_id,
                meter=step.meter,
                quantity=step.quantity,
                rate=step.rate,
                month=step.month,
                amount_minor=step.amount,
            )
            for step in steps
        ],
        update_conflicts=True,
        unique_fields=["account", "month", "subscription", "meter", "quantity", "rate"],
        update_fields=["amount_minor"],
    )


def _gifts_first(
    taken: Mapping[int, Mapping[datetime, int]], accounts: Mapping[int, BillingAccount], at: datetime
) -> dict[int, int]:
    """How much of what each organization used its gifts paid; kept by month, the oldest first."""
    holders = ledger.balances([accounts[one].pk for one in taken], Book.GIFT)
    gifted: dict[int, int] = {}
    for organization_id, months in taken.items():
        account = accounts[organization_id]
        if holders.get(account.pk, 0) <= 0 or (wanted := sum(months.values())) <= 0:
            continue
        left = gifted[organization_id] = take_gifts(account=account, most_minor=wanted, at=at)
        for month, amount in sorted(months.items()):
            part = min(max(amount, 0), left)
            left -= part
            if part:
                _remember_gift(account, month, part)
    return gifted


def _remember_gift(account: BillingAccount, month: datetime, amount: int) -> None:
    kept, _made = SettledGift.objects.get_or_create(account=account, month=month, defaults={"amount_minor": 0})
    kept.amount_minor += amount
    kept.save(update_fields=["amount_minor"])


# --- another way to pay ----------------------------------------------------------------------------------------------
@transaction.atomic
def set_mode(*, organization: Organization, mode: str, at: datetime, actor: User | None = None) -> None:
    """Let the organization pay from its balance or by the month from now on; finance decides this.

    Leaving the balance gives back what was taken for usage that is on no invoice yet: it will be owed instead.
    """
    account = lock_account(organization_id=organization.pk)
    if account.mode == mode:
        return
    if account.pays_from_balance:
        _give_back(account, at=at, actor=actor)
    account.mode = mode
    account.save(update_fields=["mode"])


def _give_back(account: BillingAccount, *, at: datetime, actor: User | None) -> None:
    settled = SettledUsage.objects.filter(account=account)
    gifted = SettledGift.objects.filter(account=account)
    total, gift = (rows.aggregate(total=Sum("amount_minor", default=0))["total"] for rows in (settled, gifted))
    restored = give_back_gifts(account=account, most_minor=gift)
    ledger.post(
        account=account,
        kind=Posting.Kind.SETTLE,
        fact=str(uuid.uuid4()),
        currency=account.organization.currency,
        entries={
            Book.UNBILLED: total,
            Book.WALLET: gift - total,
            Book.GIFT: -restored,
            Book.PROMOTION: restored - gift,
        },
        at=at,
        actor=actor,
    )
    settled.delete()
    gifted.delete()


# --- when the month is invoiced -------------------------------------------------------------------------------------
def pay_settled(*, invoices: Sequence[Invoice], at: datetime) -> None:
    """Turn what was taken for these months into payment of their invoices, which were issued in this transaction and
    whose accounts are locked: every one is paid. What the invoice differs by from what was taken moves the balance."""
    if not invoices:
        return
    settled = _settled(invoices, SettledUsage)
    gifted = _settled(invoices, SettledGift)
    payments, facts = [], []
    for invoice in invoices:
        gift = min(gifted.get(invoice.pk, 0), invoice.total_minor)
        invoice.paid_minor, invoice.gift_minor, invoice.paid_at = invoice.total_minor, gift, at
        # Stripe is shown the invoice and told that it is paid.
        invoice.next_push_at = at if invoice.collection == Invoice.Collection.STRIPE else None
        payments += _payments(invoice, gift, at)
        facts.append(_paid(invoice, settled.get(invoice.pk, 0)))
    Payment.objects.bulk_create(payments)
    ledger.post_many(facts, at=at)
    _save_paid(invoices)
    move_invoices(invoices, Invoice.Status.PAID, at=at, note="from the balance")


_TURN = """
    WITH due AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::timestamptz[]) AS d (invoice, account, until)),
    gone AS (
        DELETE FROM {table} s USING due d WHERE s.account_id = d.account AND s.month < d.until
        RETURNING d.invoice, s.amount_minor
    )
    SELECT invoice, sum(amount_minor)::bigint FROM gone GROUP BY invoice
"""


def _settled(invoices: Sequence[Invoice], table: type[SettledUsage | SettledGift]) -> dict[int, int]:
    """What was taken for each invoice's month and those carried into it; from here on it stands in the payment."""
    rows = [(invoice.pk, invoice.account_id, invoice.period_end) for invoice in invoices]
    with connection.cursor() as cursor:
        cursor.execute(_TURN.format(table=table._meta.db_table), [list(column) for column in zip(*rows, strict=True)])
        return dict(cursor.fetchall())


_PAY = """
    UPDATE billing_invoice i
    SET paid_minor = p.paid, gift_minor = p.gift, paid_at = p.paid_at, next_push_at = p.next_push_at
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::timestamptz[], %s::timestamptz[])
        AS p (id, paid, gift, paid_at, next_push_at)
    WHERE i.id = p.id
"""


def _save_paid(invoices: Sequence[Invoice]) -> None:
    rows = [(one.pk, one.paid_minor, one.gift_minor, one.paid_at, one.next_push_at) for one in invoices]
    with connection.cursor() as cursor:
        cursor.execute(_PAY, [list(column) for column in zip(*rows, strict=True)])


def _payments(invoice: Invoice, gift: int, at: datetime) -> list[Payment]:
    parts = {Payment.Method.GIFT: gift, Payment.Method.WALLET: invoice.total_minor - gift}
    return [
        Payment(
            invoice=invoice,
            method=method,
            reference=f"{method}:{invoice.key}:settled",
            amount_minor=amount,
            currency=invoice.currency,
            received_at=at,
        )
        for method, amount in parts.items()
        if amount
    ]


def _paid(invoice: Invoice, settled: int) -> ledger.Fact:
    return ledger.Fact(
        invoice.account_id,
        Posting.Kind.WALLET_PAID,
        f"settled:{invoice.key}",
        invoice.currency,
        {
            Book.UNBILLED: settled,
            Book.WALLET: invoice.total_minor - settled,
            Book.RECEIVABLE: -invoice.total_minor,
        },
        invoice.pk,
    )
