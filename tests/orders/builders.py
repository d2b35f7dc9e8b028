"""A shop with one customer, for tests of orders."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from accounts.models import CreditLine, Organization, Project, SshKey, User
from catalog.models import Gpu, Image, Offer
from orders import actions
from orders.models import Order
from tests import factories
from tests.factories import NOON

_request = itertools.count(1)


@dataclass
class Shop:
    """An organization with an owner, a key and credit, and an offer of two cards a unit on one host of eight."""

    organization: Organization
    owner: User
    project: Project
    key: SshKey
    image: Image
    offer: Offer

    def wish(self, **changes: Any) -> dict[str, Any]:
        """Arguments of place_order: one unit by the hour at the current price, unless changed."""
        offer = changes.get("offer", self.offer)
        term = changes.get("term", "hour")
        meter = {"hour": "card_hour"}.get(term, term)
        prices = {price.meter: price.rate for price in offer.prices.filter(currency=self.organization.currency)}
        return {
            "organization": self.organization,
            "project": self.project,
            "actor": self.owner,
            "request_key": f"request-{next(_request)}",
            "offer": offer,
            "quantity": 1,
            "term": term,
            "periods": 1,
            "image": self.image,
            "ssh_keys": [self.key],
            "seen_rate": prices.get(meter, Decimal(0)),
            "at": NOON,
        } | changes

    def place(self, **changes: Any) -> Order:
        return actions.place_order(**self.wish(**changes))

    @property
    def held(self) -> int:
        """Cards of the offer's pool that somebody has."""
        return Gpu.objects.filter(host__pool=self.offer.pool, holder__isnull=False).count()

    @property
    def committed(self) -> int:
        return CreditLine.objects.get(organization=self.organization).committed_minor


def shop(*, name: str = "福州智算科技有限公司", credit_minor: int = 10_000_000, **offered: Any) -> Shop:
    owner = factories.user()
    organization = factories.organization(owner, name=name, credit_minor=credit_minor)
    return Shop(
        organization=organization,
        owner=owner,
        project=organization.projects.get(),
        key=factories.ssh_key(organization),
        image=factories.image(),
        offer=factories.offer(**({"cards": 2} | offered)),
    )
