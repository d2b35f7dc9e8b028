"""Months of usage: every local calendar month that ended becomes one invoice, drafted with grace, then issued.

Written for many customers at a time: a batch of organizations costs a handful of statements, whatever its size. A
draft is a preview that every run lays anew; only the transaction that issues an invoice binds the windows it charges.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import connection, transaction

from billing import ledger
from billing.actions.accounts import lock_accounts
from billing.actions.agreeing import add_agreed_lines, bind_agreed, owed_since
from billing.actions.issuing import issue_many
from billing.actions.settling import pay_settled, settle
from billing.actions.telling import tell_of_issue
from billing.actions.wallet import apply_credit
from billing.models import BilledWindow, BillingAccount, Book, Invoice, InvoiceLine
from billing.queries import PENDING, rounded, tax_within
from catalog.models import Offer
from marketplace.lib import clock
from marketplace.lib.limits import MINIMUM_MINOR
from marketplace.lib.money import exponent

logger = logging.getLogger(__name__)

# Organizations in one transaction: enough that statements are bulk, few enough that their accounts are free soon.
BATCH = 1000

Month = tuple[datetime, datetime]


@dataclass
class Drafted:
    """What one run of usage drafting did; `carried` and `failed` are organization ids."""

    invoices: list[Invoice] = field(default_factory=list)
    """Issued."""
    drafts: list[int] = field(default_factory=list)
    """Laid, and issued once their grace is over."""
    carried: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)


def draft_usage_invoices(*, at: datetime) -> Drafted:
    """Invoice every local calendar month that ended by `at` and has something no invoice charged.

    A month lies as a draft until INVOICE_GRACE_HOURS after its end, so that late usage still enters it; what comes
    later stands on the next month's invoice as a line of its own. A month below the least amount Stripe collects waits
    for the next one, unless the balance pays. An organization that fails is logged and stops no other. In parallel,
    repeated and killed: the same invoices.
    """
    done = Drafted()
    since = _organizations_with_usage(at)
    for organization_id, start in owed_since(at=at).items():
        since[organization_id] = min(start, since.get(organization_id, start))
    everybody = sorted(since)
    for first in range(0, len(everybody), BATCH):
        _bill_batch({one: since[one] for one in everybody[first : first + BATCH]}, at=at, done=done)
    return done


def _organizations_with_usage(at: datetime) -> dict[int, datetime]:
    """Organizations with unbilled usage that ended by `at`, and when the earliest of it began."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT w.organization_id, min(lower(w.period)) {PENDING} AND upper(w.period) <= %s"
            " GROUP BY w.organization_id",
            [at],
        )
        return dict(cursor.fetchall())


def _bill_batch(since: Mapping[int, datetime], *, at: datetime, done: Drafted) -> None:
    """Bill these organizations in one transaction; where that fails, in halves, until the one that fails is alone."""
    try:
        with transaction.atomic():
            invoices, drafts, carried = _bill(since, at=at)
    except Exception:
        if len(since) == 1:
            (failed,) = since
            logger.exception("usage of organization %s could not be invoiced", failed)
            done.failed.append(failed)
            return
        ids = list(since)
        for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]):
            _bill_batch({one: since[one] for one in half}, at=at, done=done)
        return
    done.invoices += invoices
    done.drafts += drafts
    done.carried += carried


