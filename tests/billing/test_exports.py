"""Files for finance: they open in Excel, run nothing, keep ids whole and add up."""

import csv
import io
from decimal import Decimal

import openpyxl
import pytest
from django.utils import translation

from billing import actions
from billing.exports import invoice_lines_csv, invoice_lines_xlsx
from billing.models import Invoice
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, order, rental, used

pytestmark = pytest.mark.django_db
EVIL = [
    '=HYPERLINK("http://x")',
    "+1+1",
    "-cmd|' /C calc'!A0",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "＝1+1",
    "－1",
    "＋1",
    "＠x",
]


@pytest.fixture
def books():
    """A CNY month with a correction, a paid CNY order, a USD month."""
    of = factories.organization(name="福州“智算”,科技")
    machine = rental(of, rate="2.505", name="训练-1")
    first = used(machine, NOVEMBER, NOVEMBER + HOUR)
    used(machine, NOVEMBER + 2 * HOUR, NOVEMBER + 30 * HOUR)
    used(rental(of, rate="3", name="train-2"), NOVEMBER, NOVEMBER + HOUR / 3600)
    credit = rental(of, rate="1.5", name="credited")
    wrong = used(credit, NOVEMBER, NOVEMBER + 2 * HOUR)
    used(credit, NOVEMBER, NOVEMBER + 2 * HOUR, reverses=wrong)
    used(rental(factories.organization(name="Acme", currency="USD"), rate="1.25"), NOVEMBER, NOVEMBER + 8 * HOUR)
    actions.draft_usage_invoices(at=DECEMBER)
    paid = actions.draft_order_invoice(order=order(of, at=DECEMBER), at=DECEMBER)
    actions.record_payment(
        invoice=paid, method="bank_transfer", reference="6222021234567890123", amount_minor=128_000, currency="CNY",
        received_at=DECEMBER,
    )  # fmt: skip
    assert first.seconds == 3600
    return Invoice.objects.all()


def read_csv(invoices, language="en"):
    with translation.override(language):
        raw = b"".join(invoice_lines_csv(invoices))
    assert raw.startswith(b"\xef\xbb\xbf")
    assert b"\r\n" not in raw
    return list(csv.DictReader(io.StringIO(raw.decode("utf-8-sig"), newline="")))


def read_xlsx(invoices, language="en"):
    file = io.BytesIO()
    with translation.override(language):
        invoice_lines_xlsx(invoices, file)
    return openpyxl.load_workbook(file)


def test_csv_has_a_row_a_line_and_adds_up(books):
    found = read_csv(books)

    assert len(found) == sum(invoice.lines.count() for invoice in books)
    for currency in ("CNY", "USD"):
        of_currency = [row for row in found if row["Currency"] == currency]
        total = sum(invoice.total_minor for invoice in books if invoice.currency == currency)
        assert sum(Decimal(row["Amount with tax"]) for row in of_currency) * 100 == total
        assert sum(Decimal(row["Invoice total (first line only)"] or 0) for row in of_currency) * 100 == total
        for row in of_currency:
            assert Decimal(row["Amount without tax"]) + Decimal(row["Tax"]) == Decimal(row["Amount with tax"])
    (usage,) = [row for row in found if row["Rental or order"] == "训练-1"]
    assert usage["Amount with tax"] == "72.65"  # 29 h × 2.505 = 72.645
    assert (usage["Hours"], usage["Unit price"], usage["Tax rate (%)"]) == ("29.000000", "2.505", "6")
    assert (usage["Period from"], usage["Period to (exclusive)"]) == ("2026-11-01 00:00:00", "2026-12-01 00:00:00")
    assert usage["Organization"] == "福州“智算”,科技"
    (prepaid,) = [row for row in found if row["Kind"] == "Prepaid order"]
    assert (prepaid["Paid (first line only)"], prepaid["Outstanding (first line only)"]) == ("1280.00", "0.00")


