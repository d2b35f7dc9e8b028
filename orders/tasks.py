"""Sweeps of orders. The tables are the queues; each run is safe to repeat."""

from celery import shared_task

from marketplace.lib import clock
from orders import actions


@shared_task(name="orders.expire_holds")
def expire_holds() -> None:
    """Mark unpaid orders whose hold has run out; billing settles them."""
    actions.begin_expiring(at=clock.now())


@shared_task(name="orders.expire_quotes")
def expire_quotes() -> None:
    actions.expire_quotes(at=clock.now())
