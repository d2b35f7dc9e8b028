"""The verbs of the catalogue: the state of hosts and cards, and a new price in place of an old one."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from catalog import inventory
from catalog.models import Host, Price
from marketplace.lib.refusals import Refusal


class CatalogRefused(Refusal):
    """What was wanted of the catalogue cannot be."""


@transaction.atomic
def set_host_state(*, host_id: int, state: str) -> Host:
    """Active hosts are sold, draining ones keep what runs and take nothing new, offline ones are not to be used.

    What runs on the host is not touched. Taken under the host's lock, so that no claim sees it half way.
    """
    host = Host.objects.select_for_update(no_key=True).get(pk=host_id)
    host.state = Host.State(state)
    host.save(update_fields=["state"])
    return host


@transaction.atomic
def set_card_health(*, gpu_id: int, healthy: bool) -> bool:
    """Take a card out of sale or put it back; whether anything changed. A rental that holds it keeps it."""
    return inventory.set_healthy(gpu_id=gpu_id, healthy=healthy)


@transaction.atomic
def replace_price(*, price_id: int, rate: Decimal, valid_from: datetime, at: datetime) -> Price:
    """End a price at `valid_from` and begin a new rate there, up to where the old one would have ended.

    Orders and quotes keep what they froze. Raises CatalogRefused for a start that has passed or lies outside the old
    price's time.
    """
    old = Price.objects.select_for_update().get(pk=price_id)
    if valid_from < at:
        raise CatalogRefused("past", _("A price cannot begin in the past."), field="valid_from")
    if valid_from <= old.valid_from or (old.valid_to is not None and valid_from >= old.valid_to):
        raise CatalogRefused("outside", _("The new price has to begin while the old one holds."), field="valid_from")
    end = old.valid_to
    old.valid_to = valid_from
    old.save(update_fields=["valid_to"])
    return Price.objects.create(
        offer_id=old.offer_id,
        meter=old.meter,
        currency=old.currency,
        rate=rate,
        valid_from=valid_from,
        valid_to=end,
    )