def _bill(since: Mapping[int, datetime], *, at: datetime) -> tuple[list[Invoice], list[int], list[int]]:
    """Issued invoices, drafts and the organizations whose last closed month was carried forward."""
    accounts = lock_accounts(organization_ids=since)
    settle(accounts=[account for account in accounts.values() if account.pays_from_balance], at=at)
    grace = timedelta(hours=settings.INVOICE_GRACE_HOURS)
    months = _open_months(accounts, since, at)
    invoices: list[Invoice] = []
    drafts: list[int] = []
    carried: dict[int, bool] = {}
    while months:
        turn = {organization_id: next_ones[0] for organization_id, next_ones in months.items()}
        ready = {one for one, (_start, end) in turn.items() if end + grace <= at}
        laid = _lay(accounts, turn, ready, at)
        carried |= {draft.organization_id: not draft.is_kept and draft.lines > 0 for draft in laid}
        kept = [draft for draft in laid if draft.is_kept]
        invoices += _issue(accounts, [draft.invoice_id for draft in kept if draft.organization_id in ready], at)
        drafts += [draft.invoice_id for draft in kept if draft.organization_id not in ready]
        months = {one: next_ones[1:] for one, next_ones in months.items() if next_ones[1:]}
    return invoices, drafts, [one for one, is_carried in carried.items() if is_carried]


def _open_months(
    accounts: Mapping[int, BillingAccount], since: Mapping[int, datetime], at: datetime
) -> dict[int, list[Month]]:
    """Closed months that no issued invoice stands for yet, oldest first, by organization."""
    issued = set(
        Invoice.objects.filter(organization_id__in=accounts, kind=Invoice.Kind.USAGE)
        .exclude(status__in=[Invoice.Status.VOID, Invoice.Status.DRAFT])
        .values_list("organization_id", "period_start")
    )
    months = {
        organization_id: [
            month
            for month in _closed_months(since[organization_id], at, account.organization.zone)
            if (organization_id, month[0]) not in issued
        ]
        for organization_id, account in accounts.items()
    }
    return {organization_id: listed for organization_id, listed in months.items() if listed}


def _closed_months(earliest: datetime, at: datetime, zone: str) -> Iterator[Month]:
    """Every local calendar month from that of `earliest` that ended by `at`, oldest first."""
    start = clock.month_start(earliest, zone)
    while (end := clock.next_month_start(start, zone)) <= at:
        yield start, end
        start = end


def _issue(accounts: Mapping[int, BillingAccount], invoice_ids: Sequence[int], at: datetime) -> list[Invoice]:
    """Issue these drafts; those of prepaid accounts are paid with what was settled, the others are told of."""
    issued = issue_many(invoice_ids=invoice_ids, at=at)
    from_balance = [invoice for invoice in issued if accounts[invoice.organization_id].pays_from_balance]
    pay_settled(invoices=from_balance, at=at)
    _apply_balances([invoice for invoice in issued if invoice.is_unpaid], at)
    tell_of_issue(invoices=[invoice for invoice in issued if invoice.is_unpaid], at=at)
    return issued


# --- laying drafts -------------------------------------------------------------------------------------------------
def _apply_balances(invoices: Sequence[Invoice], at: datetime) -> None:
    """A month's invoice is paid from what the customer holds with us, as far as that goes."""
    ids = [invoice.account_id for invoice in invoices]
    wallets, gifts = ledger.balances(ids, Book.WALLET), ledger.balances(ids, Book.GIFT)
    for invoice in invoices:
        if wallets.get(invoice.account_id, 0) > 0 or gifts.get(invoice.account_id, 0) > 0:
            apply_credit(invoice=invoice, at=at)
            invoice.refresh_from_db()


class Laid(NamedTuple):
    """A draft as it was laid: what it comes to, and whether it is worth an invoice."""

    organization_id: int
    invoice_id: int
    lines: int
    is_kept: bool


def _lay(
    accounts: Mapping[int, BillingAccount], turn: Mapping[int, Month], ready: Set[int], at: datetime
) -> list[Laid]:
    """Draft these months anew, the windows of the `ready` ones bound. What is not worth an invoice is gone again."""
    drafts = _clean_drafts(accounts, turn, at)
    _write_lines(list(drafts.values()), binding=[draft for one, draft in drafts.items() if one in ready])
    agreed = add_agreed_lines(invoice_ids=list(drafts.values()))
    totals = _add_up(list(drafts.values()))
    laid = [
        Laid(one, draft, lines=totals[draft][1], is_kept=_is_worth(accounts[one], totals[draft][0]))
        for one, draft in drafts.items()
    ]
    _drop([draft.invoice_id for draft in laid if not draft.is_kept])
    issuing = [draft.invoice_id for draft in laid if draft.is_kept and draft.organization_id in ready]
    bind_agreed(agreed=[agreed[invoice_id] for invoice_id in issuing if invoice_id in agreed], at=at)
    return laid


