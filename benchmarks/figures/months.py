"""The monthly run without Stripe: a month of many customers becomes numbered, taxed, totalled and posted invoices.

Against plain SQL that leaves the same rows in the same tables, their constraints and triggers on. 1,000 customers with
5 machines each and 3 lines a machine; then ten times as many, for how the time grows.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from benchmarks import world
from benchmarks.machine import Machine
from benchmarks.rounds import Sample, compare
from benchmarks.table import Row, Wrong
from billing import actions, ledger
from billing.models import Invoice, InvoiceLine
from catalog.models import Image, Offer
from orders.models import Order, OrderLine

CUSTOMERS, MACHINES, LINES = 1000, 5, 3
TARGET, GROWTH_TARGET, MOST_QUERIES = 3.00, 10.50, 50
ROUNDS = 3
SHANGHAI = ZoneInfo("Asia/Shanghai")
START, END = datetime(2026, 10, 1, tzinfo=SHANGHAI), datetime(2026, 11, 1, tzinfo=SHANGHAI)
AT = END + timedelta(days=2)


def measure(machine: Machine) -> Row:
    _open_customers(CUSTOMERS)
    queries = _count_queries()
    _keep_the_rows()
    result = compare(lambda: _timed(_run), lambda: _timed(_plain), rounds=ROUNDS)
    return Row(
        "months",
        f"{CUSTOMERS / result.ours.rate:.2f} s",
        f"{CUSTOMERS / result.reference.rate:.2f} s",
        1 / result.ratio,
        TARGET,
        note=f"{CUSTOMERS:,} customers × {MACHINES} machines × {LINES} lines in {queries} statements ÷ plain SQL of "
        f"the same rows; median of {ROUNDS} rounds",
        at_most=True,
    )


def measure_growth(machine: Machine) -> Row:
    """Ten times the customers against those of `measure`, which ran before or is laid now."""
    _open_customers(CUSTOMERS)
    _forget()
    few = CUSTOMERS / _timed(_run).rate
    _open_customers(10 * CUSTOMERS)
    _forget()
    many = CUSTOMERS / _timed(_run).rate
    return Row(
        "months×10",
        f"{many:.2f} s",
        f"{few:.2f} s",
        many / few,
        GROWTH_TARGET,
        note=f"{10 * CUSTOMERS:,} customers ÷ {CUSTOMERS:,}, one run each",
        at_most=True,
    )


def _timed(run) -> Sample:
    _forget()
    started = time.perf_counter()
    run()
    seconds = time.perf_counter() - started
    _check()
    return Sample(CUSTOMERS / seconds)


def _run() -> None:
    done = actions.draft_usage_invoices(at=AT)
    if done.failed or done.carried or done.drafts:
        raise Wrong(f"{len(done.failed)} failed, {len(done.carried)} carried, {len(done.drafts)} drafts")


def _count_queries() -> int:
    _forget()
    with CaptureQueriesContext(connection) as queries:
        _run()
    if len(queries) > MOST_QUERIES:
        raise Wrong(f"{len(queries)} statements for {CUSTOMERS:,} customers")
    return len(queries)


def _check() -> None:
    """Every customer one issued invoice with all its lines, the books in order, numbers without a gap."""
    customers = _customers()
    issued = Invoice.objects.filter(kind="usage", status="issued")
    found = (issued.count(), InvoiceLine.objects.count())
    if found != (customers, customers * MACHINES * LINES):
        raise Wrong(f"{found[0]} invoices with {found[1]} lines for {customers} customers")
    if wrong := ledger.check():
        raise Wrong(str(wrong[0]))
    ((highest,),) = _execute("SELECT next_number - 1 FROM billing_numberseries")
    if highest != customers:
        raise Wrong(f"numbers go to {highest}")


# --- the same rows by plain SQL ---------------------------------------------------------------------------------------
KEPT = {
    "billing_invoice": "key, account_id, organization_id, kind, collection, currency, period_start, period_end,"
    " total_minor, tax_minor, paid_minor, gift_minor, credited_minor, buyer, drafted_at, stripe_invoice_id,"
    " hosted_url, push_version, push_attempts, push_error",
    "billing_invoiceline": "key, position, kind, order_line_id, subscription_id, meter, title, region, resource,"
    " project, quantity, seconds, periods, rate, amount_minor, tax_percent, tax_minor, tax_code, period_start,"
    " period_end",
}


def _keep_the_rows() -> None:
    """What the run left behind, as the reference will write it again."""
    for table in ("bench_invoice", "bench_line", "bench_window"):
        _execute(f"DROP TABLE IF EXISTS {table}")
    _execute(
        f"CREATE TABLE bench_invoice AS SELECT {KEPT['billing_invoice']}, number, issued_at, due_at"
        " FROM billing_invoice ORDER BY id"
    )
    _execute(
        f"CREATE TABLE bench_line AS SELECT {_of('l', KEPT['billing_invoiceline'])}, i.key AS invoice_key"
        " FROM billing_invoiceline l JOIN billing_invoice i ON i.id = l.invoice_id ORDER BY l.id"
    )
    _execute(
        "CREATE TABLE bench_window AS SELECT l.key AS line_key, b.window_id FROM billing_billedwindow b"
        " JOIN billing_invoiceline l ON l.id = b.line_id ORDER BY b.id"
    )
    _execute("ANALYZE bench_invoice, bench_line, bench_window")


def _of(alias: str, columns: str) -> str:
    return ", ".join(f"{alias}.{column.strip()}" for column in columns.split(","))


@transaction.atomic
def _plain() -> None:
    for statement in _PLAIN:
        _execute(statement, at=AT)


_PLAIN = (
    f"INSERT INTO billing_invoice (status, {KEPT['billing_invoice']})"
    f" SELECT 'draft', {KEPT['billing_invoice']} FROM bench_invoice",
    f"INSERT INTO billing_invoiceline (invoice_id, {KEPT['billing_invoiceline']})"
    f" SELECT i.id, {_of('b', KEPT['billing_invoiceline'])}"
    " FROM bench_line b JOIN billing_invoice i ON i.key = b.invoice_key",
    "INSERT INTO billing_billedwindow (line_id, window_id) SELECT l.id, b.window_id"
    " FROM bench_window b JOIN billing_invoiceline l ON l.key = b.line_key",
    "INSERT INTO billing_numberseries (series, year, next_number) SELECT 'INV', 2026, 1 + count(*) FROM bench_invoice",
    "UPDATE billing_invoice i SET status = 'issued', number = b.number, issued_at = b.issued_at, due_at = b.due_at"
    " FROM bench_invoice b WHERE b.key = i.key",
    "INSERT INTO billing_invoiceevent (invoice_id, status, at, note)"
    " SELECT id, 'issued', %(at)s, '' FROM billing_invoice",
    "INSERT INTO billing_posting (account_id, kind, fact, currency, at, booked_on, invoice_id, note)"
    " SELECT account_id, 'issue', key::text, currency, %(at)s, %(at)s::date, id, '' FROM billing_invoice",
    "INSERT INTO billing_ledgerentry (posting_id, account_id, book, amount_minor)"
    " SELECT p.id, p.account_id, e.book, e.amount FROM billing_posting p JOIN billing_invoice i ON i.id = p.invoice_id,"
    " LATERAL (VALUES ('receivable', i.total_minor), ('revenue', i.tax_minor - i.total_minor), ('tax', -i.tax_minor))"
    " AS e (book, amount) WHERE e.amount <> 0",
)


# --- the customers ----------------------------------------------------------------------------------------------------
def _customers() -> int:
    ((count,),) = _execute("SELECT count(*) FROM accounts_organization WHERE name LIKE 'Month %%'")
    return count


def _open_customers(customers: int) -> None:
    """Organizations that pay by the month, each with its machines and three lines' worth of windows a machine."""
    settings.INVOICE_GRACE_HOURS = 0
    if not Order.objects.filter(request_key="months").exists():
        _sell()
    line = OrderLine.objects.get(order__request_key="months")
    values = {"have": _customers(), "want": customers, "line": line.pk, "pool": line.offer.pool_id, "start": START}
    for statement in _WORLD:
        _execute(statement, **values)
    _execute("VACUUM ANALYZE rentals_usagewindow")


