"""The desk for what is sold, what it is made of and how it is served."""

from catalog.admin import facts, offers, service, stock

__all__ = ["facts", "offers", "service", "stock"]
