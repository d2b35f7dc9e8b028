"""The GPU marketplace. Importing the package binds Celery's shared tasks to its application."""

from marketplace.celery import app as celery_app

__all__ = ["celery_app"]
