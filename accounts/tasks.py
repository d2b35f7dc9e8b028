"""Sweeps of accounts. The tables are the queues; each run is safe to repeat."""

from celery import shared_task

from accounts import mailing
from marketplace.lib import clock

# Mails of one sweep; more than one worker may be at it.
AT_MOST = 200


@shared_task(name="accounts.send_notices")
def send_notices() -> None:
    """Mail what is due, one member after the other, until nothing is or the mail server does not answer."""
    for _number in range(AT_MOST):
        if not mailing.send_next(at=clock.now()):
            return