def test_digits_that_a_spreadsheet_would_round_are_marked_as_text(books):
    found = read_csv(books)

    assert {row["Tax code"] for row in found} == {"\t3040203000000000000"}
    (prepaid,) = [row for row in found if row["Kind"] == "Prepaid order"]
    assert prepaid["Payment references"] == "\t6222021234567890123"


@pytest.mark.parametrize("name", EVIL)
def test_text_never_runs_and_negative_numbers_stay_numbers(name):
    of = factories.organization(name=name)
    machine = rental(of, rate="100", name="-machine")
    wrong = used(machine, NOVEMBER, NOVEMBER + HOUR)
    actions.draft_usage_invoices(at=DECEMBER)
    other = rental(of, rate="500", name="other")
    used(other, DECEMBER, DECEMBER + HOUR)
    used(machine, NOVEMBER, NOVEMBER + HOUR, reverses=wrong)
    actions.draft_usage_invoices(at=DECEMBER + 31 * 24 * HOUR)

    rows = read_csv(Invoice.objects.all())
    sheet = read_xlsx(Invoice.objects.all()).worksheets[0]

    assert {row["Organization"] for row in rows} == {"'" + name}
    assert "-100.00" in {row["Amount with tax"] for row in rows}
    head = [cell.value for cell in sheet[1]]
    for row in sheet.iter_rows(min_row=2):
        cells = dict(zip(head, row, strict=True))
        assert (cells["Organization"].data_type, cells["Rental or order"].data_type) == ("s", "s")
        assert cells["Amount with tax"].data_type == "n"
    assert -100 in [dict(zip(head, row, strict=True))["Amount with tax"].value for row in sheet.iter_rows(min_row=2)]


def test_xlsx_round_trip_with_control_totals(books):
    book = read_xlsx(books)
    lines, totals = book.worksheets

    head = [cell.value for cell in lines[1]]
    rows = [dict(zip(head, row, strict=True)) for row in lines.iter_rows(min_row=2, values_only=True)]
    assert (lines.title, totals.title) == ("Invoice lines", "Control totals")
    assert {row["Tax code"] for row in rows} == {"3040203000000000000"}
    (prepaid,) = [row for row in rows if row["Kind"] == "Prepaid order"]
    assert prepaid["Payment references"] == "6222021234567890123"
    heads, *of_currencies = totals.iter_rows(values_only=True)
    control = {row[0]: dict(zip(heads, row, strict=True)) for row in of_currencies}
    assert set(control) == {"CNY", "USD"}
    for currency, sums in control.items():
        mine = [row for row in rows if row["Currency"] == currency]
        issued = [invoice for invoice in books if invoice.currency == currency]
        gross = sum(Decimal(str(row["Amount with tax"])) for row in mine)
        assert (sums["Invoices"], sums["Lines"]) == (len(issued), len(mine))
        assert Decimal(str(sums["Amount with tax"])) == Decimal(str(sums["Sum of invoice totals"])) == gross
        assert gross * 100 == sum(invoice.total_minor for invoice in issued)
        assert round(sums["Amount without tax"] + sums["Tax"] - sums["Amount with tax"], 6) == 0
        assert round(sums["Paid"] + sums["Outstanding"] - sums["Amount with tax"], 6) == 0
        assert (sums["Credited"], sums["Difference"]) == (0, 0)


def test_headers_and_states_speak_chinese_when_asked(books):
    with translation.override("zh-hans"):
        expected = translation.gettext("Invoice number")
    (first, *_rest) = read_csv(books, "zh-hans")

    assert expected in first


def test_only_the_invoices_asked_for(books):
    wanted = books.filter(currency="USD")[:1]

    assert [row["Organization"] for row in read_csv(wanted)] == ["Acme"]


def test_no_invoices_is_a_header_alone():
    assert read_csv(Invoice.objects.none()) == []
    assert read_xlsx(Invoice.objects.none()).worksheets[1].max_row == 1
