"""What a visitor chose: language and currency. Read at the edge from the request; nothing is stored but two cookies."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation

from marketplace.lib import addresses
from marketplace.lib.money import BILLING_CURRENCIES

CURRENCY_COOKIE = "currency"


def language_of(request: HttpRequest) -> str:
    """The language the address names, else that of the visitor's cookie, else the site's first one.

    Accept-Language is not asked: a first answer is the same for everybody and names its language, and the switch is in
    the header of every page.
    """
    named = addresses.language_in(request.path_info)
    if named:
        return named
    chosen = request.COOKIES.get(settings.LANGUAGE_COOKIE_NAME, "")
    try:
        return translation.get_supported_language_variant(chosen)
    except LookupError:
        return settings.LANGUAGE_CODE


def currency_of(request: HttpRequest) -> str:
    """The currency prices are shown in: the organization's own where one is signed in, else the visitor's choice."""
    organization = getattr(request, "organization", None)
    if organization:
        return str(organization.currency)
    chosen = request.COOKIES.get(CURRENCY_COOKIE, "")
    return chosen if chosen in BILLING_CURRENCIES else settings.DEFAULT_CURRENCY


def address_of(request: HttpRequest) -> str | None:
    """Where the request came from; behind our own proxy, what that one saw. None where nobody knows."""
    found = str(request.META.get("REMOTE_ADDR", ""))
    if settings.SECURE_PROXY_SSL_HEADER:
        found = str(request.META.get("HTTP_X_FORWARDED_FOR", "")).rpartition(",")[2].strip() or found
    try:
        return str(ipaddress.ip_address(found))
    except ValueError:
        return None
