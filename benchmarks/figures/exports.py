"""The finance desk's large files: a CSV job against a bare COPY of the same columns, XLSX against XlsxWriter."""

from __future__ import annotations

import csv
import gc
import http.client
import re
import time
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import xlsxwriter
from django.conf import settings
from django.db import connection

from accounts.models import Organization
from benchmarks import world
from benchmarks.machine import PRODUCT, Machine
from benchmarks.rounds import Sample, compare
from benchmarks.table import Row, Wrong
from billing.actions import account_of, exporting
from billing.exports import to_xlsx
from billing.exports.kinds import invoice_lines
from billing.exports.reading import one_moment
from billing.exports.selection import Selection
from billing.exports.table import select
from billing.models import ExportJob
from marketplace.lib import clock

CSV_LINES, XLSX_LINES = 1_000_000, 200_000
LINES_AN_INVOICE = 15
CSV_TARGET, XLSX_TARGET = 1.30, 0.15
FIRST_BYTE_SECONDS = 0.100
MEMORY_MIB = 16
# One of XlsxWriter's takes a minute.
ROUNDS, XLSX_ROUNDS = 5, 3


def measure_csv(machine: Machine) -> Row:
    buyer = world.buyer(300)
    _write_lines(buyer.organization, CSV_LINES)
    bare = machine.folder / "bare.csv"
    grown: list[float] = []
    result = compare(
        lambda: _timed(CSV_LINES, lambda: _memory_of(lambda: _job(buyer), grown)),
        lambda: _timed(CSV_LINES, lambda: _bare_copy(bare)),
        rounds=ROUNDS,
    )
    job = ExportJob.objects.latest("pk")
    _check_csv(settings.EXPORT_FOLDER / job.path)
    first = _first_byte(machine, buyer, job)
    if max(grown) > MEMORY_MIB or first > FIRST_BYTE_SECONDS:
        raise Wrong(f"memory grew by {max(grown):.1f} MiB, the first byte took {first * 1000:.0f} ms")
    return Row(
        "csv",
        f"{CSV_LINES / result.ours.rate:.2f} s",
        f"{CSV_LINES / result.reference.rate:.2f} s",
        1 / result.ratio,
        CSV_TARGET,
        note=f"{CSV_LINES:,} lines by a job ÷ COPY TO of the stored columns; memory +{max(grown):.1f} MiB, file "
        f"{job.size >> 20} MiB, first byte {first * 1000:.0f} ms; median of {ROUNDS} rounds",
        at_most=True,
    )


def measure_xlsx(machine: Machine) -> Row:
    buyer = world.buyer(301)
    _write_lines(buyer.organization, XLSX_LINES)
    ours, theirs = machine.folder / "ours.xlsx", machine.folder / "xlsxwriter.xlsx"
    grown: list[float] = []
    result = compare(
        lambda: _timed(XLSX_LINES, lambda: _memory_of(lambda: _xlsx(buyer.organization, ours), grown)),
        lambda: _timed(XLSX_LINES, lambda: _xlsxwriter(buyer.organization, theirs)),
        rounds=XLSX_ROUNDS,
    )
    _same_rows(ours, theirs)
    if max(grown) > MEMORY_MIB:
        raise Wrong(f"memory grew by {max(grown):.1f} MiB")
    return Row(
        "xlsx",
        f"{XLSX_LINES / result.ours.rate:.2f} s",
        f"{XLSX_LINES / result.reference.rate:.2f} s",
        1 / result.ratio,
        XLSX_TARGET,
        note=f"{XLSX_LINES:,} lines of {len(invoice_lines.COLUMNS)} columns ÷ XlsxWriter constant_memory, the same "
        f"cells; memory +{max(grown):.1f} MiB, file {ours.stat().st_size >> 20} MiB; median of {XLSX_ROUNDS} rounds",
        at_most=True,
    )


# --- ours -----------------------------------------------------------------------------------------------------------
def _selection(organization: Organization) -> Selection:
    return Selection(at=clock.now(), organization_id=organization.pk)


def _job(buyer: world.Buyer) -> None:
    at = clock.now()
    job = exporting.request_export(
        kind="invoice_lines", shape="csv", selection=_selection(buyer.organization), language="en", actor=buyer.user,
        address=None, at=at, organization=buyer.organization, rows=CSV_LINES,
    )  # fmt: skip
    if not exporting.run_export(job_id=job.pk, at=at, now=clock.now):
        job.refresh_from_db()
        raise Wrong(f"the job is {job.status}: {job.error}")


def _xlsx(organization: Organization, path: Path) -> None:
    with path.open("wb") as file, one_moment() as cursor:
        written = to_xlsx.write_xlsx(
            invoice_lines.TABLE, invoice_lines.rows(_selection(organization)), file, cursor=cursor
        )
    if written != XLSX_LINES:
        raise Wrong(f"{written} rows were written")


