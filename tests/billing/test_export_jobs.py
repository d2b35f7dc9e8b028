"""Large exports as jobs: one whole file whatever happens to the workers, kept for its days, fetched by its own."""

import csv
import io
import os
import signal
import subprocess
import sys
import threading
from datetime import datetime, timedelta

import openpyxl
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from billing import actions
from billing.actions import exporting
from billing.actions.exporting import ExportRefused
from billing.exports.selection import Selection
from billing.models import ExportEvent, ExportJob, Invoice
from marketplace.lib import clock
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, rental, used

pytestmark = pytest.mark.django_db(transaction=True)
Status = ExportJob.Status
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.EXPORT_FOLDER = tmp_path / "exports"
    settings.EXPORT_LEASE_SECONDS = 60
    settings.EXPORT_DAYS = 7
    return settings.EXPORT_FOLDER


def customer(name="福州智算", lines=3):
    """An organization with an issued invoice of so many lines."""
    of = factories.organization(name=name)
    for number in range(lines):
        used(rental(of, rate="2.50", name=f"训练-{number}"), NOVEMBER, NOVEMBER + HOUR)
    actions.draft_usage_invoices(at=DECEMBER + 30 * DAY)
    Invoice.objects.filter(organization=of, status="draft").update(drafted_at=NOVEMBER)
    for invoice in Invoice.objects.filter(organization=of, number=None):
        actions.issue(invoice_id=invoice.pk, at=DECEMBER + 30 * DAY)
    return of


def ask(of=None, *, kind="invoice_lines", shape="csv", at=DECEMBER, **narrowed):
    return exporting.request_export(
        kind=kind, shape=shape, selection=Selection(at=at, **narrowed), language="en", actor=factories.user(),
        address="203.0.113.7", at=at, organization=of,
    )  # fmt: skip


def run(job, at=DECEMBER):
    done = exporting.run_export(job_id=job.pk, at=at, now=lambda: at)
    job.refresh_from_db()
    return done


def read(job):
    return list(csv.DictReader(io.StringIO(exporting.file_of(job).read_text("utf-8-sig"), newline="")))


def test_a_job_leaves_one_whole_file_private_and_counted(folder):
    job = ask(customer())

    assert run(job)

    assert (job.status, job.rows_done, job.rows_total, job.attempts) == (Status.DONE, 3, 3, 1)
    assert [row["Rental or order"] for row in read(job)] == ["训练-0", "训练-1", "训练-2"]
    assert [path.name for path in folder.iterdir()] == [job.path]
    assert job.size == (folder / job.path).stat().st_size
    assert job.expires_at == DECEMBER + 7 * DAY
    assert folder.stat().st_mode & 0o077 == 0


def test_xlsx_and_language(folder):
    job = ask(customer(), shape="xlsx")
    ExportJob.objects.filter(pk=job.pk).update(language="zh-hans")

    assert run(job)

    book = openpyxl.load_workbook(folder / job.path)
    assert book.worksheets[0].max_row == 4


def test_asking_is_written_down():
    of = customer()
    job = ask(of, since=NOVEMBER)

    [event] = ExportEvent.objects.all()
    assert (event.job, event.kind, event.address, event.at) == (job, "requested", "203.0.113.7", DECEMBER)
    assert event.what == "invoice_lines.csv 福州智算"
    assert exporting.selection_of(job) == Selection(at=DECEMBER, organization_id=of.pk, since=NOVEMBER)


def test_a_list_of_invoices_is_kept_as_it_was_when_asked():
    of, other = customer(), customer("Acme")
    job = ask(invoices=Invoice.objects.filter(organization=of))
    Invoice.objects.filter(organization=of).update(push_error="changed meanwhile")

    assert run(job)

    assert {row["Organization"] for row in read(job)} == {"福州智算"}
    assert other.invoices.count() == 1


def test_a_customers_file_holds_its_own_rows_whatever_was_asked():
    of, other = customer(), customer("Acme")
    job = ask(of, organization_id=other.pk)

    assert run(job)

    assert {row["Organization"] for row in read(job)} == {"福州智算"}


@pytest.mark.parametrize("kind", ["ledger", "payments", "nonsense"])
def test_customers_get_what_is_theirs_to_have(kind):
    with pytest.raises(ExportRefused):
        ask(factories.organization(), kind=kind)
    assert ExportJob.objects.count() == ExportEvent.objects.count() == 0


def test_run_again_it_changes_nothing(folder):
    job = ask(customer())
    assert run(job)
    before = job.path

    assert not run(job, DECEMBER + HOUR)

    assert (job.path, job.attempts, len(list(folder.iterdir()))) == (before, 1, 1)


