"""Sweeps of the catalogue."""

from celery import shared_task

from catalog import changes


@shared_task(name="catalog.fold_changes")
def fold_changes() -> None:
    """Keep the changes since the last total few: every page counts them."""
    changes.fold_changes()
