"""Sweeps of orders. The tables are the queues; each run is safe to repeat."""

from celery import shared_task

from marketplace.lib import clock
from orders import actions, sales_mail

# Mails of one sweep; more than one worker may be at it.
AT_MOST = 50


@shared_task(name="orders.expire_holds")
def expire_holds() -> None:
    """Mark unpaid orders whose hold has run out; billing settles them."""
    actions.begin_expiring(at=clock.now())


@shared_task(name="orders.expire_quotes")
def expire_quotes() -> None:
    actions.expire_quotes(at=clock.now())


@shared_task(name="orders.tell_sales")
def tell_sales() -> None:
    """Mail sales every request for a quote that is due, until none is or the mail server does not answer."""
    for _number in range(AT_MOST):
        if not sales_mail.tell_sales(at=clock.now()):
            return
