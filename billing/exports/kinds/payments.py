"""Money that came and went: payments of invoices, top-ups, bank transfers into a balance, and refunds (negative).

A payment from the balance or with gifted credit is shown, but moves no cash.
"""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from billing.exports.selection import Selection
from billing.exports.table import Column, Rows, Table, Total
from billing.exports.words import label, local, major
from billing.models import Payment

KINDS = [
    ("payment", _("Payment of an invoice")),
    ("top_up", _("Top-up")),
    ("transfer", _("Bank transfer to the balance")),
    ("refund", _("Refund")),
]

COLUMNS = (
    Column("at", _("Received or sent at"), "instant", local("m.at", "o.zone")),
    Column("kind", _("Kind"), "word", label("m.kind", KINDS)),
    Column("organization", _("Organization"), "text", "o.name"),
    Column("organization_id", _("Organization ID"), "id", "o.key::text"),
    Column("method", _("Method"), "word", label("m.method", Payment.Method.choices)),
    Column("reference", _("Reference"), "id", "m.reference"),
    Column("payer", _("Payer"), "text", "m.payer"),
    Column("invoice", _("Invoice number"), "id", "m.invoice"),
    Column("currency", _("Currency"), "word", "m.currency"),
    Column("amount", _("Amount"), "money", major("m.amount_minor", "m.currency")),
    Column("cash", _("Of it cash"), "money", major("m.cash_minor", "m.currency")),
    Column("by", _("Recorded by"), "text", "u.email"),
)

TABLE = Table(
    "payments",
    1,
    _("Payments"),
    COLUMNS,
    (Total(_("Amount"), "sum(m.amount_minor)"), Total(_("Of it cash"), "sum(m.cash_minor)")),
)

_MONEY = """(
    SELECT p.received_at AS at, 'payment' AS kind, i.organization_id, p.method, p.reference, '' AS payer,
           i.number AS invoice, p.currency, p.amount_minor, p.recorded_by_id AS user_id, p.id,
           CASE WHEN p.method IN ('wallet', 'gift') THEN 0 ELSE p.amount_minor END AS cash_minor
      FROM billing_payment p JOIN billing_invoice i ON i.id = p.invoice_id
    UNION ALL
    SELECT t.paid_at, 'top_up', a.organization_id, 'stripe', COALESCE(t.payment_intent, t.key::text), '', NULL,
           t.currency, t.amount_minor, t.created_by_id, t.id, t.amount_minor
      FROM billing_topup t JOIN billing_billingaccount a ON a.id = t.account_id WHERE t.status = 'paid'
    UNION ALL
    SELECT b.received_at, 'transfer', a.organization_id, 'bank_transfer', b.reference, b.payer, NULL, b.currency,
           b.amount_minor, b.recorded_by_id, b.id, b.amount_minor
      FROM billing_banktransfer b JOIN billing_billingaccount a ON a.id = b.account_id WHERE b.status = 'matched'
    UNION ALL
    SELECT r.finished_at, 'refund', a.organization_id, r.method, COALESCE(NULLIF(r.reference, ''), r.key::text), '',
           i.number, r.currency, -r.amount_minor, r.requested_by_id, r.id, -r.amount_minor
      FROM billing_refund r JOIN billing_billingaccount a ON a.id = r.account_id
      LEFT JOIN billing_creditnote c ON c.id = r.credit_note_id LEFT JOIN billing_invoice i ON i.id = c.invoice_id
     WHERE r.status = 'succeeded') m"""


def rows(selection: Selection) -> Rows:
    clauses, values = selection.clauses(when="m.at", organization="m.organization_id", currency="m.currency")
    return Rows(
        source=f"""{_MONEY} JOIN accounts_organization o ON o.id = m.organization_id
            LEFT JOIN accounts_user u ON u.id = m.user_id WHERE {" AND ".join(["true", *clauses])}""",
        order=("m.at", "m.kind", "m.id"),
        values=tuple(values),
        currency="m.currency",
    )
