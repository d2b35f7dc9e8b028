"""The finance desk."""

from billing.admin import arrears, collection, exports, invoices, returns

__all__ = ["arrears", "collection", "exports", "invoices", "returns"]
