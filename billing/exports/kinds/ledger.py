"""The ledger: a row an entry, debits and credits in columns of their own, by the day they are booked on."""

from __future__ import annotations

from django.conf import settings
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from billing.exports.selection import Selection
from billing.exports.table import Column, Rows, Table, Total
from billing.exports.words import label, local, major, quoted
from billing.models import Book, Posting

DEBIT, CREDIT = "greatest(e.amount_minor, 0)", "greatest(-e.amount_minor, 0)"

COLUMNS = (
    Column("posting", _("Posting"), "count", "p.id"),
    Column("booked_on", _("Booked on"), "day", "p.booked_on::text"),
    Column("at", _("Happened at"), "instant", local("p.at", "o.zone")),
    Column("kind", _("Kind"), "word", label("p.kind", Posting.Kind.choices)),
    Column("fact", _("Fact"), "id", "p.fact"),
    Column("organization", _("Organization"), "text", "o.name"),
    Column("organization_id", _("Organization ID"), "id", "o.key::text"),
    Column("invoice", _("Invoice number"), "id", "i.number"),
    Column("book", pgettext_lazy("ledger", "Book"), "word", label("e.book", Book.choices)),
    Column("currency", _("Currency"), "word", "p.currency"),
    Column("debit", _("Debit"), "money", major(DEBIT, "p.currency")),
    Column("credit", pgettext_lazy("ledger", "Credit"), "money", major(CREDIT, "p.currency")),
    Column("by", _("By"), "text", "u.email"),
    Column("note", _("Note"), "text", "NULLIF(p.note, '')"),
)

TABLE = Table(
    "ledger",
    1,
    pgettext_lazy("export", "Ledger"),
    COLUMNS,
    (Total(_("Debit"), f"sum({DEBIT})"), Total(pgettext_lazy("ledger", "Credit"), f"sum({CREDIT})")),
    agree=(0, 1),
)

ENTRIES = """billing_posting p JOIN billing_ledgerentry e ON e.posting_id = p.id
    JOIN billing_billingaccount a ON a.id = p.account_id
    JOIN accounts_organization o ON o.id = a.organization_id
    LEFT JOIN billing_invoice i ON i.id = p.invoice_id
    LEFT JOIN accounts_user u ON u.id = p.actor_id"""


def booked(selection: Selection) -> tuple[str, list[object]]:
    """The condition on postings: by the day they are booked on, in the company's zone."""
    clauses, values = selection.clauses(
        when=f"p.booked_on::timestamp AT TIME ZONE {quoted(settings.TIME_ZONE)}",
        organization="a.organization_id",
        currency="p.currency",
    )
    return " AND ".join(["true", *clauses]), values


def rows(selection: Selection) -> Rows:
    where, values = booked(selection)
    return Rows(
        source=f"{ENTRIES} WHERE {where}",
        order=("p.booked_on", "p.id", "e.id"),
        values=tuple(values),
        currency="p.currency",
    )
