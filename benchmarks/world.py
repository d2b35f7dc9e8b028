"""Who buys and what is sold in the order figures. Needs a configured Django."""

from __future__ import annotations

import re
from dataclasses import dataclass

import asyncssh
from allauth.account.models import EmailAddress
from django.conf import settings
from django.db import connection
from django.db.models import F
from django.test import Client

from accounts import actions as accounts
from accounts.models import CreditLine, Organization, Project, SshKey, User
from benchmarks import load
from catalog.models import Gpu, Host, Image, Offer, Pool, Price
from catalog.queries import current_prices
from marketplace.lib import clock
from orders.forms import rate_text
from orders.pricing import headroom

CARDS_PER_HOST = 8
CREDIT_MINOR = 10**12


@dataclass(frozen=True, slots=True)
class Buyer:
    """A person with a session, an organization with ample credit, and a key."""

    user: User
    organization: Organization
    project: Project
    key: SshKey
    cookies: dict[str, str]


def buyer(number: int) -> Buyer:
    at = clock.now()
    user = User.objects.create_user(f"buyer{number}@example.com")
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    organization = accounts.open_organization(owner=user, name=f"Buyer {number}", currency="CNY", at=at)
    CreditLine.objects.filter(organization=organization).update(limit_minor=CREDIT_MINOR, available_minor=CREDIT_MINOR)
    text = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    key = accounts.add_ssh_key(organization=organization, name="bench", text=text, actor=user, at=at)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    cookies = {
        settings.SESSION_COOKIE_NAME: client.cookies[settings.SESSION_COOKIE_NAME].value,
        settings.CSRF_COOKIE_NAME: "c" * 32,
    }
    return Buyer(user, organization, organization.projects.get(), key, cookies)


def offer_of(name: str, *, cards: int) -> Offer:
    """A new offer of single cards on a pool of its own with this many cards, like one of the catalogue's."""
    like = Offer.objects.filter(enabled=True, quote_only=False, cards_per_unit=1, pool__isnull=False).earliest("slug")
    rates = current_prices(like.pk, "CNY", clock.now())[like.pk]
    pool = Pool.objects.get(pk=like.pool_id)
    pool.pk, pool.code, pool._state.adding = None, name, True
    pool.save()
    for number, first in enumerate(range(0, cards, CARDS_PER_HOST)):
        size = min(CARDS_PER_HOST, cards - first)
        host = Host.objects.create(pool=pool, name=f"{name}-{number:03}", cards_total=size, cards_free=size)
        Gpu.objects.bulk_create(Gpu(host=host, slot=slot, serial=f"{host.name}-{slot}") for slot in range(size))
    offer = Offer.objects.get(pk=like.pk)
    offer.pk, offer.slug, offer.pool, offer._state.adding = None, name, pool, True
    offer.save()
    Price.objects.bulk_create(
        Price(offer=offer, meter=price.meter, currency="CNY", rate=price.rate, valid_from=price.valid_from)
        for price in rates.values()
    )
    return offer


def order_request(url: str, offer: Offer, buyer: Buyer) -> str:
    """One hourly card, as the order form sends it."""
    prices = current_prices(offer.pk, "CNY", clock.now())[offer.pk]
    form = {
        "csrfmiddlewaretoken": buyer.cookies[settings.CSRF_COOKIE_NAME],
        "quantity": 1,
        "term": "hour",
        "periods": 1,
        "image": image_of(offer).slug,
        "ssh_keys": str(buyer.key.key),
        "request_key": load.FRESH,
        "seen_rate": rate_text(prices["card_hour"].rate),
        "seen_choice": "1/hour/1",
    }
    return load.request("POST", f"{url}/order/{offer.slug}/", cookies=buyer.cookies, form=form)


def bare_order_request(url: str, offer: Offer, buyer: Buyer) -> str:
    """The same wish, with everything that the product finds out by itself already looked up."""
    prices = current_prices(offer.pk, "CNY", clock.now())[offer.pk]
    rate = prices["card_hour"].rate
    form = {
        "csrfmiddlewaretoken": buyer.cookies[settings.CSRF_COOKIE_NAME],
        "organization": buyer.organization.pk,
        "project": buyer.project.pk,
        "pool": offer.pool_id,
        "offer": offer.pk,
        "image": image_of(offer).pk,
        "public_key": buyer.key.public_key,
        "request_key": load.FRESH,
        "disk_gb": offer.disk_gb or 0,
        "rate": rate,
        "disk_rate": prices["disk_gb_hour"].rate,
        "headroom": headroom(cards=1, rate=rate, hours=settings.HEADROOM_HOURS, currency="CNY").minor,
    }
    return load.request("POST", f"{url}/order/", cookies=buyer.cookies, form=form)


def free_in(row: str) -> int:
    """Free cards as a row of the list shows them; 0 when it shows that none can be had."""
    found = re.search(r'data-status="available".*?</span>\s*(\d+)', row, re.DOTALL)
    return int(found[1]) if found else 0


def image_of(offer: Offer) -> Image:
    return Image.objects.filter(enabled=True, software_stack=offer.gpu_model.software_stack).earliest("pk")


def take_orders_back(pool_id: int) -> None:
    """As before the first order, and as quick to search: every card free, every order and commitment forgotten."""
    Host.objects.filter(pool=pool_id).update(cards_free=F("cards_total"))
    Gpu.objects.filter(host__pool=pool_id).update(holder=None)
    CreditLine.objects.update(committed_minor=0)
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE catalog_allocation, orders_order CASCADE")
        cursor.execute("VACUUM ANALYZE catalog_host, catalog_gpu, accounts_creditline")


def rows_of(pool_id: int) -> dict[str, int]:
    """How many rows the orders on this pool have left, by table, and what the cards and the credit lines say."""
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, {"pool": pool_id})
        row = cursor.fetchone()
        return dict(zip([column.name for column in cursor.description], row, strict=True))


_ROWS = """
WITH cards AS (SELECT g.* FROM catalog_gpu g JOIN catalog_host h ON h.id = g.host_id WHERE h.pool_id = %(pool)s),
     lines AS (SELECT l.* FROM orders_orderline l JOIN catalog_offer o ON o.id = l.offer_id WHERE o.pool_id = %(pool)s)
SELECT (SELECT count(DISTINCT order_id) FROM lines) AS orders,
       (SELECT count(*) FROM lines) AS lines,
       (SELECT count(*) FROM orders_orderevent WHERE order_id IN (SELECT order_id FROM lines)) AS events,
       (SELECT count(*) FROM orders_subscription WHERE order_line_id IN (SELECT id FROM lines)) AS subscriptions,
       (SELECT count(*) FROM catalog_allocation a JOIN lines ON a.holder = lines.units[1]
         WHERE a.gpu_id IN (SELECT id FROM cards)) AS allocations,
       (SELECT count(DISTINCT holder) FROM cards) AS held,
       (SELECT sum(cards_total - cards_free)::int FROM catalog_host WHERE pool_id = %(pool)s) AS counted,
       (SELECT count(*)::int FROM orders_subscription s JOIN lines ON s.order_line_id = lines.id
         WHERE s.headroom_minor > 0) AS committed
"""
