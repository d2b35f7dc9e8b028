"""The finance desk."""

from billing.admin import collection, invoices

__all__ = ["collection", "invoices"]
