"""Large exports at the desk: asked for by form or list, watched, fetched by those who may see what is in them."""

import pytest
from django.urls import reverse

from billing.actions import exporting
from billing.models import ExportEvent, ExportJob
from marketplace.lib import clock
from tests.desk import world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.EXPORT_FOLDER = tmp_path / "exports"


def finished():
    job = ExportJob.objects.get()
    assert exporting.run_export(job_id=job.pk, at=clock.now(), now=clock.now)
    return job


def test_a_long_list_of_invoices_becomes_a_job_of_just_these(staff, settings):
    settings.EXPORT_ROWS_IN_REQUEST = 0
    finance = staff("finance")
    wanted, _other = world.invoice(), world.invoice()

    answer = finance.post(reverse("admin:billing_invoice_export", args=["csv"], query={"q": wanted.number}))

    job = ExportJob.objects.get()
    page = reverse("admin:billing_exportjob_change", args=[job.pk])
    assert (answer.status_code, answer.url) == (302, page)
    assert (job.rows_total, job.params["invoices"], job.params["filters"]) == (1, [wanted.pk], f"q={wanted.number}")
    watched = finance.get(page)
    assert (watched.headers["Refresh"], "0 / 1" in watched.text) == ("3", True)

    finished()

    assert "Refresh" not in finance.get(page).headers
    body = b"".join(finance.get(reverse("admin:billing_exportjob_file", args=[job.pk])))
    assert body.decode("utf-8-sig").count(wanted.number) == 1
    assert body.count(b"\n") == 2
    assert [(event.kind, event.actor, event.address) for event in ExportEvent.objects.all()] == [
        ("requested", finance.person, "127.0.0.1"),
        ("downloaded", finance.person, "127.0.0.1"),
    ]


def test_an_export_is_asked_for_by_form_over_the_companys_days(staff):
    finance = staff("finance")
    invoice = world.invoice()
    form = {"kind": "invoice_lines", "shape": "csv", "since": "2026-11-01", "until": "2026-11-01"}

    answer = finance.post(reverse("admin:billing_exportjob_new"), form)

    job = ExportJob.objects.get()
    assert (answer.status_code, job.rows_total) == (302, 1)
    assert (job.params["since"], job.params["until"]) == ("2026-10-31T16:00:00+00:00", "2026-11-01T16:00:00+00:00")
    finished()
    assert invoice.number.encode() in b"".join(finance.get(reverse("admin:billing_exportjob_file", args=[job.pk])))


def test_each_may_ask_for_and_fetch_only_what_they_may_see(staff):
    finance, sales, operations = staff("finance"), staff("sales"), staff("operations")
    finance.post(reverse("admin:billing_exportjob_new"), {"kind": "ledger", "shape": "xlsx"})
    job = finished()
    file = reverse("admin:billing_exportjob_file", args=[job.pk])

    assert b"".join(finance.get(file)).startswith(b"PK")
    assert sales.get(file).status_code == operations.get(file).status_code == 403
    refused = sales.post(reverse("admin:billing_exportjob_new"), {"kind": "ledger", "shape": "csv"})
    assert refused.status_code == 422
    assert operations.get(reverse("admin:billing_exportjob_new")).status_code == 403
    assert ExportJob.objects.count() == 1
    assert ExportEvent.objects.filter(kind="downloaded").count() == 1


def test_what_is_not_there_is_not_found(staff):
    finance = staff("finance")
    finance.post(reverse("admin:billing_exportjob_new"), {"kind": "ageing", "shape": "csv"})
    job = ExportJob.objects.get()

    assert finance.get(reverse("admin:billing_exportjob_file", args=[job.pk])).status_code == 404
    assert finance.get(reverse("admin:billing_exportjob_file", args=[job.pk + 1])).status_code == 404