def _is_worth(account: BillingAccount, total_minor: int) -> bool:
    """Whether Stripe would collect it; the balance pays any amount."""
    least = 1 if account.pays_from_balance else MINIMUM_MINOR[account.organization.currency]
    return total_minor >= least


def _clean_drafts(accounts: Mapping[int, BillingAccount], turn: Mapping[int, Month], at: datetime) -> dict[int, int]:
    """A draft without lines for each of these months, an existing one emptied; invoice ids by organization id."""
    rows = [
        (accounts[one].pk, one, accounts[one].organization.currency, start, end) for one, (start, end) in turn.items()
    ]
    with connection.cursor() as cursor:
        cursor.execute(_DRAFTS, [at, *(list(column) for column in zip(*rows, strict=True))])
        drafts = dict(cursor.fetchall())
    InvoiceLine.objects.filter(invoice__in=drafts.values()).delete()
    return drafts


# The period's unique constraint holds for drafts too, so a draft that lies already is found by it.
_DRAFTS = """
    INSERT INTO billing_invoice
        (key, account_id, organization_id, kind, status, collection, currency, period_start, period_end, total_minor,
         tax_minor, paid_minor, gift_minor, credited_minor, buyer, drafted_at, stripe_invoice_id, hosted_url,
         push_version, push_attempts, push_error)
    SELECT gen_random_uuid(), account, organization, 'usage', 'draft', 'stripe', currency, starts, ends, 0,
           0, 0, 0, 0, '{}', %s, '', '', 1, 0, ''
    FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::timestamptz[], %s::timestamptz[])
        AS t (account, organization, currency, starts, ends)
    ORDER BY organization, starts
    ON CONFLICT (organization_id, period_start) WHERE kind = 'usage' AND NOT status = 'void'
        DO UPDATE SET drafted_at = billing_invoice.drafted_at
    RETURNING organization_id, id
"""

