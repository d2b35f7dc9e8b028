"""Every list of the console and the catalogue costs the same number of statements for one row and for three."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from marketplace.lib import clock
from tests import factories

pytestmark = pytest.mark.django_db
LISTS = (
    "home", "catalog:list", "orders:list", "rentals:overview", "rentals:list", "rentals:activity",
    "billing:overview", "billing:invoices", "accounts:keys",
    "accounts:organization", "accounts:notices",
)  # fmt: skip


def row(organization):
    """One more of everything the lists show, each with relations of its own."""
    at = clock.now()
    offer = factories.offer(hosts=2)
    factories.rental(factories.order(organization, offer, at=at), at=at)
    factories.invoice(factories.order(organization, offer, term="month", at=at), at=at)
    factories.member(organization)


def count(client, name):
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert client.get(reverse(name)).status_code == 200
    return len(queries)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_costs_the_same_for_one_row_and_three(client, name):
    owner = factories.user()
    organization = factories.organization(owner)
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    row(organization)
    count(client, name)  # what a process learns once is not the list's
    one = count(client, name)
    row(organization)
    row(organization)

    assert count(client, name) == one
