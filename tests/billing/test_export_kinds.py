"""Every kind of export: its headers as they are promised, its figures from the books, empty ones too."""

import csv
import io
from datetime import timedelta
from decimal import Decimal

import openpyxl
import pytest
from django.db import transaction
from django.utils import translation

from billing import actions, ledger
from billing.exports.catalogue import EXPORTS
from billing.exports.download import written
from billing.exports.selection import Selection
from billing.models import BillingAccount, Book, Invoice, Posting, TopUp
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, order

pytestmark = pytest.mark.django_db


def table(key, shape="csv", language="en", *, for_machines=True, at=DECEMBER + HOUR, **narrowed):
    """The rows of an export as dictionaries."""
    export = EXPORTS[key]
    with translation.override(language):
        rows = export.rows(Selection(at=at, **narrowed))
        data = b"".join(written(export.table, rows, shape=shape, for_machines=for_machines))
    if shape == "csv":
        return list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    head, *body = openpyxl.load_workbook(io.BytesIO(data)).worksheets[0].iter_rows(values_only=True)
    return [dict(zip(head, row, strict=True)) for row in body]


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("shape", ["csv", "xlsx"])
@pytest.mark.parametrize("key", EXPORTS)
def test_an_empty_export_is_its_headers(key, shape, language):
    assert table(key, shape, language, organization_id=1, currency="CNY", since=NOVEMBER, until=DECEMBER) == []


HEADERS = {
    ("voucher", 1): "日期,凭证字,凭证号,分录号,摘要,科目编码,科目名称,借方金额,贷方金额,币种,汇率,客户编码,客户名称",
    ("xero", 1): "*ContactName,EmailAddress,POAddressLine1,POAddressLine2,POAddressLine3,POAddressLine4,POCity,"
    "PORegion,POPostalCode,POCountry,*InvoiceNumber,Reference,*InvoiceDate,*DueDate,InventoryItemCode,*Description,"
    "*Quantity,*UnitAmount,Discount,*AccountCode,*TaxType,TrackingName1,TrackingOption1,TrackingName2,TrackingOption2,"
    "Currency,BrandingTheme",
    ("quickbooks", 1): "*InvoiceNo,*Customer,*InvoiceDate,*DueDate,Terms,Location,Memo,Item(Product/Service),"
    "ItemDescription,ItemQuantity,ItemRate,*ItemAmount,ItemTaxCode,ItemTaxAmount,Currency",
    ("focus", 1): "BilledCost,BillingAccountId,BillingAccountName,BillingCurrency,BillingPeriodEnd,BillingPeriodStart,"
    "ChargeCategory,ChargeClass,ChargeDescription,ChargeFrequency,ChargePeriodEnd,ChargePeriodStart,ConsumedQuantity,"
    "ConsumedUnit,ContractedCost,ContractedUnitPrice,EffectiveCost,InvoiceId,InvoiceIssuerName,ListCost,ListUnitPrice,"
    "PricingCategory,PricingQuantity,PricingUnit,ProviderName,PublisherName,RegionId,RegionName,ResourceId,"
    "ResourceName,ResourceType,ServiceCategory,ServiceName,SkuId,SkuPriceId,SubAccountId,SubAccountName",
    ("ledger", 1): "Posting,Booked on,Happened at,Kind,Fact,Organization,Organization ID,Invoice number,Book,Currency,"
    "Debit,Credit,By,Note",
    ("payments", 1): "Received or sent at,Kind,Organization,Organization ID,Method,Reference,Payer,Invoice number,"
    "Currency,Amount,Of it cash,Recorded by",
    ("ageing", 1): "Organization,Organization ID,Currency,Open invoices,Not due yet,1–30 days overdue,"
    "31–60 days overdue,61–90 days overdue,More than 90 days overdue,Total,Oldest due date,As of",
}


@pytest.mark.parametrize(("key", "version"), HEADERS)
def test_headers_stand_as_their_version_promised(key, version):
    export = EXPORTS[key]
    with translation.override("en"):
        data = b"".join(written(export.table, export.rows(Selection(at=DECEMBER)), shape="csv", for_machines=True))

    assert (export.table.version, data.decode()) == (version, HEADERS[key, version] + "\n")


def post(of, *, kind="issue", fact, entries, at, invoice=None):
    with transaction.atomic():
        account = BillingAccount.objects.select_for_update().get(organization=of)
        assert ledger.post(
            account=account, kind=Posting.Kind(kind), fact=fact, entries=entries, at=at, currency=of.currency,
            invoice=invoice,
        )  # fmt: skip


@pytest.fixture
def books():
    """An order by the month over 1,280.00, invoiced and posted at the first of November."""
    of = factories.organization(name="=福州,“智算”")
    invoice = actions.draft_order_invoice(order=order(of, at=NOVEMBER), at=NOVEMBER)
    entries = {Book.RECEIVABLE: 128_000, Book.REVENUE: -120_755, Book.TAX: -7_245}
    if not Posting.objects.exists():
        post(of, fact=f"i{invoice.pk}", entries=entries, at=NOVEMBER, invoice=invoice)
    invoice.refresh_from_db()
    return invoice


