"""The desk for what is sold: quotes and orders, and what is agreed apart from them."""

from orders.admin import agreements, sales

__all__ = ["agreements", "sales"]
