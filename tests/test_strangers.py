"""Every address with an id in it: another organization's is a 404, and a visitor is sent to the login page.

The walk is over the router itself, so an address that is added without a row here fails.
"""

import pytest
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from accounts import budgets, notices
from billing import actions as billing
from billing.models import Fapiao
from catalog.models import Waitlist
from orders import actions as orders
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db

OWN = ("accounts", "billing", "catalog", "orders", "rentals", "trust")
# Addresses that show nothing of an organization: catalogue pages, and quotes, whose secret link is the permission.
PUBLIC = {"catalog:offer", "catalog:waitlist_join", "orders:new"}
BY_SECRET = {"orders:quote", "orders:accept_quote", "orders:decline_quote"}
# Shapes of a download; no ids.
PLAIN = {"billing:export"}


def addresses(resolver: URLResolver, namespace: str = ""):
    """(full name, parameters) of every address with parameters, below our own namespaces."""
    for entry in resolver.url_patterns:
        if isinstance(entry, URLResolver):
            yield from addresses(entry, entry.namespace or namespace)
        elif isinstance(entry, URLPattern) and namespace in OWN and entry.pattern.converters:
            yield f"{namespace}:{entry.name}", tuple(entry.pattern.converters)


WITH_IDS = sorted(name for name, _ in addresses(get_resolver()) if name not in PUBLIC | BY_SECRET | PLAIN)


@pytest.fixture
def belongings(settings, tmp_path):
    """One of everything that an organization can have, by the namespace and name of the address that shows it."""
    settings.MEDIA_ROOT = tmp_path
    organization = factories.organization(name="物主")
    owner = organization.memberships.get().user
    key = factories.ssh_key(organization)
    offer = factories.offer(hosts=2, cards=1)
    factories.image()
    hourly = factories.order(organization, offer, term="hour")
    monthly = factories.order(organization, offer, term="month")
    rental = factories.rental(hourly)
    invoice = factories.invoice(monthly)
    ready = {"kind": "rental_ready", "params": {"name": rental.name}, "page": "rentals:detail"}
    notices.notify(organization=organization, fact="told", page_args=[rental.key], at=NOON, **ready)
    notice = organization.notifications.get(fact="told")
    budget = budgets.set_budget(
        organization=organization, project=organization.projects.get(), amount_minor=100, on_reached="warn",
        actor=owner, at=NOON,
    )  # fmt: skip
    top_up = billing.begin_top_up(organization=organization, amount_minor=1000, request_key="t", at=NOON)
    slip = billing.submit_slip(
        organization=organization, amount_minor=1, payer="物主", sent_on=NOON.date(), content=b"%PDF-1.7", at=NOON
    )
    export = organization.exports.create(kind="focus", shape="csv", requested_by=owner, requested_at=NOON)
    waiting = Waitlist.objects.create(offer=offer, organization=organization, user=owner, units=9, created_at=NOON)
    paper = Fapiao.objects.create(
        invoice=invoice, serial="INV1", kind="ordinary", currency="CNY", total_minor=1, tax_minor=0, requested_at=NOON
    )
    return {
        "accounts:notice": notice.key,
        "accounts:read_notice": notice.key,
        "accounts:default_key": key.key,
        "catalog:waitlist_leave": waiting.key,
        "accounts:remove_key": key.key,
        "accounts:budget": budget.key,
        "accounts:delete_budget": budget.key,
        "accounts:project": budget.project_id,
        "accounts:switch": organization.key,
        "orders:detail": hourly.key,
        "orders:cancel": monthly.key,
        "rentals:detail": rental.key,
        "rentals:live": rental.key,
        "rentals:utilisation": rental.key,
        "rentals:auto_stop": rental.key,
        "rentals:auto_stop_remove": rental.key,
        "rentals:stop": rental.key,
        "rentals:start": rental.key,
        "rentals:terminate": rental.key,
        "rentals:extend": rental.key,
        "rentals:convert": rental.key,
        "rentals:restore": rental.key,
        "rentals:auto_renew": rental.key,
        "billing:invoice": invoice.key,
        "billing:export_file": export.key,
        "billing:invoice_pdf": invoice.key,
        "billing:fapiao_request": invoice.key,
        "billing:fapiao_file": paper.key,
        "billing:fapiao_withdraw": paper.key,
        "billing:pay": invoice.key,
        "billing:order_pay": monthly.key,
        "billing:balance_pay": invoice.key,
        "billing:order_balance_pay": monthly.key,
        "billing:top_up_done": top_up.key,
        "billing:slip": slip.key,
        "owner": owner,
    }


def test_the_walk_knows_every_address(belongings):
    assert sorted(set(belongings) - {"owner"}) == WITH_IDS


@pytest.mark.parametrize("name", WITH_IDS)
def test_a_stranger_finds_nothing(client, belongings, name):
    stranger = factories.user()
    factories.organization(stranger, name="路人")
    client.force_login(stranger)
    address = reverse(name, args=[belongings[name]])

    answers = {method: getattr(client, method)(address).status_code for method in ("get", "post")}

    assert set(answers.values()) <= {404, 405}
    assert 404 in answers.values()


@pytest.mark.parametrize("name", WITH_IDS)
def test_a_visitor_is_asked_to_log_in(client, belongings, name):
    address = reverse(name, args=[belongings[name]])

    for method in (client.get, client.post):
        answer = method(address)
        assert answer.status_code == 302
        assert answer.url.startswith(reverse("account_login"))


def test_a_quote_needs_its_secret(client):
    for name in sorted(BY_SECRET):
        assert client.get(reverse(name, args=["x" * 43])).status_code in {302, 404, 405}
        assert client.post(reverse(name, args=["x" * 43])).status_code in {302, 404, 405}


def test_lists_show_only_what_is_ones_own(client, belongings):
    stranger = factories.user()
    factories.organization(stranger, name="路人")
    client.force_login(stranger)

    for name in ("orders:list", "orders:quotes", "rentals:overview", "rentals:list", "rentals:activity",
                 "billing:invoices", "billing:overview", "billing:balance", "billing:transfer", "accounts:keys",
                 "accounts:notices"):  # fmt: skip
        page = client.get(reverse(name)).text
        assert "物主" not in page
        assert str(belongings["orders:detail"]) not in page
        assert str(belongings["rentals:detail"]) not in page
        assert str(belongings["billing:invoice"]) not in page


def test_an_order_cannot_name_anothers_key_or_project(client):
    owner = factories.organization(name="物主")
    foreign_key = factories.ssh_key(owner)
    stranger = factories.user()
    mine = factories.organization(stranger, name="路人")

    with pytest.raises(orders.OrderRefused):
        factories.order(mine, factories.offer(), term="hour", keys=[foreign_key], at=NOON)
    with pytest.raises(orders.OrderRefused):
        factories.order(mine, factories.offer(), term="hour", project=owner.projects.get(), at=NOON)

    assert not mine.orders.exists()
