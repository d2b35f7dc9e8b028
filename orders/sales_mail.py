"""Mails to the sales staff about requests for a quote. The quotes are the queue: one waits while it has
`sales_mail_due_at`.

A request is leased in a transaction of its own, mailed outside of any, then marked, as notices are: whoever is killed
between the two lets that one mail go out again, under the same Message-ID.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.models import User
from marketplace.lib.product import PRODUCT_NAME
from orders.models import Quote

logger = logging.getLogger(__name__)

SALES = "sales"
# Longer than a mail server is waited for; then another worker may take the mail.
LEASE = timedelta(minutes=5)
SHORTEST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)
GIVEN_UP_AFTER = timedelta(days=3)


def tell_sales(*, at: datetime) -> bool:
    """Mail the request that has waited longest to everybody of sales, in the site's first language; False when none is
    due or the mail could not be sent, so that the queue may wait.

    A mail that fails, or has nobody to go to, is tried again after a pause as long as the request is old, an hour at
    most, for three days. Not to be called inside a transaction.
    """
    quote = _claim(at)
    if quote is None:
        return False
    addresses = _addresses()
    try:
        if addresses:
            message(quote, addresses).send()
            _mark(quote, None)
            return True
        logger.warning("nobody of the group %s has an address: request %s waits", SALES, quote.number)
    except Exception:
        logger.exception("mail about request %s not sent", quote.number)
    age = at - quote.created_at
    pause = min(max(age, SHORTEST_PAUSE), LONGEST_PAUSE)
    _mark(quote, at + pause if age < GIVEN_UP_AFTER else None)
    return False


def message(quote: Quote, addresses: Sequence[str]) -> EmailMessage:
    site = settings.SITE_URL.rstrip("/")
    with translation.override(settings.LANGUAGE_CODE):
        asker = quote.contact_company or quote.contact_name or quote.contact_email
        subject = _("[%(product)s] Quote request %(number)s: %(asker)s") % {
            "product": PRODUCT_NAME, "number": quote.number, "asker": asker,
        }  # fmt: skip
        body = render_to_string(
            "emails/quote_request.txt",
            {
                "quote": quote,
                "address": site + reverse("admin:orders_quote_change", args=[quote.pk]),
                "product": PRODUCT_NAME,
                "site": site,
            },
        )
    return EmailMessage(
        subject=" ".join(subject.split()),
        body=body,
        to=list(addresses),
        headers={
            "Message-ID": f"<quote-{quote.key}@{urlsplit(site).hostname or 'localhost'}>",
            "Auto-Submitted": "auto-generated",
        },
    )


@transaction.atomic
def _claim(at: datetime) -> Quote | None:
    due = Quote.objects.filter(sales_mail_due_at__lte=at).select_for_update(skip_locked=True, no_key=True)
    quote = due.order_by("sales_mail_due_at", "pk").first()
    if quote is not None:
        _mark(quote, at + LEASE)
        quote.sales_mail_due_at = at + LEASE
    return quote


def _mark(quote: Quote, due: datetime | None) -> None:
    """Only while the lease is ours: another worker may have taken the request after it ran out."""
    Quote.objects.filter(pk=quote.pk, sales_mail_due_at=quote.sales_mail_due_at).update(sales_mail_due_at=due)


def _addresses() -> list[str]:
    people = User.objects.filter(is_active=True, is_staff=True, groups__name=SALES).exclude(email="")
    return list(people.order_by("pk").values_list("email", flat=True))
