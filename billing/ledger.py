"""The books: post facts, read balances. The only code that writes the ledger.

Debits are positive, credits negative. A caller holds the account's row lock, so the entries of one account commit in
the order of their ids, which is what lets a checkpoint stand for everything up to one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Sum

from accounts.models import User
from billing.models import BillingAccount, Book, Invoice, LedgerEntry, Posting
from marketplace.lib import clock

# What the account's owner reads as a positive figure: money of theirs that we hold is a credit in our books.
_OWED_TO_CUSTOMER = frozenset({Book.WALLET, Book.GIFT, Book.REFUNDS, Book.REVENUE, Book.TAX})

# Accounts whose checkpoints are moved in one transaction.
CHECKPOINT_BATCH = 500


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of money to be written down: what `post` takes, for those who post many at once."""

    account_id: int
    kind: Posting.Kind
    fact: str
    currency: str
    entries: Mapping[Book, int]
    invoice_id: int | None = None
    note: str = ""

    @property
    def moved(self) -> dict[Book, int]:
        """The entries that move something. Raises ValueError where they do not sum to zero."""
        moved = {book: amount for book, amount in self.entries.items() if amount}
        if sum(moved.values()) != 0:
            raise ValueError(f"{self.kind} {self.fact} does not sum to zero: {moved}")
        return moved


def post(
    *,
    account: BillingAccount,
    kind: Posting.Kind,
    fact: str,
    entries: Mapping[Book, int],
    at: datetime,
    currency: str,
    invoice: Invoice | None = None,
    actor: User | None = None,
    note: str = "",
) -> bool:
    """Write one fact into the books, once per (kind, fact); False when it stands there already.

    `entries` are minor units by book and sum to zero (ValueError otherwise; the database refuses it too); a fact
    that moves nothing is not written. In the caller's transaction, which holds the account's row lock.
    """
    one = Fact(account.pk, kind, fact, currency, entries, invoice.pk if invoice else None, note)
    return post_many([one], at=at, actor=actor) == 1


_POST = """
    INSERT INTO billing_posting (account_id, kind, fact, currency, at, booked_on, invoice_id, actor_id, note)
    SELECT account_id, kind, fact, currency, %(at)s, %(booked_on)s, invoice_id, %(actor)s, note
    FROM unnest(%(accounts)s::bigint[], %(kinds)s::text[], %(facts)s::text[], %(currencies)s::text[],
                %(invoices)s::bigint[], %(notes)s::text[])
        AS f (account_id, kind, fact, currency, invoice_id, note)
    ON CONFLICT (kind, fact) DO NOTHING
    RETURNING kind, fact, id
"""
_ENTER = """
    INSERT INTO billing_ledgerentry (posting_id, account_id, book, amount_minor)
    SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::bigint[])
"""


def post_many(facts: Sequence[Fact], *, at: datetime, actor: User | None = None) -> int:
    """`post` for many facts in two statements; returns how many were new. The caller holds every account's row."""
    if not connection.in_atomic_block:
        raise RuntimeError("the ledger is written under the account's row lock")
    moving = {(fact.kind, fact.fact): (fact, moved) for fact in facts if (moved := fact.moved)}
    if not moving:
        return 0
    written = [fact for fact, _moved in moving.values()]
    values = {
        "at": at,
        "booked_on": booking_day(at),
        "actor": actor.pk if actor else None,
        "accounts": [fact.account_id for fact in written],
        "kinds": [str(fact.kind) for fact in written],
        "facts": [fact.fact for fact in written],
        "currencies": [fact.currency for fact in written],
        "invoices": [fact.invoice_id for fact in written],
        "notes": [fact.note[:300] for fact in written],
    }
    with connection.cursor() as cursor:
        cursor.execute(_POST, values)
        new = [(posting_id, *moving[Posting.Kind(kind), fact]) for kind, fact, posting_id in cursor.fetchall()]
        rows = [
            (posting_id, fact.account_id, str(book), amount)
            for posting_id, fact, moved in new
            for book, amount in sorted(moved.items())
        ]
        if rows:
            cursor.execute(_ENTER, [list(column) for column in zip(*rows, strict=True)])
    return len(new)


def booking_day(at: datetime) -> date:
    """The day a fact of `at` counts on: its own in the company's zone, or the first of the first open month."""
    day = clock.local_date(at, settings.TIME_ZONE)
    with connection.cursor() as cursor:
        cursor.execute("SELECT (max(month) + interval '1 month')::date FROM billing_closedmonth", [])
        (opened,) = cursor.fetchone()
    return max(day, opened) if opened else day


