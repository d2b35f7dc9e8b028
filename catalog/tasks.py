"""Sweeps of the catalogue."""

from celery import shared_task

from catalog import changes, waitlist
from marketplace.lib import clock


@shared_task(name="catalog.fold_changes")
def fold_changes() -> None:
    """Keep the changes since the last total few: every page counts them."""
    changes.fold_changes()


@shared_task(name="catalog.notify_waitlist")
def notify_waitlist() -> None:
    """Tell those who wait for a sold-out offer when enough of it is free."""
    waitlist.notify_waitlist(at=clock.now())
