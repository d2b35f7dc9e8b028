"""What customers see of their bills, who may see and pay them, and that nobody sees another's."""

import csv
import io
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from billing import actions
from billing.models import Invoice
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, JANUARY, NOVEMBER, order, rental, used

pytestmark = pytest.mark.django_db
MONTHS = [NOVEMBER, DECEMBER, JANUARY]


@pytest.fixture
def english(client):
    client.cookies["django_language"] = "en"
    return client


@pytest.fixture
def mine(english):
    """An organization whose owner is logged in."""
    owner = factories.user()
    english.force_login(owner)
    return factories.organization(owner)


def invoices(of, count=1):
    machine = rental(of)
    for month in MONTHS[:count]:
        used(machine, month, month + 4 * HOUR)
    return actions.draft_usage_invoices(at=JANUARY + 31 * 24 * HOUR).invoices


def test_the_overview_adds_up(english, mine):
    invoices(mine)

    page = english.get("/console/billing/").content.decode()

    assert "¥100,000.00" in page
    assert "¥10.00" in page
    assert "¥99,990.00" in page


def test_a_new_customer_is_told_what_comes_next(english, mine):
    page = english.get("/console/invoices/").content.decode()

    assert "No invoice yet" in page
    assert "Nothing is to be paid." in english.get("/console/billing/").content.decode()


def test_a_list_costs_the_same_for_one_and_three(english, mine):
    def cost():
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert english.get("/console/invoices/").status_code == 200
        return len(captured)

    invoices(mine)
    one = cost()
    machine = rental(mine, name="more")
    for month in MONTHS[1:]:
        used(machine, month, month + 4 * HOUR)
    actions.draft_usage_invoices(at=JANUARY + 31 * 24 * HOUR)

    assert Invoice.objects.count() == 3
    assert cost() == one


def test_an_invoice_shows_its_arithmetic(english, mine):
    (invoice,) = invoices(mine)

    page = english.get(f"/console/invoices/{invoice.key}/").content.decode()

    assert invoice.number in page
    assert "1 card × 4:00:00 h × ¥2.50" in page
    assert "2026-11-01 00:00:00" in page
    assert "2026-11-30 23:59:59" in page
    assert "Pay ¥10.00" in page


@pytest.mark.parametrize("name", ["invoice", "pay"])
def test_another_organizations_invoice_does_not_exist(english, mine, name):
    (theirs,) = invoices(factories.organization())
    url = reverse(f"billing:{name}", args=[theirs.key])

    assert (english.post(url) if name == "pay" else english.get(url)).status_code == 404
    theirs.refresh_from_db()
    assert theirs.status == "issued"


def test_another_organizations_order_cannot_be_paid(english, mine):
    theirs = order(at=timezone.now())

    assert english.post(f"/console/orders/{theirs.key}/pay/").status_code == 404
    assert Invoice.objects.count() == 0


def test_the_export_holds_only_ones_own_invoices(english, mine):
    (own,) = invoices(mine)
    invoices(factories.organization(name="Others"))

    answer = english.get("/console/invoices/export/csv/")
    body = b"".join(answer.streaming_content).decode("utf-8-sig")

    assert answer["Content-Disposition"].startswith('attachment; filename="invoices-')
    assert [row["Invoice number"] for row in csv.DictReader(io.StringIO(body))] == [own.number]
    sheet = b"".join(english.get("/console/invoices/export/xlsx/").streaming_content)
    assert sheet.startswith(b"PK")
    assert english.get("/console/invoices/export/pdf/").status_code == 404


@pytest.mark.parametrize(
    ("role", "sees", "pays", "pays_order"),
    [("owner", 200, 302, 302), ("admin", 200, 302, 302), ("finance", 200, 302, 302), ("viewer", 200, 403, 403),
     ("engineer", 403, 403, 302)],
)  # fmt: skip
def test_roles(english, role, sees, pays, pays_order):
    of = factories.organization()
    english.force_login(factories.member(of, role))
    (usage,) = invoices(of)
    prepaid = order(of, at=timezone.now())

    for url in ("/console/billing/", "/console/invoices/", "/console/invoices/export/csv/"):
        answer = english.get(url)
        assert answer.status_code == sees
        if answer.streaming:
            assert b"".join(answer.streaming_content)
    assert english.get(f"/console/invoices/{usage.key}/").status_code == sees
    assert english.post(f"/console/invoices/{usage.key}/pay/").status_code == pays
    assert english.post(f"/console/orders/{prepaid.key}/pay/").status_code == pays_order


def test_a_visitor_is_asked_to_log_in(client):
    for url in ("/console/billing/", "/console/invoices/"):
        assert client.get(url)["Location"].startswith("/accounts/login/")


def test_paying_by_get_is_not_possible(english, mine):
    (invoice,) = invoices(mine)

    assert english.get(f"/console/invoices/{invoice.key}/pay/").status_code == 405


def push_and_hang_up(invoice_id):
    try:
        actions.push(invoice_id=invoice_id, at=timezone.now())
    finally:
        connection.close()


class TestPaying:
    pytestmark = pytest.mark.django_db(transaction=True)

    def test_an_order_is_invoiced_pushed_and_sent_to_its_page_in_one_click(self, english, mine, sandbox):
        made = order(mine, at=timezone.now())

        answer = english.post(f"/console/orders/{made.key}/pay/")
        again = english.post(f"/console/orders/{made.key}/pay/")

        invoice = Invoice.objects.get()
        assert answer["Location"] == again["Location"] == invoice.hosted_url
        assert (invoice.status, len(sandbox.objects("invoice"))) == ("open", 1)

    def test_a_click_while_a_worker_opens_the_invoice_waits_for_it(self, english, mine, sandbox):
        made = order(mine, at=timezone.now())
        invoice = actions.draft_order_invoice(order=made, at=timezone.now())
        sandbox.faults.configure({"requests": [{"kind": "delay", "seconds": 0.5, "path": "/v1/invoices"}]})

        with ThreadPoolExecutor(1) as worker:
            pushing = worker.submit(push_and_hang_up, invoice.pk)
            while not Invoice.objects.filter(status="pushing").exists():
                time.sleep(0.01)
            answer = english.post(f"/console/orders/{made.key}/pay/")
            pushing.result()

        invoice.refresh_from_db()
        assert answer["Location"] == invoice.hosted_url
        assert len(sandbox.objects("invoice")) == 1

    def test_while_stripe_is_away_it_says_so_and_nothing_is_charged(self, english, mine, sandbox, settings):
        settings.STRIPE_API_BASE = "http://127.0.0.1:9"
        made = order(mine, at=timezone.now())

        answer = english.post(f"/console/orders/{made.key}/pay/")

        assert answer["Location"] == f"/en/console/orders/{made.key}/"
        assert "cannot be reached right now" in english.get(answer["Location"]).content.decode()
        settings.STRIPE_API_BASE = sandbox.url
        assert english.post(f"/console/orders/{made.key}/pay/")["Location"].startswith(sandbox.url)

    def test_an_order_whose_hold_ran_out_is_not_payable(self, english, mine, sandbox):
        made = order(mine, at=NOVEMBER - 24 * 365 * HOUR)

        answer = english.post(f"/console/orders/{made.key}/pay/")

        assert answer["Location"] == f"/en/console/orders/{made.key}/"
        assert Invoice.objects.count() == 0

    def test_the_page_may_send_its_form_to_stripe(self, english, mine):
        policy = english.get("/console/invoices/")["Content-Security-Policy"]

        assert "form-action 'self' https://invoice.stripe.com" in policy