def balance(account: BillingAccount, book: Book) -> int:
    """What a book of the account comes to, in minor units: positive is the customer's money for wallet, gift and
    refunds, and the customer's debt for receivable. Exact while the account's row is locked."""
    return balances([account.pk], book).get(account.pk, 0)


_BALANCES = """
    SELECT e.account_id, sum(e.amount_minor)::bigint FROM (
        SELECT account_id, amount_minor FROM billing_ledgercheckpoint
        WHERE account_id = ANY(%(ids)s) AND book = %(book)s
        UNION ALL
        SELECT e.account_id, e.amount_minor FROM billing_ledgerentry e
        LEFT JOIN billing_ledgercheckpoint c ON c.account_id = e.account_id AND c.book = e.book
        WHERE e.account_id = ANY(%(ids)s) AND e.book = %(book)s AND e.id > COALESCE(c.through, 0)
    ) e GROUP BY e.account_id
"""


def balances(account_ids: Iterable[int], book: Book) -> dict[int, int]:
    """`balance` of many accounts in one statement, by account id; an account without entries is left out."""
    sign = -1 if book in _OWED_TO_CUSTOMER else 1
    with connection.cursor() as cursor:
        cursor.execute(_BALANCES, {"ids": list(account_ids), "book": book})
        return {account_id: sign * amount for account_id, amount in cursor.fetchall()}


_CHECKPOINT = """
    WITH behind AS (
        SELECT e.account_id, e.book, max(e.id) AS through, sum(e.amount_minor) AS amount
        FROM billing_ledgerentry e
        LEFT JOIN billing_ledgercheckpoint c ON c.account_id = e.account_id AND c.book = e.book
        WHERE e.account_id = ANY(%s) AND e.id > COALESCE(c.through, 0)
        GROUP BY e.account_id, e.book
    )
    INSERT INTO billing_ledgercheckpoint AS c (account_id, book, through, amount_minor)
    SELECT account_id, book, through, amount FROM behind
    ON CONFLICT (account_id, book) DO UPDATE
    SET through = EXCLUDED.through, amount_minor = c.amount_minor + EXCLUDED.amount_minor
"""


def move_checkpoints() -> int:
    """Sum up what was posted since the last time, so that balances stay cheap; returns how many accounts there are.

    Under the accounts' row locks, in batches. Repeated, in parallel or killed, every balance stays what it was.
    """
    done, after = 0, 0
    while batch := _lock_accounts_after(after):
        done, after = done + len(batch), batch[-1]
    return done


@transaction.atomic
def _lock_accounts_after(after: int) -> list[int]:
    accounts = BillingAccount.objects.filter(pk__gt=after).order_by("pk").select_for_update(no_key=True)
    ids = list(accounts.values_list("pk", flat=True)[:CHECKPOINT_BATCH])
    with connection.cursor() as cursor:
        cursor.execute(_CHECKPOINT, [ids])
    return ids


# --- proof ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Wrong:
    """The first row that breaks one of the books' rules."""

    rule: str
    row: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.row}"


