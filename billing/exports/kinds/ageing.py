"""What every organization owes at an instant, by how many local days it is overdue. The ledger's word, not today's:
what was paid or credited after the instant is still open at it."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from billing.exports.selection import Selection
from billing.exports.table import Column, Rows, Table, Total
from billing.exports.words import local_day, major

BUCKETS = (
    ("current", _("Not due yet"), "days IS NULL OR days <= 0"),
    ("to_30", _("1–30 days overdue"), "days BETWEEN 1 AND 30"),
    ("to_60", _("31–60 days overdue"), "days BETWEEN 31 AND 60"),
    ("to_90", _("61–90 days overdue"), "days BETWEEN 61 AND 90"),
    ("over_90", _("More than 90 days overdue"), "days > 90"),
)


def _bucket(key: str, title: object) -> Column:
    return Column(key, title, "money", major(f"r.{key}", "r.currency"))  # type: ignore[arg-type]


COLUMNS = (
    Column("organization", _("Organization"), "text", "r.name"),
    Column("organization_id", _("Organization ID"), "id", "r.key::text"),
    Column("currency", _("Currency"), "word", "r.currency"),
    Column("invoices", _("Open invoices"), "count", "r.invoices"),
    *(_bucket(key, title) for key, title, _days in BUCKETS),
    Column("total", _("Total"), "money", major("r.total", "r.currency")),
    Column("oldest", _("Oldest due date"), "day", local_day("r.oldest", "r.zone")),
    Column("at", _("As of"), "word", "r.moment"),
)

TABLE = Table(
    "ageing",
    1,
    _("Receivables ageing"),
    COLUMNS,
    (*(Total(title, f"sum(r.{key})") for key, title, _days in BUCKETS), Total(_("Total"), "sum(r.total)")),
)


def rows(selection: Selection) -> Rows:
    clauses, values = Selection(selection.at, selection.organization_id, selection.currency).clauses(
        when="p.at", organization="a.organization_id", currency="p.currency"
    )
    where = " AND ".join(["e.book = 'receivable'", "p.at <= %s", *clauses])
    sums = ", ".join(f"COALESCE(sum(owed) FILTER (WHERE {days}), 0)::bigint AS {key}" for key, _title, days in BUCKETS)
    return Rows(
        source=f"""(
            SELECT o.name, o.key, o.zone, d.currency, count(d.invoice_id) AS invoices, {sums},
                   sum(owed)::bigint AS total, min(d.due_at) AS oldest,
                   to_char(%s::timestamptz AT TIME ZONE o.zone, 'YYYY-MM-DD HH24:MI:SS') AS moment
              FROM (
                SELECT a.organization_id, p.currency, p.invoice_id, i.due_at, sum(e.amount_minor) AS owed,
                       (%s::timestamptz AT TIME ZONE z.zone)::date - (i.due_at AT TIME ZONE z.zone)::date AS days
                  FROM billing_posting p JOIN billing_ledgerentry e ON e.posting_id = p.id
                  JOIN billing_billingaccount a ON a.id = p.account_id
                  JOIN accounts_organization z ON z.id = a.organization_id
                  LEFT JOIN billing_invoice i ON i.id = p.invoice_id
                 WHERE {where}
                 GROUP BY a.organization_id, p.currency, p.invoice_id, i.due_at, z.zone
                HAVING sum(e.amount_minor) <> 0) d
              JOIN accounts_organization o ON o.id = d.organization_id
             GROUP BY o.id, d.currency) r""",
        order=("r.currency", "r.name", "r.key"),
        values=(selection.at, selection.at, selection.at, *values),
        currency="r.currency",
    )