# --- what they are held against ---------------------------------------------------------------------------------------
def _bare_copy(path: Path) -> None:
    """The columns as they are stored, the same joins, in no order."""
    rows = invoice_lines.rows(_selection(Organization.objects.latest("pk")))
    source, _where, condition = rows.source.rpartition("WHERE ")
    query = f"SELECT {_STORED} FROM {source} JOIN billing_invoiceline l ON l.invoice_id = i.id WHERE {condition}"
    with one_moment() as cursor, path.open("wb") as file:
        cursor.copy_expert(f"COPY ({cursor.mogrify(query, rows.values).decode()}) TO STDOUT WITH (FORMAT csv)", file)
        if cursor.rowcount != CSV_LINES:
            raise Wrong(f"COPY wrote {cursor.rowcount} rows")


_STORED = """i.number, i.status, i.kind, o.name, o.key,
    i.buyer ->> 'title', i.buyer ->> 'tax_id', i.buyer ->> 'address',
    i.buyer ->> 'phone', i.buyer ->> 'bank', i.buyer ->> 'bank_account', a.email, i.currency, i.period_start,
    i.period_end, i.issued_at, i.due_at, i.paid_at, l.position, l.kind, l.title, l.region, l.resource, l.project,
    l.meter, l.quantity, l.seconds, l.periods, l.period_start, l.period_end, l.rate, l.amount_minor, l.tax_percent,
    l.tax_minor, l.amount_minor, l.tax_code, i.total_minor, i.credited_minor, i.paid_minor, p.wallet, i.gift_minor,
    i.total_minor, i.collection, p.methods, p.payment_references, i.stripe_invoice_id, c.numbers, f.number, f.serial,
    f.issued_on, f.status, f.red_number, so.id, q.number, u.email"""


def _xlsxwriter(organization: Organization, path: Path) -> None:
    """The same cells row by row, as the library is meant to be used for large files."""
    table, rows = invoice_lines.TABLE, invoice_lines.rows(_selection(organization))
    with xlsxwriter.Workbook(str(path), to_xlsx.OPTIONS) as book, one_moment() as cursor:
        shapes = {kind: book.add_format({"num_format": shape}) for kind, shape in to_xlsx.SHAPES.items()}
        sheet = book.add_worksheet("lines")
        for position, header in enumerate(table.headers):
            sheet.write_string(0, position, header)
        kinds = [(column.kind in to_xlsx.NUMBERS, shapes.get(column.kind)) for column in table.columns]
        reading = cursor.connection.cursor("reading")
        reading.itersize = 2000
        reading.execute(_values(), rows.values)
        for number, values in enumerate(reading, start=1):
            for position, (value, (is_number, shape)) in enumerate(zip(values, kinds, strict=True)):
                if value is not None:
                    (sheet.write_number if is_number else sheet.write_string)(number, position, value, shape)
        reading.close()


def _values() -> str:
    """What ours writes, a column each: heads worked out once, as for ours."""
    rows = invoice_lines.rows(_selection(Organization.objects.latest("pk")))
    columns = invoice_lines.COLUMNS
    heads = [f"{column.expression()} AS x_{column.key}" for column in columns if column.level != "row"]
    shown = {"head": "head.x_{0}", "first": f"CASE WHEN {rows.first} THEN head.x_{{0}} END"}
    return select(
        rows, heads, [shown[c.level].format(c.key) if c.level != "row" else f"{c.expression()}" for c in columns]
    )


# --- that they did their work -----------------------------------------------------------------------------------------
def _check_csv(path: Path) -> None:
    """Every line once, in order, and the amounts add up to the books'."""
    total, last, rows = Decimal(0), ("", 0), 0
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            place = (row["Invoice number"], int(row["Line"]))
            if place <= last:
                raise Wrong(f"{place} follows {last}")
            last, rows = place, rows + 1
            total += Decimal(row["Amount with tax"])
    ((wanted,),) = _execute("SELECT sum(amount_minor) FROM billing_invoiceline")
    if rows != CSV_LINES or total * 100 != wanted:
        raise Wrong(f"{rows} lines over {total}, the books have {CSV_LINES} over {wanted} minor units")


def _same_rows(ours: Path, theirs: Path) -> None:
    """Both files hold the same texts and numbers, cell by cell, in the first and the last thousand rows."""
    left, right = (_some_cells(path) for path in (ours, theirs))
    if left != right:
        raise Wrong("the two files differ")


def _some_cells(path: Path) -> list[list[str]]:
    with zipfile.ZipFile(path) as book:
        rows = re.findall(rb"<row[ >].*?</row>", book.read("xl/worksheets/sheet1.xml"), re.DOTALL)
    if len(rows) != XLSX_LINES + 1:
        raise Wrong(f"{path.name} has {len(rows)} rows")
    return [
        [cell.decode() for cell in re.findall(rb"<(?:v|t)(?: [^>]*)?>([^<]*)</", row)]
        for row in (*rows[1:1000], *rows[-1000:])
    ]


