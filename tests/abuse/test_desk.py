"""The desk under odd addresses: a list with a filter nobody knows answers with a page, not with a failure."""

from urllib.parse import quote

import pytest
from django.contrib import admin
from django.core.signals import got_request_exception
from django.urls import reverse

from billing.models import Invoice
from orders.models import Order
from tests import factories
from tests.abuse import shop
from tests.abuse.junk import VALUES
from tests.desk import world

pytestmark = pytest.mark.django_db
ODD = [quote(VALUES[name][:500], errors="replace") for name in (
    "negative", "beyond bigint", "nan", "quote", "script", "long", "lone surrogate", "full-width digits", "nul",
)]  # fmt: skip


@pytest.fixture
def boss():
    return shop.signed_in(factories.user(is_staff=True, is_superuser=True))


@pytest.fixture
def broken():
    failures = []

    def note(sender, request, **_):
        failures.append(f"{request.method} {request.get_full_path()[:300]}")

    got_request_exception.connect(note)
    yield failures
    got_request_exception.disconnect(note)


def list_of(model):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def parameters(desk):
    """Everything the list of a desk reads from its address."""
    yield from ("q", "o", "p", "all", "nonsense", "id__exact", "pk__in")
    for one in desk.list_filter:
        name = one[0] if isinstance(one, tuple) else one
        if isinstance(name, str):
            yield from (f"{name}__exact", f"{name}__gte", f"{name}__id__exact", f"{name}__isnull", f"{name}_from")
    if desk.date_hierarchy:
        yield from (f"{desk.date_hierarchy}__year", f"{desk.date_hierarchy}__month")


@pytest.mark.slow
@pytest.mark.parametrize("model", sorted(admin.site._registry, key=lambda one: one._meta.label))
def test_no_list_fails_for_what_its_address_says(boss, broken, model):
    desk = admin.site._registry[model]
    for name in parameters(desk):
        for value in (quote(VALUES["beyond bigint"]), quote(VALUES["quote"])):
            answer = boss.get(f"{list_of(model)}?{name}={value}")
            assert answer.status_code in {200, 302, 400}, f"{name}={value[:60]}"
    assert broken == []


def test_no_row_that_is_not_there_can_be_opened_or_pressed(boss, broken):
    for model, desk in admin.site._registry.items():
        for value in ODD[:2]:
            for tail in ("change/", "history/", "delete/"):
                assert boss.get(f"{list_of(model)}{value}/{tail}").status_code in {302, 400, 403, 404}
            for name in desk.buttons:
                answer = boss.post(f"{list_of(model)}{value}/do/{name}/")
                assert answer.status_code in {400, 404}, (model, name, value)
    assert broken == []


def test_no_list_action_fails_for_rows_that_are_not_there(boss, broken):
    order = world.waiting_order()
    for model, desk in admin.site._registry.items():
        for action in ("delete_selected", "nonsense", *(getattr(one, "__name__", one) for one in desk.actions or ())):
            for chosen in (["999999999"], ["-1"], ["x"], ["9" * 30], ["a\0b"]):
                data = {"action": action, "_selected_action": chosen, "index": "0"}
                answer = boss.post(list_of(model), data)
                body(answer)
                assert answer.status_code in {200, 302, 400}, (model, action, chosen)
    assert broken == []
    assert Order.objects.get(pk=order.pk).status == "awaiting_payment"


def body(answer) -> bytes:
    """Read to the end, as a browser does; a download closes its file then."""
    return answer.getvalue() if answer.streaming else answer.content


@pytest.mark.parametrize("value", ODD)
def test_an_export_of_a_filter_nobody_knows_is_refused_or_empty(boss, broken, value):
    world.invoice()
    for name in ("status__exact", "q", "issued_at_from", "issued_at__year", "nonsense", "p", "o"):
        answer = boss.post(f"{reverse('admin:billing_invoice_export', args=['csv'])}?{name}={value}")
        assert answer.status_code in {200, 400}, name
        assert body(answer)
    assert broken == []
    assert Invoice.objects.exists()


@pytest.mark.parametrize("value", ODD)
def test_search_helpers_answer(boss, broken, value):
    for address in (
        f"/admin/autocomplete/?app_label=orders&model_name=quote&field_name=organization&term={value}&page={value}",
        f"/admin/autocomplete/?app_label={value}&model_name={value}&field_name={value}&term=x",
        f"/admin/search/?s={value}",
        f"/admin/r/{value}/{value}/",
    ):
        assert boss.get(address).status_code in {200, 400, 403, 404}, address
    assert broken == []


def test_names_of_customers_are_text_in_every_list(boss):
    script = "<script>alert(1)</script>"
    owner = factories.user(first_name=script)
    organization = factories.organization(owner, name=script)
    factories.ssh_key(organization, name=script)
    world.everything()
    world.waiting_order(organization)
    for model in admin.site._registry:
        page = boss.get(list_of(model)).text
        assert script not in page, model
        for row in model._default_manager.all()[:5]:
            address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[row.pk])
            assert script not in boss.get(address).text, row


def test_customers_and_visitors_stay_outside(client):
    customer = shop.customer()
    person = shop.signed_in(customer.owner)
    for model in admin.site._registry:
        for visitor in (client, person):
            for answer in (visitor.get(list_of(model)), visitor.post(list_of(model), {"action": "delete_selected"})):
                assert (answer.status_code, answer.url.partition("?")[0]) == (302, "/admin/login/")
