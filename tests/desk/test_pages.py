"""Every desk answers, shows what it should to whom it should, costs the same for one row and three, deletes nothing."""

import pytest
from django.contrib import admin
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.staff import STAFF_GROUPS
from billing import actions as billing
from billing.models import Invoice, ReceivingAccount
from tests import factories
from tests.desk import world

pytestmark = pytest.mark.django_db


def _desks():
    return sorted(admin.site._registry, key=lambda model: model._meta.label)


DESKS = _desks()
GROUPS = sorted(STAFF_GROUPS)


def _list(model):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def _page(row):
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def _permission(verb, model):
    return f"{model._meta.app_label}.{verb}_{model._meta.model_name}"


def test_only_our_own_desks_are_there():
    """Libraries register editors too, among them second factors with their secrets."""
    assert {model._meta.label for model in DESKS} == {
        "accounts.Notification", "accounts.Organization", "accounts.SshKey", "accounts.User", "admin.LogEntry",
        "auth.Group",
        "billing.Fapiao", "billing.TaxProfile", "billing.Posting", "billing.ClosedMonth",
        "billing.CreditNote", "billing.Dispute", "billing.Reconciliation", "billing.ReconciliationDifference",
        "billing.Refund",
        "billing.BankTransfer", "billing.Gift", "billing.ReceivingAccount", "billing.TopUp", "billing.TransferSlip",
        "billing.Voucher",
        "billing.Arrears", "billing.BillingAccount", "billing.ExportJob", "billing.Invoice", "billing.NumberSeries",
        "billing.Payment",
        "billing.StripeEvent",
        "catalog.ContractPrice", "orders.Commitment", "orders.Pack", "orders.Service", "orders.TermRefund",
        "orders.VolumeTier",
        "catalog.Allocation", "catalog.DeliveryRecord", "catalog.Question", "catalog.Waitlist",
        "catalog.Gpu", "catalog.GpuModel", "catalog.Host", "catalog.Image", "catalog.Offer",
        "catalog.Pool", "catalog.Price", "catalog.Region", "catalog.Reservation", "catalog.Source", "orders.Order",
        "orders.Quote", "rentals.Orphan", "rentals.Rental", "rentals.UsageWindow", "trust.Block", "trust.Incident",
        "trust.Maintenance", "trust.Page", "trust.Watch",
    }  # fmt: skip


@pytest.mark.parametrize("language", ["zh-hans", "en"])
def test_every_list_and_page_answers(staff, language):
    world.everything()
    boss = staff("superuser", language)
    for model in DESKS:
        assert boss.get(_list(model)).status_code == 200, model
        for row in model._default_manager.all():
            assert boss.get(_page(row)).status_code == 200, row


@pytest.mark.parametrize("group", GROUPS)
def test_each_group_sees_what_is_listed_for_it_and_nothing_else(staff, group):
    world.everything()
    client = staff(group)
    for model in DESKS:
        may = {_permission("view", model), _permission("change", model)} & set(STAFF_GROUPS[group])
        wanted = 200 if may else 403
        assert client.get(_list(model)).status_code == wanted, model
        row = model._default_manager.first()
        assert client.get(_page(row)).status_code == wanted, model


def test_a_list_costs_the_same_for_one_row_and_for_three(boss):
    def queries():
        asked = {}
        for model in DESKS:
            with CaptureQueriesContext(connection) as caught:
                assert boss.get(_list(model)).status_code == 200
            asked[model._meta.label] = [query["sql"] for query in caught.captured_queries]
        return asked

    world.everything()
    queries()  # fills the caches of permissions and content types
    one = queries()
    world.everything(2)
    three = queries()

    assert {label: sqls for label, sqls in three.items() if len(sqls) != len(one[label])} == {}
    assert max(len(sqls) for sqls in three.values()) <= 16


