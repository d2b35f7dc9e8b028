"""Invoice lines: one row a line, with everything of its invoice, for spreadsheets and the finance system.

Amounts of the whole invoice (total, paid, outstanding) stand on its first line only, so that a column adds up.
"""

from __future__ import annotations

from django.conf import settings
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from billing.exports.selection import Selection
from billing.exports.table import Column, Rows, Table, Total
from billing.exports.words import hours, label, local, major, plain, quoted
from billing.models import LINE_METERS, Fapiao, Invoice, InvoiceLine, Payment

ZONE = "o.zone"
# The site's zone names the day in an order's number.
_ORDER = (
    "'SO' || to_char(so.placed_at AT TIME ZONE {zone}, 'YYMMDD') || lpad(so.id::text, greatest(length(so.id::text), 6),"
    " '0')"
)


def _order_number() -> str:
    return _ORDER.format(zone=quoted(settings.TIME_ZONE))


def _buyer(field: str) -> str:
    return f"NULLIF(b.{field}, '')"


def _of_the_period(which: str) -> str:
    """Most lines are over the whole period of their invoice, whose ends are written out already."""
    instant = f"l.period_{which}"
    written = f"THEN head.{which}_text ELSE {local(instant, 'head.zone')}"
    return f"CASE WHEN {instant} = head.period_{which} {written} END"


def _once(minor: str) -> str:
    return major(minor, "i.currency")


OUTSTANDING = "CASE WHEN i.status = 'void' THEN 0 ELSE greatest(i.total_minor - i.credited_minor - i.paid_minor, 0) END"

COLUMNS: tuple[Column, ...] = (
    Column("invoice", _("Invoice number"), "id", "i.number", "head"),
    Column("status", _("Status"), "word", label("i.status", Invoice.Status.choices), "head"),
    Column("kind", _("Kind"), "word", label("i.kind", Invoice.Kind.choices), "head"),
    Column("organization", _("Organization"), "text", "o.name", "head"),
    Column("organization_id", _("Organization ID"), "id", "o.key::text", "head"),
    Column("buyer", _("Buyer's title"), "text", _buyer("title"), "head"),
    Column("tax_id", _("Buyer's tax number"), "id", _buyer("tax_id"), "head"),
    Column("address", _("Buyer's address"), "text", _buyer("address"), "head"),
    Column("phone", _("Buyer's phone"), "id", _buyer("phone"), "head"),
    Column("bank", _("Buyer's bank"), "text", _buyer("bank"), "head"),
    Column("bank_account", _("Buyer's bank account"), "id", _buyer("bank_account"), "head"),
    Column("email", _("Billing e-mail"), "text", "a.email", "head"),
    Column("currency", _("Currency"), "word", "i.currency", "head"),
    Column("from", _("Period from"), "instant", local("i.period_start", ZONE), "head"),
    Column("to", _("Period to (exclusive)"), "instant", local("i.period_end", ZONE), "head"),
    Column("issued", _("Issued"), "instant", local("i.issued_at", ZONE), "head"),
    Column("due", _("Due"), "instant", local("i.due_at", ZONE), "head"),
    Column("paid_on", pgettext_lazy("export column: when", "Paid on"), "instant", local("i.paid_at", ZONE), "head"),
    Column("line", _("Line"), "count", "l.position"),
    Column("line_kind", _("Kind of line"), "word", label("l.kind", InvoiceLine.Kind.choices)),
    Column("product", _("Product"), "text", "l.title"),
    Column("region", _("Region"), "text", "l.region"),
    Column("resource", _("Rental or order"), "text", "l.resource"),
    Column("project", _("Project"), "text", "l.project"),
    Column("meter", _("Meter"), "word", label("l.meter", LINE_METERS)),
    Column("quantity", _("Cards or GB"), "count", "l.quantity"),
    Column("hours", _("Hours"), "quantity", hours("l.seconds")),
    Column("periods", _("Months or years"), "count", "l.periods"),
    Column("line_from", _("Used from"), "instant", _of_the_period("start")),
    Column("line_to", _("Used to (exclusive)"), "instant", _of_the_period("end")),
    Column("rate", _("Unit price"), "rate", plain("l.rate")),
    Column("net", _("Amount without tax"), "money", major("(l.amount_minor - l.tax_minor)", "head.currency")),
    Column("tax_percent", _("Tax rate (%)"), "percent", plain("l.tax_percent")),
    Column("tax", _("Tax"), "money", major("l.tax_minor", "head.currency")),
    Column("gross", _("Amount with tax"), "money", major("l.amount_minor", "head.currency")),
    Column("tax_code", _("Tax code"), "id", "l.tax_code"),
    Column("total", _("Invoice total (first line only)"), "money", _once("i.total_minor"), "first"),
    Column("credited", _("Credited (first line only)"), "money", _once("i.credited_minor"), "first"),
    Column("paid", _("Paid (first line only)"), "money", _once("i.paid_minor"), "first"),
    Column("wallet", _("Of it from the balance (first line only)"), "money", _once("COALESCE(p.wallet, 0)"), "first"),
    Column("gift", _("Of it gifted credit (first line only)"), "money", _once("i.gift_minor"), "first"),
    Column("outstanding", _("Outstanding (first line only)"), "money", _once(f"({OUTSTANDING})"), "first"),
    Column("collection", _("Collected by"), "word", label("i.collection", Invoice.Collection.choices), "head"),
    Column("methods", _("Paid by"), "word", "p.methods", "head"),
    Column("payments", _("Payment references"), "id", "p.payment_references", "head"),
    Column("stripe", _("Stripe invoice"), "id", "NULLIF(i.stripe_invoice_id, '')", "head"),
    Column("credit_notes", _("Credit notes"), "id", "c.numbers", "head"),
    Column("fapiao", _("Fapiao number"), "id", "NULLIF(f.number, '')", "head"),
    Column("fapiao_serial", _("Fapiao serial"), "id", "f.serial", "head"),
    Column("fapiao_day", _("Fapiao issued on"), "day", "f.issued_on::text", "head"),
    Column("fapiao_status", _("Fapiao status"), "word", label("f.status", Fapiao.Status.choices), "head"),
    Column("red_number", _("Red fapiao number"), "id", "NULLIF(f.red_number, '')", "head"),
    Column("order", _("Order"), "id", _order_number, "head"),
    Column("quote", _("Quote"), "id", "q.number", "head"),
    Column("salesperson", _("Salesperson"), "text", "u.email", "head"),
)

