"""The page of saved SSH keys: which machines admit each, and which are ticked for new orders."""

import pytest
from django.urls import reverse

from accounts.models import SshKey
from rentals.models import Rental
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db
BACKEND = "django.contrib.auth.backends.ModelBackend"


@pytest.fixture
def organization():
    return factories.organization()


@pytest.fixture
def owner(organization, client):
    person = organization.memberships.get().user
    client.force_login(person, backend=BACKEND)
    return person


def rows(client):
    found = client.get(reverse("accounts:keys")).context["rows"]
    return [(key.name, [machine.name for machine in machines], more) for key, machines, more in found]


def test_each_key_names_the_machines_that_admit_it(client, organization, owner):
    one, two = factories.ssh_key(organization, name="a"), factories.ssh_key(organization, name="b")
    offer = factories.offer(hosts=2)
    first = factories.rental(factories.order(organization, offer, keys=[one]))
    second = factories.rental(factories.order(organization, offer, keys=[one, two]))
    over = factories.rental(factories.order(organization, offer, keys=[two]))
    Rental.objects.filter(pk=over.pk).update(status="failed")
    stranger = factories.organization(name="乙")
    factories.rental(factories.order(stranger, offer, keys=[factories.ssh_key(stranger)]))

    assert rows(client) == [("a", [second.name, first.name], 0), ("b", [second.name], 0)]


def test_many_machines_are_counted(client, organization, owner):
    key = factories.ssh_key(organization, name="a")
    factories.rental(factories.order(organization, factories.offer(), keys=[key], quantity=5))

    ((_name, named, more),) = rows(client)

    assert (len(named), more) == (3, 2)


def test_chosen_keys_are_ticked_on_the_order_form(client, organization, owner):
    _one, two = factories.ssh_key(organization, name="a"), factories.ssh_key(organization, name="b")
    address = reverse("orders:new", args=[factories.offer().slug])
    factories.image()

    def ticked():
        return client.get(address).context["form"].fields["ssh_keys"].initial

    assert ticked() == []
    answer = client.post(reverse("accounts:default_key", args=[two.key]), {"chosen": "yes"})
    assert (answer.status_code, answer.url, ticked()) == (302, reverse("accounts:keys"), [str(two.key)])
    client.post(reverse("accounts:default_key", args=[two.key]), {"chosen": "no"})
    assert ticked() == []


def test_a_viewer_chooses_none(client, organization):
    key = factories.ssh_key(organization)
    client.force_login(factories.member(organization, "viewer"), backend=BACKEND)

    assert client.post(reverse("accounts:default_key", args=[key.key]), {"chosen": "yes"}).status_code == 403
    assert not SshKey.objects.get().is_default
    assert reverse("accounts:default_key", args=[key.key]) not in client.get(reverse("accounts:keys")).text


def test_a_strangers_key_is_not_chosen(client, organization, owner):
    key = factories.ssh_key(factories.organization(name="乙", at=NOON))

    assert client.post(reverse("accounts:default_key", args=[key.key]), {"chosen": "yes"}).status_code == 404
    assert not SshKey.objects.get().is_default
