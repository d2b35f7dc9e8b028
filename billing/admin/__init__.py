"""The finance desk."""

from billing.admin import arrears, collection, invoices, returns

__all__ = ["arrears", "collection", "invoices", "returns"]
