"""Invoice lines under the headers that Xero and QuickBooks Online import. No void invoice; dates as ISO days.

Xero multiplies and taxes by itself, so a line is one piece at its amount with tax: choose "tax inclusive" there.
QuickBooks takes at most a thousand rows a file.
"""

from __future__ import annotations

from django.conf import settings

from billing.exports.selection import Selection
from billing.exports.table import Column, Rows, Table, Total
from billing.exports.words import label, local_day, major, quoted
from billing.models import LINE_METERS

NOTHING = "NULL::text"
CUSTOMER = "COALESCE(NULLIF(i.buyer ->> 'title', ''), o.name)"


def _empty(*headers: str) -> tuple[Column, ...]:
    return tuple(Column(header, header, "word", NOTHING) for header in headers)


def _described() -> str:
    meter = label("l.meter", LINE_METERS)()
    return f"concat_ws(' · ', l.title, NULLIF(l.resource, ''), NULLIF(l.region, ''), {meter})"


def _setting(name: str) -> str:
    return quoted(getattr(settings, name))


XERO = Table(
    "xero",
    1,
    "Xero",
    (
        Column("ContactName", "*ContactName", "text", CUSTOMER, "head"),
        Column("EmailAddress", "EmailAddress", "text", "a.email", "head"),
        Column("POAddressLine1", "POAddressLine1", "text", "NULLIF(i.buyer ->> 'address', '')", "head"),
        *_empty(
            "POAddressLine2", "POAddressLine3", "POAddressLine4", "POCity", "PORegion", "POPostalCode", "POCountry"
        ),
        Column("InvoiceNumber", "*InvoiceNumber", "id", "i.number", "head"),
        Column("Reference", "Reference", "id", "i.key::text", "head"),
        Column("InvoiceDate", "*InvoiceDate", "day", local_day("i.issued_at", "o.zone"), "head"),
        Column("DueDate", "*DueDate", "day", local_day("i.due_at", "o.zone"), "head"),
        *_empty("InventoryItemCode"),
        Column("Description", "*Description", "text", _described),
        Column("Quantity", "*Quantity", "count", "1"),
        Column("UnitAmount", "*UnitAmount", "money", major("l.amount_minor", "head.currency")),
        *_empty("Discount"),
        Column("AccountCode", "*AccountCode", "word", lambda: _setting("XERO_ACCOUNT_CODE")),
        Column("TaxType", "*TaxType", "word", lambda: _setting("XERO_TAX_TYPE")),
        Column("TrackingName1", "TrackingName1", "word", "'Project'"),
        Column("TrackingOption1", "TrackingOption1", "text", "l.project"),
        *_empty("TrackingName2", "TrackingOption2"),
        Column("Currency", "Currency", "word", "i.currency", "head"),
        *_empty("BrandingTheme"),
    ),
    (Total("UnitAmount", "sum(l.amount_minor)"),),
)

QUICKBOOKS = Table(
    "quickbooks",
    1,
    "QuickBooks",
    (
        Column("InvoiceNo", "*InvoiceNo", "id", "i.number", "head"),
        Column("Customer", "*Customer", "text", CUSTOMER, "head"),
        Column("InvoiceDate", "*InvoiceDate", "day", local_day("i.issued_at", "o.zone"), "head"),
        Column("DueDate", "*DueDate", "day", local_day("i.due_at", "o.zone"), "head"),
        *_empty("Terms", "Location"),
        Column("Memo", "Memo", "text", "NULLIF(l.project, '')"),
        Column("Item", "Item(Product/Service)", "text", "l.title"),
        Column("ItemDescription", "ItemDescription", "text", _described),
        Column("ItemQuantity", "ItemQuantity", "count", "1"),
        Column("ItemRate", "ItemRate", "money", major("(l.amount_minor - l.tax_minor)", "head.currency")),
        Column("ItemAmount", "*ItemAmount", "money", major("(l.amount_minor - l.tax_minor)", "head.currency")),
        Column("ItemTaxCode", "ItemTaxCode", "word", lambda: _setting("QUICKBOOKS_TAX_CODE")),
        Column("ItemTaxAmount", "ItemTaxAmount", "money", major("l.tax_minor", "head.currency")),
        Column("Currency", "Currency", "word", "i.currency", "head"),
    ),
    (Total("ItemAmount", "sum(l.amount_minor - l.tax_minor)"), Total("ItemTaxAmount", "sum(l.tax_minor)")),
)


def rows(selection: Selection) -> Rows:
    where, values = selection.of_invoices()
    return Rows(
        source=f"""billing_invoice i JOIN accounts_organization o ON o.id = i.organization_id
            JOIN billing_billingaccount a ON a.id = i.account_id WHERE i.status <> 'void' AND {where}""",
        order=("i.issued_at", "i.number"),
        values=tuple(values),
        carries=("i.id", "i.currency"),
        each="SELECT * FROM billing_invoiceline WHERE invoice_id = head.id",
        each_order="l.position",
        first="l.position = 1",
    )