def _first_byte(machine: Machine, buyer: world.Buyer, job: ExportJob) -> float:
    """Median seconds until the finished file's first byte, from the product's own web server."""
    web = machine.web(PRODUCT)
    where = urlsplit(web.url)
    path = f"/console/billing/exports/{job.key}/"
    cookies = "; ".join(f"{name}={value}" for name, value in buyer.cookies.items())
    taken = []
    for _ in range(5):
        asked = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
        started = time.perf_counter()
        asked.request("GET", path, headers={"Cookie": cookies, "Host": where.hostname or ""})
        answer = asked.getresponse()
        answer.read(1)
        taken.append(time.perf_counter() - started)
        if answer.status != 200 or int(answer.headers["Content-Length"]) != job.size:
            raise Wrong(f"the file was answered with {answer.status}")
        asked.close()
    return sorted(taken)[2]


# --- measuring --------------------------------------------------------------------------------------------------------
def _timed(lines: int, act: Callable[[], Any]) -> Sample:
    started = time.perf_counter()
    act()
    return Sample(lines / (time.perf_counter() - started))


def _memory_of(act: Callable[[], Any], grown: list[float]) -> None:
    """Do it and note by how many MiB this process's peak rose above where it stood."""
    gc.collect()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    act()
    grown.append((_status("VmHWM") - before) / 1024)


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


# --- the books --------------------------------------------------------------------------------------------------------
def _write_lines(organization: Organization, lines: int) -> None:
    """Issued, half of them paid invoices of fifteen lines each, with nothing else in the books."""
    account = account_of(organization=organization)
    values = {"organization": organization.pk, "account": account.pk, "lines": lines, "each": LINES_AN_INVOICE}
    _execute("TRUNCATE billing_invoice, billing_invoiceline, billing_payment CASCADE")
    # Copies of what the triggers would have let through; they are measured elsewhere.
    _execute("SET session_replication_role = replica")
    for insert in (_INVOICES, _LINES, _TOTALS, _PAYMENTS):
        _execute(insert, **values)
    _execute("SET session_replication_role = DEFAULT")
    _execute("VACUUM ANALYZE billing_invoice, billing_invoiceline, billing_payment")


def _execute(query: str, **values: object) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        return cursor.fetchall() if cursor.description else []


_INVOICES = """
INSERT INTO billing_invoice (key, account_id, organization_id, kind, number, status, collection, currency, period_start,
    period_end, total_minor, tax_minor, paid_minor, gift_minor, credited_minor, buyer, drafted_at, issued_at, due_at,
    paid_at, stripe_invoice_id, hosted_url, push_version, push_attempts, push_error)
SELECT gen_random_uuid(), %(account)s, %(organization)s, 'usage', 'INV-2026-' || lpad(n::text, 7, '0'),
       CASE WHEN n %% 2 = 0 THEN 'paid' ELSE 'open' END, 'stripe', 'CNY', start, start + interval '1 month',
       0, 0, 0, 0, 0, jsonb_build_object('title', '福州智算科技有限公司 ' || n, 'tax_id', '91350100MA' || n),
       start + interval '1 month', start + interval '33 days' + n * interval '1 s', start + interval '48 days',
       CASE WHEN n %% 2 = 0 THEN start + interval '40 days' END, 'in_' || n, '', 1, 1, ''
  FROM generate_series(1, (%(lines)s + %(each)s - 1) / %(each)s) n,
       LATERAL (SELECT '2020-01-01 00:00+08'::timestamptz + n * interval '1 minute' AS start) s"""

_LINES = """
INSERT INTO billing_invoiceline (key, invoice_id, position, kind, meter, title, region, resource, project, quantity,
    seconds, periods, rate, amount_minor, tax_percent, tax_minor, tax_code, period_start, period_end)
SELECT gen_random_uuid(), i.id, 1 + (n - 1) %% %(each)s, 'recurring', 'card_hour', 'NVIDIA H800 & NVLink 8 卡', '福州',
       'train-' || n, '默认项目', 1 + n %% 8, 3600 + n %% 2000000, 0, 2 + (n %% 97) / 100.0, n %% 1000000 - 100, 6,
       (n %% 1000000 - 100) * 6 / 106, '3040203000000000000', i.period_start, i.period_end
  FROM generate_series(1, %(lines)s) n
  JOIN billing_invoice i ON i.number = 'INV-2026-' || lpad(((n - 1) / %(each)s + 1)::text, 7, '0')"""

_TOTALS = """
UPDATE billing_invoice i SET total_minor = s.total, tax_minor = s.tax,
       paid_minor = CASE WHEN status = 'paid' THEN s.total ELSE 0 END
  FROM (SELECT invoice_id, greatest(sum(amount_minor), 0) AS total, greatest(sum(tax_minor), 0) AS tax
          FROM billing_invoiceline GROUP BY invoice_id) s WHERE s.invoice_id = i.id"""

_PAYMENTS = """
INSERT INTO billing_payment (invoice_id, method, reference, amount_minor, currency, received_at)
SELECT id, 'stripe', 'pi_' || id, greatest(paid_minor, 1), currency, paid_at
  FROM billing_invoice WHERE status = 'paid'"""
