"""Headroom on the credit line: taken by guarded updates, never overdrawn."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from accounts import actions
from accounts.models import CreditLine
from tests import factories


@pytest.mark.django_db
def test_headroom_is_taken_and_given_back():
    organization = factories.organization(credit_minor=1000)

    actions.take_headroom(organization_id=organization.pk, amount_minor=600)
    with pytest.raises(actions.NoHeadroom) as refusal:
        actions.take_headroom(organization_id=organization.pk, amount_minor=401)
    actions.give_back_headroom(organization_id=organization.pk, amount_minor=600)

    assert (refusal.value.needed_minor, refusal.value.headroom_minor, refusal.value.missing.minor) == (401, 400, 1)
    assert CreditLine.objects.get(organization=organization).committed_minor == 0


@pytest.mark.django_db
def test_a_frozen_line_commits_nothing():
    organization = factories.organization(credit_minor=1000)
    CreditLine.objects.filter(organization=organization).update(standing="frozen")

    with pytest.raises(actions.NoHeadroom) as refusal:
        actions.take_headroom(organization_id=organization.pk, amount_minor=1)

    assert refusal.value.headroom_minor == 0


@pytest.mark.django_db
def test_use_reduces_what_is_available_and_a_new_limit_moves_it():
    organization = factories.organization(credit_minor=1000)

    actions.set_available(organization_id=organization.pk, spent_minor=1300, at=factories.NOON)
    actions.set_credit_limit(organization=organization, limit_minor=5000)

    line = CreditLine.objects.get(organization=organization)
    assert (line.limit_minor, line.available_minor, line.headroom_minor) == (5000, 3700, 3700)


@pytest.mark.django_db(transaction=True)
def test_parallel_commitments_never_pass_the_limit():
    organization = factories.organization(credit_minor=1000)

    def take(_):
        try:
            actions.take_headroom(organization_id=organization.pk, amount_minor=150)
        except actions.NoHeadroom:
            return 0
        else:
            return 1
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        taken = sum(threads.map(take, range(20)))

    assert taken == 6
    assert CreditLine.objects.get(organization=organization).committed_minor == 900