# Each statement finds rows that break the rule, the oldest first.
_RULES = {
    "every posting has entries that sum to zero": """
        SELECT 'posting ' || p.id || ' ' || p.kind || ' ' || p.fact || ' sums to ' || COALESCE(sum(e.amount_minor), 0)
        FROM billing_posting p LEFT JOIN billing_ledgerentry e ON e.posting_id = p.id
        GROUP BY p.id HAVING count(e.id) < 2 OR sum(e.amount_minor) <> 0 ORDER BY p.id LIMIT 1
    """,
    "entries stand on their posting's account": """
        SELECT 'entry ' || e.id FROM billing_ledgerentry e JOIN billing_posting p ON p.id = e.posting_id
        WHERE e.account_id <> p.account_id ORDER BY e.id LIMIT 1
    """,
    "a posting is in its organization's currency": """
        SELECT 'posting ' || p.id || ' is in ' || p.currency FROM billing_posting p
        JOIN billing_billingaccount a ON a.id = p.account_id JOIN accounts_organization o ON o.id = a.organization_id
        WHERE p.currency <> o.currency ORDER BY p.id LIMIT 1
    """,
    "a checkpoint is the sum of what it stands for": """
        SELECT 'checkpoint of account ' || c.account_id || ' ' || c.book FROM billing_ledgercheckpoint c
        LEFT JOIN billing_ledgerentry e ON e.account_id = c.account_id AND e.book = c.book AND e.id <= c.through
        GROUP BY c.id HAVING c.amount_minor <> COALESCE(sum(e.amount_minor), 0) ORDER BY c.id LIMIT 1
    """,
    "an issued invoice is posted with its total and tax": """
        SELECT 'invoice ' || COALESCE(i.number, i.id::text) FROM billing_invoice i
        LEFT JOIN LATERAL (
            SELECT COALESCE(sum(e.amount_minor) FILTER (WHERE e.book = 'receivable'), 0) AS total,
                   -COALESCE(sum(e.amount_minor) FILTER (WHERE e.book = 'tax'), 0) AS tax
            FROM billing_posting p JOIN billing_ledgerentry e ON e.posting_id = p.id
            WHERE p.invoice_id = i.id AND p.kind IN ('issue', 'void')
        ) posted ON true
        WHERE (posted.total, posted.tax) IS DISTINCT FROM
            CASE WHEN i.status IN ('draft', 'void') THEN (0::numeric, 0::numeric)
                 ELSE (i.total_minor::numeric, i.tax_minor::numeric) END
        ORDER BY i.id LIMIT 1
    """,
    "what an invoice was paid and credited is posted": """
        SELECT 'invoice ' || COALESCE(i.number, i.id::text) FROM billing_invoice i
        LEFT JOIN LATERAL (
            SELECT COALESCE(sum(e.amount_minor), 0) AS due
            FROM billing_posting p JOIN billing_ledgerentry e ON e.posting_id = p.id AND e.book = 'receivable'
            WHERE p.invoice_id = i.id
        ) posted ON true
        WHERE i.status NOT IN ('draft', 'void')
            AND posted.due <> greatest(i.total_minor - i.credited_minor - i.paid_minor, 0)
        ORDER BY i.id LIMIT 1
    """,
    "usage taken from a balance is what the lines to be were charged": """
        SELECT 'account ' || a.id FROM billing_billingaccount a
        LEFT JOIN LATERAL (
            SELECT COALESCE(sum(s.amount_minor), 0) AS settled FROM billing_settledusage s WHERE s.account_id = a.id
        ) s ON true
        LEFT JOIN LATERAL (
            SELECT COALESCE(-sum(e.amount_minor), 0) AS unbilled FROM billing_ledgerentry e
            WHERE e.account_id = a.id AND e.book = 'unbilled'
        ) e ON true
        WHERE s.settled <> e.unbilled ORDER BY a.id LIMIT 1
    """,
    "what is left of gifts is the gift book": """
        SELECT 'account ' || a.id FROM billing_billingaccount a
        LEFT JOIN LATERAL (
            SELECT COALESCE(sum(g.amount_minor - g.spent_minor) FILTER (WHERE g.expired_at IS NULL), 0) AS remaining
            FROM billing_gift g WHERE g.account_id = a.id
        ) g ON true
        LEFT JOIN LATERAL (
            SELECT COALESCE(-sum(e.amount_minor), 0) AS booked FROM billing_ledgerentry e
            WHERE e.account_id = a.id AND e.book = 'gift'
        ) e ON true
        WHERE g.remaining <> e.booked ORDER BY a.id LIMIT 1
    """,
}


def check() -> list[Wrong]:
    """Prove the books: the first wrong row of every rule that does not hold; none when they are right."""
    found = []
    with connection.cursor() as cursor:
        for rule, statement in _RULES.items():
            cursor.execute(statement)
            found += [Wrong(rule, row) for (row,) in cursor.fetchall()]
    return found


def trial_balance(*, since: date | None = None, until: date | None = None) -> dict[str, dict[str, int]]:
    """Sums of every book by currency, booked in `[since, until)` (open ends without); each currency sums to zero."""
    entries = LedgerEntry.objects.order_by()
    if since is not None:
        entries = entries.filter(posting__booked_on__gte=since)
    if until is not None:
        entries = entries.filter(posting__booked_on__lt=until)
    sums: dict[str, dict[str, int]] = {}
    rows = entries.values_list("posting__currency", "book").annotate(total=Sum("amount_minor"))
    for currency, book, total in rows.order_by("posting__currency", "book"):
        sums.setdefault(currency, {})[book] = total
    return sums