def _sell() -> None:
    buyer, offer = world.buyer(400), Offer.objects.filter(pool__isnull=False).earliest("pk")
    order = Order.objects.create(
        organization=buyer.organization, project=buyer.project, placed_by=buyer.user, request_key="months",
        status="confirmed", currency="CNY", total_minor=0, placed_at=START,
    )  # fmt: skip
    OrderLine.objects.create(
        order=order, offer=offer, image=Image.objects.earliest("pk"), public_keys=[], quantity=1, cards_per_unit=1,
        disk_gb=100, term="hour", periods=1, rate=1, disk_rate=0, amount_minor=0, tax_percent=6, tax_code="",
        units=[order.key],
    )  # fmt: skip


_WORLD = (
    """INSERT INTO accounts_organization (key, name, currency, zone, created_at)
       SELECT gen_random_uuid(), 'Month ' || n, 'CNY', 'Asia/Shanghai', %(start)s
       FROM generate_series(%(have)s + 1, %(want)s) n""",
    """INSERT INTO accounts_project (organization_id, name, is_default)
       SELECT id, 'default', true FROM accounts_organization o WHERE name LIKE 'Month %%'
       AND NOT EXISTS (SELECT 1 FROM accounts_project p WHERE p.organization_id = o.id)""",
    """INSERT INTO billing_billingaccount (organization_id, email, mode, stripe_customer_id,
            stripe_payment_method_id, saved_card)
       SELECT id, 'm@example.com', 'credit', '', '', '' FROM accounts_organization o WHERE name LIKE 'Month %%'
       AND NOT EXISTS (SELECT 1 FROM billing_billingaccount a WHERE a.organization_id = o.id)""",
    f"""INSERT INTO orders_subscription (key, organization_id, project_id, order_line_id, unit, term, periods, cards,
            disk_gb, currency, rate, disk_rate, tax_percent, tax_code, headroom_minor, started_at, auto_renew)
        SELECT gen_random_uuid(), o.id, p.id, %(line)s, gen_random_uuid(), 'hour', 1, 1 + m %% 8, 100, 'CNY',
               2 + (o.id %% 97) / 100.0, 0.0005, 6, '', 0, %(start)s, false
        FROM accounts_organization o JOIN accounts_project p ON p.organization_id = o.id,
             generate_series(1, {MACHINES}) m
        WHERE o.name LIKE 'Month %%' AND NOT EXISTS (SELECT 1 FROM orders_subscription s WHERE s.organization_id = o.id)
    """,
    """INSERT INTO rentals_rental (key, organization_id, project_id, order_line_id, subscription_id, name, pool_id,
            status, desired, generation, public_keys, reason, failure, absences, attempts, ssh_host, ssh_user, host_key,
            host_key_fingerprint, meter, created_at, running_at, suspension)
       SELECT s.unit, s.organization_id, s.project_id, s.order_line_id, s.id, 'r-' || s.id, %(pool)s, 'running',
              'running', 1, '{}', '', '', 0, 0, '', '', '', '', '', %(start)s, %(start)s, ''
       FROM orders_subscription s JOIN accounts_organization o ON o.id = s.organization_id
       WHERE o.name LIKE 'Month %%' AND NOT EXISTS (SELECT 1 FROM rentals_rental r WHERE r.subscription_id = s.id)""",
    f"""INSERT INTO rentals_usagewindow (key, rental_id, subscription_id, organization_id, meter, quantity, currency,
            rate, period, seconds)
        SELECT gen_random_uuid(), r.id, r.subscription_id, r.organization_id,
               CASE n %% {LINES} WHEN 0 THEN 'disk_gb_hour' ELSE 'card_hour' END,
               CASE n %% {LINES} WHEN 0 THEN 100 ELSE s.cards END, 'CNY',
               CASE n %% {LINES} WHEN 0 THEN 0.0005 WHEN 1 THEN s.rate ELSE s.rate + 1 END,
               tstzrange(%(start)s + (n * interval '1 day'), %(start)s + ((n + 1) * interval '1 day')), 86400
        FROM rentals_rental r JOIN orders_subscription s ON s.id = r.subscription_id
        JOIN accounts_organization o ON o.id = r.organization_id, generate_series(0, {2 * LINES - 1}) n
        WHERE o.name LIKE 'Month %%'
        AND NOT EXISTS (SELECT 1 FROM rentals_usagewindow w WHERE w.rental_id = r.id)""",
)


def _forget() -> None:
    """No invoice and nothing booked, as tidy as in the first round."""
    _execute("TRUNCATE billing_invoice, billing_posting, billing_numberseries CASCADE")
    _execute("CHECKPOINT")


def _execute(statement: str, **values: object) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []
