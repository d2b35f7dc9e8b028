"""Invoices and payments that stood before the ledger did are posted as if it had been there."""

from django.conf import settings
from django.db import migrations

# Money beyond what an invoice was over, and money for a void one, is the customer's.
POST = """
    INSERT INTO billing_posting (account_id, kind, fact, currency, at, booked_on, invoice_id, note)
    SELECT i.account_id, 'issue', i.key::text, i.currency, i.issued_at, (i.issued_at AT TIME ZONE %(zone)s)::date,
           i.id, ''
    FROM billing_invoice i WHERE i.status NOT IN ('draft', 'void') AND i.total_minor <> 0;

    INSERT INTO billing_ledgerentry (posting_id, account_id, book, amount_minor)
    SELECT p.id, p.account_id, e.book, e.amount
    FROM billing_posting p JOIN billing_invoice i ON i.id = p.invoice_id,
    LATERAL (VALUES ('receivable', i.total_minor), ('revenue', i.tax_minor - i.total_minor), ('tax', -i.tax_minor))
        AS e (book, amount)
    WHERE p.kind = 'issue' AND e.amount <> 0;

    INSERT INTO billing_posting (account_id, kind, fact, currency, at, booked_on, invoice_id, note)
    SELECT i.account_id, 'payment', p.method || ':' || p.reference, p.currency, p.received_at,
           (p.received_at AT TIME ZONE %(zone)s)::date, i.id, ''
    FROM billing_payment p JOIN billing_invoice i ON i.id = p.invoice_id;

    WITH paid AS (
        SELECT q.id AS posting_id, q.account_id, p.amount_minor,
               CASE WHEN i.status = 'void' THEN 0 ELSE i.total_minor END AS due,
               sum(p.amount_minor) OVER (PARTITION BY i.id ORDER BY p.id) - p.amount_minor AS before
        FROM billing_payment p JOIN billing_invoice i ON i.id = p.invoice_id
        JOIN billing_posting q ON q.kind = 'payment' AND q.fact = p.method || ':' || p.reference
    ), split AS (
        SELECT *, least(amount_minor, greatest(due - before, 0)) AS owed FROM paid
    )
    INSERT INTO billing_ledgerentry (posting_id, account_id, book, amount_minor)
    SELECT s.posting_id, s.account_id, e.book, e.amount FROM split s,
    LATERAL (VALUES ('cash', s.amount_minor), ('receivable', -s.owed), ('wallet', s.owed - s.amount_minor))
        AS e (book, amount)
    WHERE e.amount <> 0;
"""


def post_what_stands(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(POST, {"zone": settings.TIME_ZONE})


class Migration(migrations.Migration):
    dependencies = [("billing", "0003_whole_money")]
    operations = [migrations.RunPython(post_what_stands, migrations.RunPython.noop)]
