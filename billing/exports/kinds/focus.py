"""A customer's charges in the columns of FOCUS 1.2 (the FinOps Open Cost and Usage Specification).

Costs exclude tax, which FOCUS wants as charges of their own: a line is its charge and, where it has one, its tax; a
credit note's lines are negative adjustments. So BilledCost adds up to what was invoiced less what was credited.
Nothing is spread over time: the effective cost is the billed one. Instants are UTC, as FOCUS wants them.
"""

from __future__ import annotations

from django.conf import settings

from billing.exports.selection import Selection
from billing.exports.table import Column, Rows, Table, Total
from billing.exports.words import major, quoted
from marketplace.lib.product import PRODUCT_NAME

UNITS = {
    "card_hour": "Card-Hours", "disk_gb_hour": "GB-Hours", "month": "Card-Months", "year": "Card-Years",
    "unit": "Units",
}  # fmt: skip
SERVICES = {"disk_gb_hour": ("Storage", "Disk")}


def _utc(instant: str) -> str:
    return f"""to_char({instant} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""


def _by_meter(values: dict[str, str], other: str) -> str:
    cases = " ".join(f"WHEN '{meter}' THEN {quoted(value)}" for meter, value in values.items())
    return f"CASE f.meter {cases} ELSE {quoted(other)} END"


def _seller() -> str:
    return quoted(settings.SELLER["name"] or str(PRODUCT_NAME))


_CHARGE = "f.part = 'charge'"
_COST = major("f.cost_minor", "f.currency")
_QUANTITY = f"CASE WHEN {_CHARGE} THEN f.units END"
_UNIT = f"CASE WHEN {_CHARGE} THEN {_by_meter(UNITS, 'Units')} END"
_CATEGORY = (
    "CASE f.part WHEN 'tax' THEN 'Tax' WHEN 'credit' THEN 'Credit' ELSE"
    " CASE WHEN f.kind IN ('usage', 'late', 'pack') THEN 'Usage' WHEN f.kind = 'discount' THEN 'Credit'"
    " ELSE 'Purchase' END END"
)
_FREQUENCY = (
    "CASE WHEN f.kind IN ('usage', 'late', 'pack') THEN 'Usage-Based' WHEN f.kind = 'recurring' THEN 'Recurring'"
    " ELSE 'One-Time' END"
)
# What the list asked for the same, as far as the list is known: the line's own rate where it is not.
_NET = "(f.{} * 100 / (100 + f.tax_percent))"
_LIST_COST = (
    f"CASE WHEN {_CHARGE} AND f.list_rate <> f.rate AND f.rate > 0"
    f" THEN round({_COST} * f.list_rate / f.rate, 2) ELSE {_COST} END"
)


def _unit_price(name: str) -> str:
    return f"CASE WHEN {_CHARGE} THEN trim_scale(round({_NET.format(name)}, 10)) END"


COLUMNS = (
    Column("BilledCost", "BilledCost", "money", _COST),
    Column("BillingAccountId", "BillingAccountId", "id", "f.organization_key::text"),
    Column("BillingAccountName", "BillingAccountName", "text", "f.organization"),
    Column("BillingCurrency", "BillingCurrency", "word", "f.currency"),
    Column("BillingPeriodEnd", "BillingPeriodEnd", "word", _utc("f.billing_end")),
    Column("BillingPeriodStart", "BillingPeriodStart", "word", _utc("f.billing_start")),
    Column("ChargeCategory", "ChargeCategory", "word", _CATEGORY),
    Column("ChargeClass", "ChargeClass", "word", "CASE WHEN f.part = 'credit' THEN 'Correction' END"),
    Column("ChargeDescription", "ChargeDescription", "text", "concat_ws(' · ', f.title, NULLIF(f.resource, ''))"),
    Column("ChargeFrequency", "ChargeFrequency", "word", _FREQUENCY),
    Column("ChargePeriodEnd", "ChargePeriodEnd", "word", _utc("COALESCE(f.period_end, f.billing_end)")),
    Column("ChargePeriodStart", "ChargePeriodStart", "word", _utc("COALESCE(f.period_start, f.billing_start)")),
    Column("ConsumedQuantity", "ConsumedQuantity", "quantity", f"CASE WHEN {_CATEGORY} = 'Usage' THEN f.units END"),
    Column("ConsumedUnit", "ConsumedUnit", "word", f"CASE WHEN {_CATEGORY} = 'Usage' THEN {_UNIT} END"),
    Column("ContractedCost", "ContractedCost", "money", _COST),
    Column("ContractedUnitPrice", "ContractedUnitPrice", "rate", _unit_price("rate")),
    Column("EffectiveCost", "EffectiveCost", "money", _COST),
    Column("InvoiceId", "InvoiceId", "id", "f.document"),
    Column("InvoiceIssuerName", "InvoiceIssuerName", "text", _seller),
    Column("ListCost", "ListCost", "money", _LIST_COST),
    Column("ListUnitPrice", "ListUnitPrice", "rate", _unit_price("list_rate")),
    Column("PricingCategory", "PricingCategory", "word", f"CASE WHEN {_CHARGE} THEN 'Standard' END"),
    Column("PricingQuantity", "PricingQuantity", "quantity", _QUANTITY),
    Column("PricingUnit", "PricingUnit", "word", _UNIT),
    Column("ProviderName", "ProviderName", "text", _seller),
    Column("PublisherName", "PublisherName", "text", _seller),
    Column("RegionId", "RegionId", "id", "f.region_code"),
    Column("RegionName", "RegionName", "text", "NULLIF(f.region, '')"),
    Column("ResourceId", "ResourceId", "id", "f.unit::text"),
    Column("ResourceName", "ResourceName", "text", "NULLIF(f.resource, '')"),
    Column("ResourceType", "ResourceType", "word", "CASE WHEN f.unit IS NOT NULL THEN 'GPU machine' END"),
    Column(
        "ServiceCategory", "ServiceCategory", "word",
        lambda: _by_meter({meter: pair[0] for meter, pair in SERVICES.items()}, "Compute"),
    ),
    Column(
        "ServiceName", "ServiceName", "word",
        lambda: _by_meter({meter: pair[1] for meter, pair in SERVICES.items()}, "GPU rental"),
    ),
    Column("SkuId", "SkuId", "id", "f.sku"),
    Column("SkuPriceId", "SkuPriceId", "id", "f.sku || '/' || f.meter"),
    Column("SubAccountId", "SubAccountId", "id", "f.project_id::text"),
    Column("SubAccountName", "SubAccountName", "text", "NULLIF(f.project, '')"),
)  # fmt: skip

TABLE = Table("focus", 1, "FOCUS", COLUMNS, (Total("BilledCost", "sum(f.cost_minor)"),))

_UNITS = """CASE l.meter WHEN 'card_hour' THEN round(l.quantity * l.seconds::numeric / 3600, 6)
    WHEN 'disk_gb_hour' THEN round(l.quantity * l.seconds::numeric / 3600, 6)
    ELSE (l.quantity * greatest(l.periods, 1))::numeric END"""
# A prepaid order has no period of its own: it is charged in the local month of its invoice.
_MONTH = "date_trunc('month', i.issued_at AT TIME ZONE o.zone)"


def rows(selection: Selection) -> Rows:
    where, values = selection.of_invoices()
    noted, more = selection.of_invoices(when="c.issued_at")
    return Rows(
        source=f"""(
            WITH lines AS (
                SELECT l.id, l.position, l.kind, l.meter, l.title, l.region, l.resource, l.project, l.period_start,
                       l.period_end, l.rate, l.tax_percent, l.amount_minor, l.tax_minor, {_UNITS} AS units,
                       i.id AS invoice_id, i.number, i.currency, i.issued_at, o.name AS organization,
                       o.key AS organization_key,
                       COALESCE(i.period_start, {_MONTH} AT TIME ZONE o.zone) AS billing_start,
                       COALESCE(i.period_end, ({_MONTH} + interval '1 month') AT TIME ZONE o.zone) AS billing_end,
                       s.unit, ol.offer_id, so.project_id
                  FROM billing_invoiceline l JOIN billing_invoice i ON i.id = l.invoice_id
                  JOIN accounts_organization o ON o.id = i.organization_id
                  LEFT JOIN orders_subscription s ON s.id = l.subscription_id
                  LEFT JOIN orders_orderline ol ON ol.id = l.order_line_id
                  LEFT JOIN orders_order so ON so.id = ol.order_id
                 WHERE i.status <> 'void'),
            parts AS (
                SELECT i.*, 'charge' AS part, i.amount_minor - i.tax_minor AS cost_minor, i.number AS document,
                       i.issued_at AS at
                  FROM lines i WHERE i.invoice_id IN (SELECT i.id FROM billing_invoice i WHERE {where})
                UNION ALL
                SELECT i.*, 'tax', i.tax_minor, i.number, i.issued_at
                  FROM lines i WHERE i.tax_minor <> 0
                   AND i.invoice_id IN (SELECT i.id FROM billing_invoice i WHERE {where})
                UNION ALL
                SELECT i.*, 'credit', -n.amount_minor, c.number, c.issued_at
                  FROM billing_creditnoteline n JOIN billing_creditnote c ON c.id = n.note_id
                  JOIN lines i ON i.id = n.line_id
                 WHERE EXISTS (SELECT 1 FROM billing_invoice i WHERE i.id = c.invoice_id AND {noted}))
            SELECT p.*, sold.slug AS sku, g.code AS region_code, COALESCE(pr.rate, p.rate) AS list_rate
              FROM parts p LEFT JOIN catalog_offer sold ON sold.id = p.offer_id
              LEFT JOIN catalog_region g ON g.id = sold.region_id
              LEFT JOIN LATERAL (
                SELECT rate FROM catalog_price
                 WHERE offer_id = p.offer_id AND meter = p.meter AND currency = p.currency
                   AND valid_from <= COALESCE(p.period_start, p.issued_at)
                   AND (valid_to IS NULL OR valid_to > COALESCE(p.period_start, p.issued_at))
                 ORDER BY valid_from DESC LIMIT 1) pr ON true) f""",
        order=("f.at", "f.document", "f.position", "f.part"),
        values=(*values, *values, *more),
        currency="f.currency",
    )  # fmt: skip