def test_nothing_can_be_deleted(boss):
    world.everything()
    for model in DESKS:
        row = model._default_manager.order_by("pk").first()
        count = model._default_manager.count()

        delete = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_delete", args=[row.pk])
        assert boss.post(delete, {"post": "yes"}).status_code == 403, model
        boss.post(_list(model), {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"})

        assert model._default_manager.count() == count, model
        assert 'value="delete_selected"' not in boss.get(_list(model)).text, model


STATES = ("status", "state", "standing", "desired", "cards_free", "holder", "number", "paid_minor", "total_minor")


def test_no_form_offers_a_state(boss):
    world.everything()
    for model in DESKS:
        form = boss.get(_page(model._default_manager.order_by("pk").first())).context["adminform"].form
        # The holder of a bank account is a name, not who holds a card.
        names = set(form.fields) - ({"holder"} if model is ReceivingAccount else set())
        assert names & set(STATES) == set(), model


@pytest.mark.parametrize(
    ("label", "field", "value"),
    [
        ("orders.Order", "status", "ended"),
        ("orders.Quote", "status", "accepted"),
        ("rentals.Rental", "status", "gone"),
        ("billing.Invoice", "status", "paid"),
        ("catalog.Host", "state", "offline"),
        ("accounts.Organization", "name", "renamed"),
    ],
)
def test_a_posted_state_changes_nothing(boss, label, field, value):
    world.everything()
    model = next(model for model in DESKS if model._meta.label == label)
    row = model._default_manager.order_by("pk").first()
    before = getattr(row, field)

    answer = boss.post(_page(row), {field: value})

    row.refresh_from_db()
    assert answer.status_code == 403
    assert getattr(row, field) == before != value


def test_an_auditor_is_offered_no_button_and_no_form(staff):
    world.everything()
    auditor = staff("auditor")
    for model in DESKS:
        answer = auditor.get(_page(model._default_manager.order_by("pk").first()))
        assert answer.status_code == 200, model
        # A document may be read by whoever may read its row.
        buttons = [one["button"].permission or "" for one in answer.context.get("desk_buttons", [])]
        assert [permission for permission in buttons if ".view_" not in permission] == [], model
        assert not answer.context["has_change_permission"], model
        assert not answer.context["has_add_permission"], model


def test_a_customer_is_refused_and_a_stranger_sent_to_the_login_page(client):
    assert client.get("/admin/").headers["Location"] == "/admin/login/?next=/admin/"
    assert client.get("/admin/login/?next=/admin/").headers["Location"] == "/accounts/login/?next=%2Fadmin%2F"

    client.force_login(factories.user(), backend="django.contrib.auth.backends.ModelBackend")

    assert client.get("/admin/", follow=True).status_code == 403
    assert client.get("/admin/billing/invoice/", follow=True).status_code == 403


@pytest.mark.parametrize("group", GROUPS)
def test_the_sidebar_and_the_overview_show_each_group_its_own(staff, group):
    world.everything()

    context = staff(group).get("/admin/").context

    groups = {str(part["title"]): part["items"] for part in context["sidebar_navigation"][1:] if part["items"]}
    assert set(groups) >= {"Operations", "Sales", "Finance", "System"}
    shown = {item["link"] for items in groups.values() for item in items}
    assert shown == {_list(model) for model in DESKS if _may_open(group, model)}
    assert ("pools" in context) == (group != "finance")


def _may_open(group, model):
    return bool({_permission("view", model), _permission("change", model)} & set(STAFF_GROUPS[group]))


def test_the_overview_counts(boss):
    world.everything(2)
    world.rental(status="needs_operator", reason="no_capacity")
    world.rental(status="creating", reason="no_capacity")
    Invoice.objects.filter(pk=Invoice.objects.filter(status="issued").first().pk).update(push_error="refused")
    late = world.invoice()
    Invoice.objects.filter(pk=late.pk).update(status="void")
    late.refresh_from_db()
    billing.record_payment(
        invoice=late,
        method="bank_transfer",
        reference="late",
        amount_minor=100,
        currency="CNY",
        received_at=factories.NOON,
    )

    context = boss.get("/admin/").context

    assert [(str(f.title), f.value, str(f.note)) for f in context["figures"]] == [
        ("Running rentals", "2", "2 cards"),
        ("Rentals on their way", "1", ""),
        ("Waiting for a person", "1", ""),
        ("Orders awaiting payment", "5", ""),
        ("Orders that stand still", "4", ""),
        ("Quotes requested", "0", ""),
        ("Open quotes", "2", ""),
        ("Unpaid invoices", "2", "¥2,560.00"),
        ("Overdue", "2", ""),
        ("Push errors", "1", ""),
        ("Money to return or assign", "0", ""),
        ("Unmatched transfers", "0", ""),
        ("Stripe events not applied", "4", "2 failing"),
    ]
    for figure in context["figures"]:
        rows = boss.get(figure.address).context["cl"].result_list
        assert len(rows) == int(figure.value), figure.title
    [group] = context["waiting"]
    assert (group["count"], str(group["what"])) == (
        2, "The data centre has no room for this machine at the moment.",
    )  # fmt: skip
    assert {(row["free"], row["total"]) for row in context["pools"]} == {(8, 8)}


def test_the_overview_costs_the_same_for_one_row_and_for_three(boss):
    def queries():
        with CaptureQueriesContext(connection) as caught:
            boss.get("/admin/")
        return len(caught)

    world.everything()
    queries()
    one = queries()
    world.everything(2)
    assert queries() == one <= 15