def test_two_workers_at_once_leave_one_file(folder):
    job = ask(customer())
    start, outcomes = threading.Barrier(2), []

    def work():
        try:
            start.wait()
            outcomes.append(exporting.run_export(job_id=job.pk, at=DECEMBER, now=lambda: DECEMBER))
        finally:
            connections.close_all()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    job.refresh_from_db()
    assert sorted(outcomes) == [False, True]
    assert (job.status, job.attempts, [path.name for path in folder.iterdir()]) == (Status.DONE, 1, [job.path])


def test_a_silent_job_is_taken_over_after_its_lease_and_not_before(folder):
    job = ask(customer())
    ExportJob.objects.filter(pk=job.pk).update(status=Status.RUNNING, attempts=1, lease_until=DECEMBER + HOUR)
    job.refresh_from_db()

    assert exporting.due_exports(at=DECEMBER + HOUR - DAY / 86400) == []
    assert not run(job, DECEMBER)
    assert exporting.due_exports(at=DECEMBER + HOUR) == [job.pk]
    assert run(job, DECEMBER + HOUR)
    assert (job.attempts, len(read(job))) == (2, 3)


def test_who_was_overtaken_stops_and_leaves_nothing(folder, monkeypatch):
    job = ask(customer())
    monkeypatch.setattr(exporting, "REPORT_SECONDS", -1)
    mine = exporting._Report.__call__

    def overtaken(self, rows):
        ExportJob.objects.filter(pk=job.pk).update(attempts=2, lease_until=DECEMBER + HOUR)
        mine(self, rows)

    monkeypatch.setattr(exporting._Report, "__call__", overtaken)

    assert not run(job)

    assert (job.status, job.attempts, job.path, list(folder.iterdir())) == (Status.RUNNING, 2, "", [])


def test_progress_renews_the_lease(monkeypatch):
    job = ask(customer())
    monkeypatch.setattr(exporting, "REPORT_SECONDS", -1)
    seen = []
    mine = exporting._Report.__call__

    def report(self, rows):
        mine(self, rows)
        seen.append(ExportJob.objects.values_list("status", "rows_done", "lease_until").get(pk=job.pk))

    monkeypatch.setattr(exporting._Report, "__call__", report)

    assert run(job)
    assert seen == [(Status.RUNNING, 3, DECEMBER + timedelta(seconds=60))]


def test_an_error_is_kept_tried_again_and_given_up_in_the_end(folder, monkeypatch):
    job = ask(customer())

    def broken(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(exporting, "write_csv", broken)
    at = DECEMBER
    for attempt in range(1, exporting.MOST_ATTEMPTS):
        assert not run(job, at)
        assert (job.status, job.attempts, job.error) == (Status.QUEUED, attempt, "OSError: disk full")
        at += exporting.WAIT
    assert not run(job, at)

    assert (job.status, job.error, list(folder.iterdir())) == (Status.FAILED, "OSError: disk full", [])
    assert exporting.due_exports(at=at + DAY) == []


KILLED = """
import os, signal, sys
import django
django.setup()
from billing.actions import exporting
from marketplace.lib import clock
at = exporting.ExportJob.objects.get(pk=int(sys.argv[1])).requested_at
left = int(sys.argv[2])
writer, replace = exporting.write_csv, exporting.Path.replace
def dying(table, rows, write, **rest):
    def piece(data):
        global left
        for byte in range(len(data)):
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            if data[byte] == 10:
                left -= 1
        write(data)
    return writer(table, rows, piece, **rest)
def dying_replace(part, whole):
    replace(part, whole)
    os.kill(os.getpid(), signal.SIGKILL)
exporting.write_csv = dying
if left > 3:
    exporting.Path.replace = dying_replace
exporting.run_export(job_id=int(sys.argv[1]), at=at, now=lambda: at)
"""


@pytest.mark.parametrize("lines", range(5))
def test_killed_at_any_line_it_ends_as_if_nothing_had_happened(folder, lines):
    job, other = ask(customer()), None
    environment = os.environ | {
        "DATABASE_URL": _database_url(),
        "EXPORT_FOLDER": str(folder),
        "DJANGO_SETTINGS_MODULE": "marketplace.settings",
    }
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(job.pk), str(lines)], env=environment, cwd=settings.BASE_DIR, check=False
    )
    job.refresh_from_db()
    assert (ended.returncode, job.status, job.path) == (-signal.SIGKILL, Status.RUNNING, "")

    later = DECEMBER + timedelta(seconds=60)
    assert exporting.due_exports(at=later) == [job.pk]
    assert run(job, later)

    assert (job.attempts, [row["Rental or order"] for row in read(job)]) == (2, ["训练-0", "训练-1", "训练-2"])
    # What the killed attempt left goes with the next sweep after a day.
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    exporting.expire_exports(at=later)
    assert [path.name for path in folder.iterdir()] == [job.path]
    assert other is None


