"""The finance desk."""

from billing.admin import arrears, collection, invoices

__all__ = ["arrears", "collection", "invoices"]
