"""Finance takes away what is filtered: the right bytes, a line in the log, nobody else."""

import csv
import io

import openpyxl
import pytest
from django.contrib.admin.models import LogEntry
from django.urls import reverse

from billing.models import Invoice
from tests.desk import world

pytestmark = pytest.mark.django_db


def export(client, shape, **query):
    return client.post(reverse("admin:billing_invoice_export", args=[shape], query=query))


def test_the_csv_holds_the_filtered_invoices_with_their_lines(staff):
    finance = staff("finance")
    wanted, _other = world.invoice(), world.invoice()

    answer = export(finance, "csv", q=wanted.number)
    body = b"".join(answer)

    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="invoices-2')
    assert body.startswith("\ufeffInvoice number,".encode())
    [row] = csv.DictReader(io.StringIO(body.decode("utf-8-sig")))
    assert row["Invoice number"] == wanted.number
    assert row["Organization"] == wanted.organization.name
    log = LogEntry.objects.get()
    assert (log.user, log.change_message) == (finance.person, f"CSV: 1 (q={wanted.number})")


def test_the_xlsx_holds_every_invoice_when_nothing_is_filtered(staff):
    invoices = [world.invoice() for _ in range(3)]

    body = b"".join(export(staff("finance"), "xlsx"))

    book = openpyxl.load_workbook(io.BytesIO(body))
    numbers = {row[0].value for row in book.worksheets[0].iter_rows(min_row=2)}
    assert numbers == {invoice.number for invoice in invoices}
    assert LogEntry.objects.get().change_message == "XLSX: 3"


def test_chosen_rows_are_exported_by_the_list_action(staff):
    chosen, _other = world.invoice(), world.invoice()
    answer = staff("auditor").post(
        reverse("admin:billing_invoice_changelist"), {"action": "export_csv", "_selected_action": [chosen.pk]}
    )
    rows = list(csv.DictReader(io.StringIO(b"".join(answer).decode("utf-8-sig"))))
    assert [row["Invoice number"] for row in rows] == [chosen.number]


def test_a_filter_that_doubles_rows_doubles_nothing(staff):
    """The search looks at payments too: one invoice with two of them is still one invoice."""
    invoice = world.invoice()
    for number in ("A-1", "A-2"):
        invoice.payments.create(
            method="bank_transfer", reference=number, amount_minor=1, currency="CNY", received_at=world.NOVEMBER
        )
    rows = b"".join(export(staff("finance"), "csv", q="A-")).decode().strip().splitlines()
    assert len(rows) == 2


def test_an_export_is_for_those_who_may_see_invoices_and_by_post(staff):
    world.invoice()
    assert export(staff("operations"), "csv").status_code == 403
    finance = staff("finance")
    assert finance.get(reverse("admin:billing_invoice_export", args=["csv"])).status_code == 405
    assert export(finance, "pdf").status_code == 404
    assert export(finance, "csv", nonsense="1").status_code == 400
    assert LogEntry.objects.count() == 0
    assert Invoice.objects.count() == 1
