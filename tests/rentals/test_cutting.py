"""The statement that cuts every meter writes the same windows as closing each meter would, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orders.models import Subscription
from rentals import actions, metering
from rentals.models import Rental, UsageWindow
from tests.rentals.support import Shop

pytestmark = pytest.mark.django_db

METERS = [meter for meter in Rental.Meter.values if meter]
# A week with the end of London's summer time and the end of a month.
START = datetime(2026, 10, 23, tzinfo=UTC)
RATES = st.integers(1, 10**12).map(lambda digits: Decimal(digits).scaleb(-10))


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def rows(rental: Rental) -> list[dict[str, Any]]:
    """The windows in order of time, whole but for what names the row itself."""
    found = UsageWindow.objects.filter(rental=rental).order_by("period").values()
    return [{name: value for name, value in row.items() if name not in ("id", "key")} for row in found]


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "Europe/London", "America/St_Johns"])
@pytest.mark.parametrize("meter", METERS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(
    cards=st.integers(1, 64),
    rate=RATES,
    disk_gb=st.integers(1, 30_000),
    disk_rate=RATES,
    begins=st.integers(0, 5 * 86_400_000),
    lasts=st.integers(0, 5 * 86_400_000),
)
def test_cutting_writes_what_closing_writes(db, meter, zone, cards, rate, disk_gb, disk_rate, begins, lasts):
    opened = START + timedelta(milliseconds=begins)
    until = opened + timedelta(milliseconds=lasts)
    with undone():
        rental = Shop(zone=zone).rental()
        Subscription.objects.filter(pk=rental.subscription_id).update(
            cards=cards, rate=rate, disk_gb=disk_gb, disk_rate=disk_rate
        )
        metering.open_meter(rental=actions.locked(rental.pk), meter=meter, at=opened)

        with undone():
            metering.close_through(organization_id=rental.organization_id, until=until)
            cut = rows(rental)
        metering.close_meter(rental=actions.locked(rental.pk), at=until)

        assert cut == rows(rental)
        subscription = actions.locked(rental.pk).subscription
        assert {(row["meter"], row["quantity"], row["rate"]) for row in cut} <= {
            (meter, *metering.terms_of(subscription, meter))
        }
        assert sum(row["seconds"] for row in cut) == metering.seconds_between(
            metering.whole_second(opened), metering.whole_second(until)
        )
