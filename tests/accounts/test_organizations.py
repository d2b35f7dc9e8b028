"""The organization's frozen terms."""

import pytest
from django.db import DatabaseError, transaction

from accounts.models import Organization
from marketplace.lib import clock


@pytest.mark.django_db
def test_currency_is_frozen_with_the_first_order():
    organization = Organization.objects.create(name="甲", created_at=clock.now(), frozen_at=clock.now())

    with pytest.raises(DatabaseError), transaction.atomic():
        Organization.objects.filter(pk=organization.pk).update(currency="USD")

    organization.refresh_from_db()
    assert organization.currency == "CNY"
