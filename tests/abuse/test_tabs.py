"""Two tabs, a changed role, nobody's organization: what happens beside the page that is open."""

import pytest
from django.conf import settings
from django.urls import reverse

from accounts.models import Membership, SshKey
from orders.models import Order
from tests import factories
from tests.abuse import shop

pytestmark = pytest.mark.django_db
CONSOLE = (
    "rentals:overview",
    "rentals:list",
    "rentals:activity",
    "orders:list",
    "billing:overview",
    "billing:invoices",
    "accounts:keys",
    "accounts:organization",
)


@pytest.fixture
def customer():
    return shop.customer()


@pytest.fixture
def browser(customer):
    return shop.signed_in(customer.owner)


@pytest.fixture
def elsewhere(customer, browser):
    """The same person's other organization, to which another tab has switched."""
    other = factories.organization(name="第二家")
    Membership.objects.create(user=customer.owner, organization=other, role="owner", joined_at=factories.NOON)
    browser.post(reverse("accounts:switch", args=[other.key]))
    return other


def test_an_order_lands_in_the_organization_its_form_showed_or_nowhere(customer, browser, elsewhere):
    address, data = customer.forms["order"]
    data = data | {"ssh_keys": [], "new_key": factories.new_public_key(), "acting_for": str(customer.organization.key)}
    before = (Order.objects.count(), SshKey.objects.count())

    answer = browser.post(address, data)

    assert answer.status_code == 409
    assert "第二家" in answer.text
    assert (Order.objects.count(), SshKey.objects.count()) == before
    assert f'name="acting_for" value="{elsewhere.key}"' in answer.text
    assert browser.post(address, data | {"acting_for": str(elsewhere.key)}).status_code == 302
    assert elsewhere.orders.count() == 1


def test_a_key_lands_in_the_organization_its_form_showed_or_nowhere(customer, browser, elsewhere):
    address, data = customer.forms["add a key"]
    before = SshKey.objects.count()

    answer = browser.post(address, data | {"acting_for": str(customer.organization.key)})

    assert answer.status_code == 409
    assert "第二家" in answer.text
    assert SshKey.objects.count() == before


def test_the_provider_s_people_without_an_organization_are_led_to_their_desk(customer):
    staff = shop.signed_in(factories.user(is_staff=True))
    for name, address in customer.addresses.items():
        if name in CONSOLE or name.startswith(("rentals:", "orders:detail", "billing:")):
            answer = staff.get(address)
            assert (answer.status_code, answer.url) == (302, reverse("admin:index")), name


def test_whoever_belongs_nowhere_is_told_so(customer):
    lonely = shop.signed_in(factories.user())
    for name in CONSOLE:
        answer = lonely.get(customer.addresses[name])
        assert answer.status_code == 403, name
        assert "You belong to no organization" in answer.text, name
    for address, data in (customer.forms["order"], customer.forms["add a key"]):
        assert lonely.post(address, data).status_code == 403


def test_a_role_counts_from_the_next_click(customer, browser):
    membership = customer.owner.memberships.get()
    membership.role = "viewer"
    membership.save()
    before = (Order.objects.count(), SshKey.objects.count())
    for form in ("order", "add a key", "accept a quote", "decline a quote"):
        address, data = customer.forms[form]
        assert browser.post(address, data).status_code == 403, form
    for verb in ("stop", "start", "terminate"):
        assert browser.post(customer.addresses[f"rentals:{verb}"]).status_code == 403

    membership.delete()
    for name in CONSOLE:
        assert browser.get(customer.addresses[name]).status_code == 403, name
    assert (Order.objects.count(), SshKey.objects.count()) == before


def test_a_session_that_ended_asks_to_log_in_and_orders_nothing(customer, browser):
    address, data = customer.forms["order"]
    browser.session.flush()
    before = Order.objects.count()

    answer = browser.post(address, data)

    assert (answer.status_code, answer.url.partition("?")[0]) == (302, reverse("account_login"))
    assert Order.objects.count() == before


def test_the_invoice_is_a_link_only_for_who_may_open_it(customer):
    link = customer.addresses["billing:invoice"]
    order = Order.objects.get(organization=customer.organization, status="awaiting_payment")
    page = reverse("orders:detail", args=[order.key])
    for role in Membership.Role.values:
        person = shop.signed_in(factories.member(customer.organization, role))
        allowed = person.get(link).status_code == 200
        assert (f'href="/en{link}"' in person.get(page).text) == allowed, role
        assert order.invoices.get().number in person.get(page).text


def test_no_cache_on_the_way_keeps_what_a_session_was_shown(client, customer, browser):
    for name, address in customer.addresses.items():
        answer = browser.get(address)
        answer.getvalue()
        directives = answer.headers["Cache-Control"]
        assert "private" in directives, name
        assert "Cookie" in answer.headers["Vary"], name
        if answer.status_code == 200 and "html" in answer.headers["Content-Type"]:
            assert "content-security-policy" in {header.lower() for header in answer.headers}, name
    assert "private" in browser.get("/no-such-page/").headers["Cache-Control"]
    assert settings.SESSION_COOKIE_HTTPONLY
