"""The sweeps read the clock and call one action."""

from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine

from orders import actions, tasks
from tests.factories import NOON

pytestmark = pytest.mark.django_db


def test_the_sweep_marks_what_has_run_out(shop, settings):
    settings.ORDER_HOLD_MINUTES = 30
    order = shop.place(term="month")

    for minutes, status in ((29, "awaiting_payment"), (30, "expiring")):
        with time_machine.travel(NOON + timedelta(minutes=minutes), tick=False):
            tasks.expire_holds()
        order.refresh_from_db()
        assert order.status == status


def test_the_sweep_expires_quotes(shop):
    quote = actions.create_quote(
        organization=shop.organization, actor=shop.owner, valid_until=NOON + timedelta(days=1), at=NOON
    )
    actions.add_quote_line(
        quote_id=quote.pk, offer=shop.offer, image=shop.image, quantity=1, term="month", periods=1,
        discount_percent=Decimal(0), at=NOON,
    )  # fmt: skip
    actions.send_quote(quote_id=quote.pk, actor=shop.owner, at=NOON)

    with time_machine.travel(NOON + timedelta(days=1), tick=False):
        tasks.expire_quotes()

    quote.refresh_from_db()
    assert quote.status == "expired"
