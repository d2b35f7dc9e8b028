"""`run_billing` and `reconcile_stripe` as an operator runs them."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from billing.models import Invoice
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, rental, used

pytestmark = pytest.mark.django_db(transaction=True)


def run(*arguments):
    out = StringIO()
    call_command("run_billing", *arguments, stdout=out)
    return out.getvalue().splitlines()


def test_it_closes_the_month_and_says_what_it_did(sandbox):
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)

    assert run("--at=2026-11-30T23:59:59+08:00") == ["0 usage windows cut", "0 invoices drafted, 0 pushed"]
    said = run("--at=2026-12-01T00:00:00+08:00")

    invoice = Invoice.objects.get()
    assert said == [
        "0 usage windows cut",
        "drafted INV-2026-000001 usage issued ¥10.00",
        f"pushed  INV-2026-000001 usage open ¥10.00 {invoice.stripe_invoice_id}",
        "1 invoices drafted, 1 pushed",
    ]
    assert run("--at=2026-12-01T00:00:00+08:00") == ["0 usage windows cut", "0 invoices drafted, 0 pushed"]


def test_open_meters_are_cut_at_the_months_end(sandbox):
    machine = rental()
    type(machine).objects.filter(pk=machine.pk).update(meter="card_hour", metered_from=DECEMBER - 4 * HOUR)

    run("--at=2026-12-01T09:30:00+08:00")

    assert Invoice.objects.get().total_minor == 1000
    machine.refresh_from_db()
    assert machine.metered_from == DECEMBER


@pytest.mark.parametrize("text", ["tomorrow", "2026-12-01T00:00:00"])
def test_an_instant_without_its_offset_is_refused(text):
    with pytest.raises(CommandError, match="--at"):
        run(f"--at={text}")


def test_the_books_agree(sandbox):
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)
    run("--at=2026-12-01T00:00:00+08:00")
    out = StringIO()

    call_command("reconcile_stripe", stdout=out)

    assert out.getvalue() == "no difference\n"