def test_vouchers_balance_and_name_the_accounts(books):
    found = table("voucher")

    assert [
        (row["日期"], row["凭证字"], row["凭证号"], row["分录号"], row["科目编码"], row["借方金额"], row["贷方金额"])
        for row in found
    ] == [
        ("2026-11-01", "记", "1", "1", "1122", "1280.00", "0.00"),
        ("2026-11-01", "记", "1", "2", "6001", "0.00", "1207.55"),
        ("2026-11-01", "记", "1", "3", "2221.01.07", "0.00", "72.45"),
    ]
    assert [row["科目名称"] for row in found] == ["应收账款", "主营业务收入", "应交税费—应交增值税（销项税额）"]
    assert {(row["汇率"], row["客户名称"], row["币种"]) for row in found} == {("1", "'=福州,“智算”", "CNY")}
    assert {row["摘要"] for row in found} == {f"Invoice issued {books.number}"}


def test_the_ledger_is_cut_at_the_companys_midnight(books):
    assert len(table("ledger", since=NOVEMBER, until=NOVEMBER + 24 * HOUR)) == 3
    assert table("ledger", since=NOVEMBER + 24 * HOUR) == table("ledger", until=NOVEMBER) == []
    [debit, *_credits] = table("ledger")
    assert (debit["Book"], debit["Debit"], debit["Credit"]) == ("Receivable", "1280.00", "0.00")


@pytest.mark.parametrize(
    ("days", "bucket"),
    [
        (0, "Not due yet"), (1, "1–30 days overdue"), (30, "1–30 days overdue"),
        (31, "31–60 days overdue"), (60, "31–60 days overdue"), (61, "61–90 days overdue"),
        (90, "61–90 days overdue"), (91, "More than 90 days overdue"), (400, "More than 90 days overdue"),
    ],
)  # fmt: skip
def test_ageing_counts_local_days_since_the_due_date(books, days, bucket):
    [row] = table("ageing", at=books.due_at + timedelta(days=days))

    assert row["Total"] == row[bucket] == "1280.00"
    assert [row[title] for title in row if "due" in title.lower() and row[title] == "0.00"].__len__() == 4


def test_ageing_is_of_its_instant(books):
    of = books.organization
    paid_at = books.due_at + 5 * 24 * HOUR
    entries = {Book.CASH: 100_000, Book.RECEIVABLE: -100_000}
    post(of, kind="payment", fact="p", entries=entries, at=paid_at, invoice=books)

    assert table("ageing", at=NOVEMBER - HOUR) == []
    assert [row["Total"] for row in table("ageing", at=paid_at - HOUR)] == ["1280.00"]
    assert [row["Total"] for row in table("ageing", at=paid_at)] == ["280.00"]
    post(of, kind="payment", fact="q", entries={Book.CASH: 28_000, Book.RECEIVABLE: -28_000}, at=paid_at, invoice=books)
    assert table("ageing", at=paid_at) == []


def test_focus_adds_up_to_the_invoice_with_tax_apart(books):
    found = table("focus")

    assert [(row["ChargeCategory"], row["BilledCost"]) for row in found] == [("Purchase", "1207.55"), ("Tax", "72.45")]
    assert sum(Decimal(row["BilledCost"]) for row in found) * 100 == books.total_minor
    charge = found[0]
    assert (charge["BillingPeriodStart"], charge["BillingPeriodEnd"]) == (
        "2026-10-31T16:00:00Z",
        "2026-11-30T16:00:00Z",
    )
    assert (charge["PricingQuantity"], charge["PricingUnit"], charge["ConsumedQuantity"]) == ("1", "Card-Months", "")
    assert (charge["ServiceCategory"], charge["ServiceName"]) == ("Compute", "GPU rental")
    assert (charge["ContractedCost"], charge["EffectiveCost"]) == ("1207.55", "1207.55")
    assert charge["InvoiceId"] == books.number
    assert charge["BillingAccountName"] == "'=福州,“智算”"
    assert table("focus", organization_id=books.organization_id + 1) == []


def test_xero_and_quickbooks_take_the_same_invoice(books):
    [xero], [quickbooks] = table("xero"), table("quickbooks")

    assert (xero["*ContactName"], xero["*InvoiceNumber"]) == ("'=福州,“智算”", books.number)
    assert (xero["*Quantity"], xero["*UnitAmount"], xero["*InvoiceDate"]) == ("1", "1280.00", "2026-11-01")
    assert (quickbooks["*ItemAmount"], quickbooks["ItemTaxAmount"]) == ("1207.55", "72.45")


def test_payments_show_cash_apart(books):
    of = books.organization
    TopUp.objects.create(
        account=of.billing_account, request_key="k", status="paid", amount_minor=50_000, currency="CNY",
        created_at=NOVEMBER, paid_at=NOVEMBER + HOUR, payment_intent="pi_1",
    )  # fmt: skip
    books.payments.create(
        method="wallet", reference="w-1", amount_minor=10_000, currency="CNY", received_at=NOVEMBER + 2 * HOUR
    )
    rows = table("payments", shape="xlsx")

    assert [(row["Kind"], row["Reference"], row["Amount"], row["Of it cash"]) for row in rows] == [
        ("Top-up", "pi_1", 500, 500), ("Payment of an invoice", "w-1", 100, 0),
    ]  # fmt: skip


def test_invoices_are_cut_at_the_instant_of_issue(books):
    assert len(table("invoice_lines", since=NOVEMBER, until=NOVEMBER + HOUR)) == 1
    assert table("invoice_lines", until=NOVEMBER) == table("invoice_lines", since=NOVEMBER + HOUR) == []
    assert Invoice.objects.count() == 1
