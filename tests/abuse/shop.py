"""A customer with one of everything, and every address and form they can reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.test import Client
from django.urls import reverse

from accounts.models import Organization, User
from marketplace.lib import clock
from orders import actions as orders
from tests import factories
from tests.desk import world


@dataclass
class Customer:
    """`addresses` by name, and for every form that posts: its address and fields that are in order."""

    organization: Organization
    owner: User
    addresses: dict[str, str]
    forms: dict[str, tuple[str, dict[str, Any]]]


def customer() -> Customer:
    at = clock.now()
    owner = factories.user()
    organization = factories.organization(owner)
    key = factories.ssh_key(organization)
    offer = factories.offer(hosts=4)
    image = factories.image()
    hourly = factories.order(organization, offer, at=at)
    monthly = factories.order(organization, offer, term="month", at=at)
    rental = factories.rental(hourly, at=at)
    invoice = factories.invoice(monthly, at=at)
    quote = world.quote(organization)
    orders.send_quote(quote_id=quote.pk, actor=owner, at=at)
    keyed = {
        "accounts:remove_key": key.key,
        "orders:detail": hourly.key,
        "orders:cancel": monthly.key,
        "rentals:detail": rental.key,
        "rentals:live": rental.key,
        "rentals:utilisation": rental.key,
        "rentals:auto_stop": rental.key,
        "rentals:stop": rental.key,
        "rentals:start": rental.key,
        "rentals:terminate": rental.key,
        "billing:invoice": invoice.key,
        "orders:new": offer.slug,
        "catalog:offer": offer.slug,
        "orders:quote": quote.token,
        "billing:export": "csv",
    }
    plain = (
        "home", "healthz", "account_login", "account_signup", "account_reset_password", "account_email",
        "account_change_password", "account_logout", "mfa_index", "catalog:list", "catalog:counts", "orders:list",
        "rentals:overview", "rentals:list", "rentals:activity",
        "billing:overview", "billing:invoices", "accounts:keys", "accounts:organization",
    )  # fmt: skip
    addresses = {name: reverse(name) for name in plain}
    addresses |= {name: reverse(name, args=[value]) for name, value in keyed.items()}
    choice = {
        "quantity": "1", "term": "hour", "periods": "1", "image": image.slug, "ssh_keys": str(key.key),
        "new_key": "", "new_key_name": "", "project": "", "request_key": "abuse", "seen_rate": "2.50",
        "seen_choice": "",
    }  # fmt: skip
    pick = {"ssh_keys": str(key.key), "new_key": "", "new_key_name": "", "project": ""}
    forms = {
        "order": (addresses["orders:new"], choice),
        "price": (addresses["orders:new"], choice | {"update": "1"}),
        "accept a quote": (reverse("orders:accept_quote", args=[quote.token]), pick),
        "decline a quote": (reverse("orders:decline_quote", args=[quote.token]), {"note": ""}),
        "stop when idle": (addresses["rentals:auto_stop"], {"kind": "idle", "minutes": "5", "threshold_percent": "5"}),
        "stop at a time": (addresses["rentals:auto_stop"], {"kind": "at_time", "stop_at": "2040-01-01T00:00"}),
        "stop at a cost": (addresses["rentals:auto_stop"], {"kind": "at_spend", "amount": "100"}),
        "add a key": (addresses["accounts:keys"], {"name": "n", "public_key": factories.new_public_key()}),
        "switch": (reverse("accounts:switch", args=[organization.key]), {"next": ""}),
        "currency": (reverse("set_currency"), {"currency": "CNY", "next": "/"}),
        "language": (reverse("set_language"), {"language": "en", "next": "/"}),
        "log in": (reverse("account_login"), {"login": owner.email, "password": "wrong", "remember": "on", "next": ""}),
        "sign up": (
            reverse("account_signup"),
            {"email": "new@example.com", "password1": "qixing-2026-ok", "organization": "七星", "currency": "CNY"},
        ),
        "forgot": (reverse("account_reset_password"), {"email": owner.email}),
        "e-mail": (reverse("account_email"), {"email": "other@example.com", "action_add": "1"}),
        "password": (
            reverse("account_change_password"),
            {"oldpassword": factories.PASSWORD, "password1": "neu-2026-ok", "password2": "neu-2026-ok"},
        ),
    }
    return Customer(organization, owner, addresses, forms)


def signed_in(person: User, language: str = "en") -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    client.cookies["django_language"] = language
    return client
