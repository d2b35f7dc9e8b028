"""Customers and tax rates: looked up first, made when there is none."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from .client import PAGE, digest, idempotent, services, translated_errors
from .facts import plain_of


def ensure_customer(
    *, key: str, name: str, email: str, metadata: Mapping[str, str] | None = None, version: int = 1
) -> str:
    """The id of the customer that stands for `key` (an organization's uuid), made when there is none.

    Keep the id: the look-up goes by e-mail, so a customer whose e-mail changed and whose id was lost is made anew.
    `version` grows after a 500 that Stripe remembers for the key.
    """
    with translated_errors(write=False):
        for customer in services().customers.list({"email": email, "limit": PAGE}).auto_paging_iter():
            if plain_of(customer).get("metadata", {}).get("customer_key") == key:
                return str(customer.id)
    params: Any = {"name": name, "email": email, "metadata": {**(metadata or {}), "customer_key": key}}
    with translated_errors(write=True):
        return str(services().customers.create(params, idempotent(f"customer:{key}:v{version}:{digest(params)}")).id)


def ensure_tax_rate(*, percent: Decimal, inclusive: bool, country: str, display_name: str, version: int = 1) -> str:
    """The id of the active tax rate with exactly these facts, made when there is none. `percent` 6 means 6 %.

    `version` grows after a 500 that Stripe remembers for the key.
    """
    figure = f"{percent.normalize():f}"
    fact = f"{country}:{figure}:{'inclusive' if inclusive else 'exclusive'}:{display_name}"
    with translated_errors(write=False):
        found = services().tax_rates.list({"active": True, "inclusive": inclusive, "limit": PAGE})
        for rate in found.auto_paging_iter():
            if (plain_of(rate).get("metadata") or {}).get("tax_rate_key") == fact:
                return str(rate.id)
    params: Any = {
        "display_name": display_name,
        "inclusive": inclusive,
        "percentage": figure,
        "country": country,
        "metadata": {"tax_rate_key": fact},
    }
    with translated_errors(write=True):
        return str(services().tax_rates.create(params, idempotent(f"tax:v{version}:{digest(params)}")).id)
