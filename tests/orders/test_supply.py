"""When sold cards come back: the catalogue's pages tell it with the next answer after a term began or ended."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from catalog.models import Offer
from marketplace.lib import kept
from orders import actions
from orders.models import Subscription, Term
from tests import factories

pytestmark = pytest.mark.django_db
TOLD = "The first running term ends on"


@pytest.fixture
def sold_out():
    """A sold-out offer whose one unit was bought for a month that has not begun."""
    kept.forget()
    offer = factories.offer(cards=8)
    order = factories.order(factories.organization(), offer, at=timezone.now())
    Subscription.objects.filter(order_line__order=order).update(term=Term.MONTH)
    return offer


def told(offer: Offer) -> list[bool]:
    """Whether a visitor's list and offer page say when cards come back."""
    return [TOLD in Client().get(path).text for path in ("/en/gpus/", f"/en/gpus/{offer.slug}/")]


def test_a_term_that_began_or_ended_shows_in_the_next_answer(sold_out):
    subscription = Subscription.objects.get()
    assert told(sold_out) == [False, False]

    actions.start_term(subscription_id=subscription.pk, started_at=timezone.now() - timedelta(days=1))
    assert told(sold_out) == [True, True]

    actions.end_subscription(subscription_id=subscription.pk, at=timezone.now())
    assert told(sold_out) == [False, False]