# Both languages of a region stand on a line, because people of either read it.
_LINES = """
    WITH used AS (
        SELECT d.id AS invoice_id, CASE WHEN lower(w.period) < d.period_start THEN 'late' ELSE 'usage' END AS kind,
               w.subscription_id, w.meter, w.quantity, w.rate, d.scale,
               sum(CASE WHEN w.reverses_id IS NULL THEN w.seconds ELSE -w.seconds END) AS seconds,
               min(lower(w.period)) AS starts, max(upper(w.period)) AS ends, array_agg(w.id) AS windows
        FROM (
            SELECT i.id, i.organization_id, i.period_start, i.period_end, t.scale
            FROM billing_invoice i JOIN unnest(%(currencies)s::text[], %(scales)s::bigint[]) AS t (currency, scale)
                ON t.currency = i.currency
            WHERE i.id = ANY(%(invoices)s)
        ) d
        JOIN rentals_usagewindow w ON w.organization_id = d.organization_id AND upper(w.period) <= d.period_end
        JOIN orders_subscription h ON h.id = w.subscription_id AND h.term = 'hour'
        WHERE NOT EXISTS (SELECT 1 FROM billing_billedwindow b WHERE b.window_id = w.id)
        GROUP BY 1, 2, 3, 4, 5, 6, 7
    ), placed AS MATERIALIZED (
        SELECT u.*, AMOUNT AS amount,
               row_number() OVER (PARTITION BY u.invoice_id
                                  ORDER BY u.kind, u.starts, u.subscription_id, u.meter, u.rate, u.quantity) AS position
        FROM used u
    ), written AS (
        INSERT INTO billing_invoiceline
            (key, invoice_id, position, kind, order_line_id, subscription_id, meter, title, region, resource, project,
             quantity, seconds, periods, rate, amount_minor, tax_percent, tax_minor, tax_code, period_start, period_end)
        SELECT gen_random_uuid(), u.invoice_id, u.position, u.kind, s.order_line_id, u.subscription_id, u.meter,
               o.title, o.region, r.name, p.name, u.quantity, u.seconds, 0, u.rate, u.amount, s.tax_percent,
               TAX, s.tax_code, u.starts, u.ends
        FROM placed u
        JOIN orders_subscription s ON s.id = u.subscription_id
        JOIN orders_orderline l ON l.id = s.order_line_id
        JOIN rentals_rental r ON r.subscription_id = s.id
        JOIN accounts_project p ON p.id = s.project_id
        JOIN unnest(%(offers)s::bigint[], %(titles)s::text[], %(regions)s::text[]) AS o (id, title, region)
            ON o.id = l.offer_id
        RETURNING id, invoice_id, position
    )
    INSERT INTO billing_billedwindow (line_id, window_id)
    SELECT w.id, unnest(u.windows) FROM written w JOIN placed u USING (invoice_id, position)
    WHERE w.invoice_id = ANY(%(binding)s)
"""
_ROUNDED_LINES = _LINES.replace("TAX", tax_within("u.amount", "s.tax_percent")).replace(
    "AMOUNT", rounded("u.seconds", "u.quantity", "u.rate", "u.scale")
)


def _write_lines(invoice_ids: Sequence[int], *, binding: Sequence[int]) -> None:
    """Unbilled usage up to each draft's end, one line per subscription and meter (and rate and size, should they have
    changed); what belongs to an earlier month on lines of its own.

    One statement, so the windows bound to the lines of `binding` are the very ones that were added up.
    """
    offers = Offer.objects.select_related("gpu_model", "region").order_by("pk")
    texts = [(offer.pk, offer.title[:120], offer.region.both_names) for offer in offers]
    ids, titles, regions = (list(column) for column in zip(*texts, strict=True)) if texts else ([], [], [])
    values = {
        "invoices": list(invoice_ids), "binding": list(binding), "offers": ids, "titles": titles, "regions": regions,
        "currencies": list(MINIMUM_MINOR), "scales": [10 ** exponent(currency) for currency in MINIMUM_MINOR],
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_ROUNDED_LINES, values)


_TOTALS = """
    UPDATE billing_invoice i SET total_minor = greatest(l.total, 0), tax_minor = greatest(l.tax, 0)
    FROM (
        SELECT d.id, COALESCE(sum(l.amount_minor), 0) AS total, COALESCE(sum(l.tax_minor), 0) AS tax,
               count(l.id) AS lines
        FROM unnest(%s::bigint[]) AS d (id) LEFT JOIN billing_invoiceline l ON l.invoice_id = d.id GROUP BY d.id
    ) l WHERE i.id = l.id
    RETURNING i.id, l.total, l.lines
"""


def _add_up(invoice_ids: list[int]) -> dict[int, tuple[int, int]]:
    """Each draft's total, which may be negative, and how many lines it has."""
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS, [invoice_ids])
        return {invoice_id: (total, lines) for invoice_id, total, lines in cursor.fetchall()}


def _drop(invoice_ids: list[int]) -> None:
    """Drafts that are not worth an invoice leave nothing behind: no number was taken, and their usage is unbilled."""
    if not invoice_ids:
        return
    BilledWindow.objects.filter(line__invoice__in=invoice_ids).delete()
    InvoiceLine.objects.filter(invoice__in=invoice_ids).delete()
    Invoice.objects.filter(pk__in=invoice_ids, status=Invoice.Status.DRAFT).delete()