TABLE = Table(
    "invoice_lines",
    2,
    _("Invoice lines"),
    COLUMNS,
    (
        Total(_("Invoices"), "count(DISTINCT head.id)", is_money=False),
        Total(_("Amount without tax"), "sum(l.amount_minor - l.tax_minor)"),
        Total(_("Tax"), "sum(l.tax_minor)"),
        Total(_("Amount with tax"), "sum(l.amount_minor)"),
        Total(_("Sum of invoice totals"), "sum(head.total_minor) FILTER (WHERE l.position = 1)"),
        Total(_("Credited"), "sum(head.credited_minor) FILTER (WHERE l.position = 1)"),
        Total(_("Paid"), "sum(head.paid_minor) FILTER (WHERE l.position = 1)"),
        Total(_("Outstanding"), "sum(head.outstanding) FILTER (WHERE l.position = 1)"),
    ),
    agree=(3, 4),
)


def _methods() -> str:
    """Each method once, in the reader's words."""
    return f"string_agg(DISTINCT {label('method', Payment.Method.choices)()}, '; ')"


def rows(selection: Selection) -> Rows:
    where, values = selection.of_invoices()
    return Rows(
        source=f"""billing_invoice i
            JOIN accounts_organization o ON o.id = i.organization_id
            JOIN billing_billingaccount a ON a.id = i.account_id
            LEFT JOIN orders_order so ON so.id = i.order_id
            LEFT JOIN orders_quote q ON q.order_id = i.order_id
            LEFT JOIN accounts_user u ON u.id = q.salesperson_id
            LEFT JOIN LATERAL jsonb_to_record(i.buyer) AS b(
                title text, tax_id text, address text, phone text, bank text, bank_account text) ON true
            LEFT JOIN LATERAL (
                SELECT string_agg(reference, '; ' ORDER BY id) AS payment_references, {_methods()} AS methods,
                       sum(amount_minor) FILTER (WHERE method = 'wallet') AS wallet
                  FROM billing_payment WHERE invoice_id = i.id) p ON true
            LEFT JOIN LATERAL (
                SELECT string_agg(number, '; ' ORDER BY id) AS numbers
                  FROM billing_creditnote WHERE invoice_id = i.id) c ON true
            LEFT JOIN LATERAL (
                SELECT * FROM billing_fapiao WHERE invoice_id = i.id ORDER BY id DESC LIMIT 1) f ON true
            WHERE {where}""",
        order=("i.issued_at", "i.number"),
        values=tuple(values),
        carries=(
            "i.id", "i.currency", "o.zone", "i.total_minor", "i.credited_minor", "i.paid_minor",
            f"{OUTSTANDING} AS outstanding", "i.period_start", "i.period_end",
            f"{local('i.period_start', ZONE)} AS start_text", f"{local('i.period_end', ZONE)} AS end_text",
        ),
        each="SELECT * FROM billing_invoiceline WHERE invoice_id = head.id",
        each_order="l.position",
        first="l.position = 1",
    )  # fmt: skip