def _database_url():
    values = connections["default"].settings_dict
    secret = f":{values['PASSWORD']}" if values["PASSWORD"] else ""
    return f"postgres://{values['USER']}{secret}@{values['HOST']}:{values['PORT']}/{values['NAME']}"


def test_files_are_deleted_when_their_days_are_over(folder):
    job = ask(customer())
    assert run(job)

    assert exporting.expire_exports(at=job.expires_at - HOUR) == 0
    assert exporting.file_of(job) is not None
    assert exporting.expire_exports(at=job.expires_at) == 1
    job.refresh_from_db()
    assert (job.status, job.path, exporting.file_of(job), list(folder.iterdir())) == (Status.EXPIRED, "", None, [])


# --- the console ----------------------------------------------------------------------------------------------------
def login(of):
    client = Client()
    client.cookies["django_language"] = "en"
    client.force_login(of.members.get(), backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_a_customer_asks_waits_and_fetches_and_a_stranger_finds_nothing():
    of, other = customer(), customer("Acme")
    client = login(of)
    form = {"kind": "focus", "shape": "csv", "since": "2026-11-01", "until": "2027-12-31"}

    answer = client.post(reverse("billing:exports"), form)

    assert (answer.status_code, answer.url) == (302, reverse("billing:exports"))
    job = ExportJob.objects.get()
    assert (job.organization, job.requested_by, job.rows_total) == (of, of.members.get(), 6)
    assert exporting.selection_of(job).since == datetime.fromisoformat("2026-11-01T00:00+08:00")
    assert exporting.selection_of(job).until == datetime.fromisoformat("2028-01-01T00:00+08:00")
    page = client.get(reverse("billing:exports"))
    assert page.headers["Refresh"] == "3"
    address = reverse("billing:export_file", args=[job.key])
    assert client.get(address).status_code == 404

    exporting.run_export(job_id=job.pk, at=timezone.now(), now=clock.now)

    page = client.get(reverse("billing:exports"))
    assert "Refresh" not in page.headers
    assert address in page.text
    fetched = client.get(address)
    body = b"".join(fetched)
    assert fetched.headers["Content-Disposition"].startswith('attachment; filename="focus-')
    assert int(fetched.headers["Content-Length"]) == len(body)
    assert body.startswith(b"BilledCost,")
    assert login(other).get(address).status_code == 404
    assert [(event.kind, event.actor, event.address) for event in ExportEvent.objects.all()] == [
        ("requested", of.members.get(), "127.0.0.1"),
        ("downloaded", of.members.get(), "127.0.0.1"),
    ]


def test_the_last_day_before_the_first_is_said_beside_the_field():
    of = customer()
    form = {"kind": "focus", "shape": "csv", "since": "2026-12-01", "until": "2026-11-30"}

    answer = login(of).post(reverse("billing:exports"), form)

    assert answer.status_code == 422
    assert "The last day is before the first one." in answer.text
    assert ExportJob.objects.count() == 0


def test_many_invoice_lines_become_a_job_in_the_console(settings):
    settings.EXPORT_ROWS_IN_REQUEST = 2
    of = customer()

    answer = login(of).get(reverse("billing:export", args=["xlsx"]))

    assert (answer.status_code, answer.url) == (302, reverse("billing:exports"))
    assert ExportJob.objects.get().rows_total == 3


def test_few_are_sent_at_once_and_written_down():
    of = customer()

    body = b"".join(login(of).get(reverse("billing:export", args=["csv"])))

    assert body.count(b"\n") == 4
    assert ExportJob.objects.count() == 0
    assert [(event.kind, event.what) for event in ExportEvent.objects.all()] == [
        ("requested", "invoice_lines.csv 福州智算: 3"),
        ("downloaded", "invoice_lines.csv 福州智算: 3"),
    ]


def test_nginx_sends_the_file_where_it_is_told_to(settings):
    settings.EXPORT_ACCEL_PREFIX = "/exports/"
    of = customer()
    job = ask(of)
    run(job)

    answer = login(of).get(reverse("billing:export_file", args=[job.key]))

    assert (answer.content, answer.headers["X-Accel-Redirect"]) == (b"", f"/exports/{job.path}")


def test_the_command_writes_every_kind(tmp_path, capsys):
    customer()
    call_command("export", "invoice_lines", str(tmp_path / "lines.csv"))
    call_command("export", "ageing", str(tmp_path / "ageing.xlsx"), "--at=2026-12-31T00:00:00+08:00")

    assert len((tmp_path / "lines.csv").read_text("utf-8-sig").splitlines()) == 4
    assert openpyxl.load_workbook(tmp_path / "ageing.xlsx").worksheets[0].max_row >= 1
    assert capsys.readouterr().out.splitlines()[0] == "3 rows"
