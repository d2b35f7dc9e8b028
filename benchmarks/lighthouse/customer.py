"""The customer whose console is measured. Needs a configured Django."""

from __future__ import annotations

from django.db import transaction

from benchmarks import world
from benchmarks.lighthouse.pages import OFFER
from catalog.models import Offer
from catalog.queries import current_prices
from marketplace.lib import clock
from orders import actions as orders
from rentals import actions as rentals
from rentals.models import Rental

RENTALS = 3
STEPS = (Rental.Status.CREATING, Rental.Status.BOOTING, Rental.Status.VERIFYING, Rental.Status.RUNNING)


def cookie() -> str:
    """The Cookie header of a new customer with running rentals."""
    buyer = world.buyer(300)
    _rent(buyer)
    return "; ".join(f"{name}={value}" for name, value in buyer.cookies.items())


def _rent(buyer: world.Buyer) -> None:
    at = clock.now()
    offer = Offer.objects.select_related("gpu_model", "pool", "region").get(slug=OFFER)
    orders.place_order(
        organization=buyer.organization, project=buyer.project, actor=buyer.user, request_key="lighthouse",
        offer=offer, quantity=RENTALS, term="hour", periods=1, image=world.image_of(offer), ssh_keys=[buyer.key],
        seen_rate=current_prices(offer.pk, "CNY", at)[offer.pk]["card_hour"].rate, at=at,
    )  # fmt: skip
    rentals.open_rentals(at=at)
    metered = {"meter": "card_hour", "metered_from": at, "running_at": at}
    with transaction.atomic():
        for rental in Rental.objects.filter(organization=buyer.organization):
            for step in STEPS:
                rentals.move_rental(rental=rental, to=step, at=at, **metered if step == Rental.Status.RUNNING else {})
