"""The finance desk."""

from billing.admin import arrears, balances, collection, exports, fapiao, invoices, returns, transfers

__all__ = ["arrears", "balances", "collection", "exports", "fapiao", "invoices", "returns", "transfers"]
