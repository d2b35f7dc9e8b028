"""The finance desk."""

from billing.admin import arrears, balances, books, collection, exports, fapiao, invoices, returns, transfers

__all__ = ["arrears", "balances", "books", "collection", "exports", "fapiao", "invoices", "returns", "transfers"]
