"""Sign-up and the console pages of accounts."""

import pytest
from django.urls import reverse

from accounts.models import CreditLine, Membership, Organization, Project, SshKey, User
from tests import factories

pytestmark = pytest.mark.django_db


def test_sign_up_opens_an_organization(client, settings):
    settings.NEW_ORGANIZATION_CREDIT = {"CNY": 500_000, "USD": 75_000}
    answer = client.post(
        reverse("account_signup"),
        {"email": "wang@example.com", "password1": "qixing-2026-ok", "organization": " 七星实验室 ", "currency": "USD"},
    )

    assert answer.status_code == 302
    organization = Organization.objects.get()
    assert (organization.name, organization.currency, organization.zone) == ("七星实验室", "USD", "Asia/Shanghai")
    membership = Membership.objects.get()
    assert (membership.user.email, membership.role) == ("wang@example.com", "owner")
    assert Project.objects.get().is_default
    assert CreditLine.objects.get().headroom_minor == 75_000


def test_sign_up_without_organization_says_so_and_makes_nothing(client):
    answer = client.post(
        reverse("account_signup"), {"email": "wang@example.com", "password1": "qixing-2026-ok", "currency": "CNY"}
    )

    assert answer.status_code == 200
    assert answer.context["form"].errors["organization"]
    assert not User.objects.exists()


def test_a_key_is_added_listed_and_removed(client):
    owner = factories.user()
    organization = factories.organization(owner)
    client.force_login(owner)

    answer = client.post(reverse("accounts:keys"), {"name": "台式机", "public_key": factories.new_public_key()})
    assert answer.status_code == 302
    key = SshKey.objects.get(organization=organization)
    assert key.fingerprint in client.get(reverse("accounts:keys")).text

    client.post(reverse("accounts:remove_key", args=[key.key]))
    assert not SshKey.objects.exists()


def test_a_bad_key_is_refused_beside_its_field(client):
    owner = factories.user()
    factories.organization(owner)
    client.force_login(owner)

    answer = client.post(reverse("accounts:keys"), {"name": "x", "public_key": "ssh-dss AAAA"})

    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == ["public_key"]
    assert not SshKey.objects.exists()


def test_a_viewer_adds_no_key(client):
    viewer = factories.member(factories.organization(), "viewer")
    client.force_login(viewer)

    answer = client.post(reverse("accounts:keys"), {"name": "x", "public_key": factories.new_public_key()})

    assert answer.status_code == 403
    assert not SshKey.objects.exists()


def test_another_organizations_key_is_not_found(client):
    stranger = factories.user()
    factories.organization(stranger, name="丙")
    key = factories.ssh_key(factories.organization())
    client.force_login(stranger)

    assert client.get(reverse("accounts:remove_key", args=[key.key])).status_code == 404
    assert client.post(reverse("accounts:remove_key", args=[key.key])).status_code == 404
    assert SshKey.objects.filter(pk=key.pk).exists()


@pytest.mark.parametrize("rows", [1, 3])
def test_the_key_list_costs_the_same_queries_for_any_length(client, rows, django_assert_num_queries):
    owner = factories.user()
    organization = factories.organization(owner)
    for _ in range(rows):
        factories.ssh_key(organization)
    client.force_login(owner)

    with django_assert_num_queries(6):  # session, person, membership with organization, machines, keys, unread notices
        client.get(reverse("accounts:keys"))


def test_switching_needs_a_membership(client):
    person = factories.user()
    factories.organization(person, name="甲")
    second, foreign = factories.organization(person, name="乙"), factories.organization(name="丙")
    client.force_login(person)

    assert client.post(reverse("accounts:switch", args=[foreign.key])).status_code == 404
    client.post(reverse("accounts:switch", args=[second.key]))

    assert client.get(reverse("accounts:organization")).context["organization"] == second
