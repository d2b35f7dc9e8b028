"""Questions about orders, and about what could be ordered instead."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Exists, F, Model, OuterRef, Prefetch, Q, QuerySet
from django.db.models.functions import Abs

from accounts.models import Organization, Project, SshKey, User
from catalog.models import GpuModel, Image, Offer, Pool, Region
from catalog.queries import AGREED, stock
from marketplace.lib import prepared
from orders.models import Order, OrderLine, Quote, QuoteEvent, QuoteLine, Subscription

# Every sweep that moves an order comes round within a minute; later than this somebody should look.
SWEPT_WITHIN = timedelta(minutes=10)

# An order about a machine that runs, before it is carried out.
UNSETTLED = (Order.Status.AWAITING_PAYMENT, Order.Status.EXPIRING, Order.Status.CONFIRMED, Order.Status.PROVISIONING)

SELLABLE_KINDS = frozenset({Offer.Kind.GPU, Offer.Kind.SERVER})


# --- what an order needs to know, in one statement each, because every order passes here ------------------------------
@dataclass(frozen=True, slots=True)
class Choices:
    """What a form offers. The objects carry only the fields that ordering needs; any other would be read when asked."""

    keys: list[SshKey]
    projects: list[Project]
    images: list[Image]
    offer: Offer | None = None


# Each in the order of its model's own fields, as `Model.from_db` reads them.
_FIELDS: dict[type[Model], tuple[str, ...]] = {
    SshKey: ("id", "key", "organization_id", "name", "public_key", "fingerprint", "is_default"),
    Project: ("id", "organization_id", "name", "is_default"),
    Image: ("id", "slug", "name", "software_stack", "enabled"),
    Offer: (
        "id", "slug", "kind", "region_id", "gpu_model_id", "pool_id", "cards_per_unit", "vcpus", "memory_gb",
        "disk_gb", "quote_only", "enabled",
    ),
    GpuModel: ("id", "slug", "name", "family", "memory_gb", "software_stack"),
    Pool: ("id", "code", "paused_reason"),
    Region: ("id", "code", "name_zh", "name_en", "enabled"),
}  # fmt: skip


def _json(model: type[Model], alias: str) -> str:
    return f"json_build_array({', '.join(f'{alias}.{name}' for name in _FIELDS[model])})"


def _object(model: type[Model], row: list[Any]) -> Any:
    return model.from_db(connection.alias, _FIELDS[model], row)


_CHOICES = f"""
WITH offered AS (
  SELECT g.software_stack, {_json(Offer, "o")} AS offer, {_json(GpuModel, "g")} AS gpu_model,
         {_json(Pool, "p")} AS pool, {_json(Region, "r")} AS region
  FROM catalog_offer o
  JOIN catalog_gpumodel g ON g.id = o.gpu_model_id
  JOIN catalog_pool p ON p.id = o.pool_id
  JOIN catalog_region r ON r.id = o.region_id
  WHERE o.slug = %(slug)s AND o.enabled AND NOT o.quote_only
)
SELECT
  ARRAY(SELECT {_json(SshKey, "k")} FROM accounts_sshkey k WHERE organization_id = %(organization)s ORDER BY name, id),
  ARRAY(SELECT {_json(Project, "j")} FROM accounts_project j WHERE organization_id = %(organization)s
        ORDER BY name, id),
  ARRAY(SELECT {_json(Image, "i")} FROM catalog_image i JOIN offered USING (software_stack)
        WHERE enabled ORDER BY name, id),
  (SELECT json_build_array(offer, gpu_model, pool, region) FROM offered)
"""  # noqa: S608 - models and fields are constants


def choices(organization: Organization, slug: str = "") -> Choices:
    """The organization's keys and projects; for an offer on sale also the offer, with GPU model, pool and region
    loaded, and the images that run on it. Lists are by name."""
    ((keys, projects, images, found),) = prepared.fetch_all(_CHOICES, {"organization": organization.pk, "slug": slug})
    return Choices(
        keys=[_object(SshKey, row) for row in keys],
        projects=[_object(Project, row) for row in projects],
        images=[_object(Image, row) for row in images],
        offer=_offer(*found) if found else None,
    )


def _offer(offer: list[Any], gpu_model: list[Any], pool: list[Any], region: list[Any]) -> Offer:
    made: Offer = _object(Offer, offer)
    made.gpu_model = _object(GpuModel, gpu_model)
    made.pool = _object(Pool, pool)
    made.region = _object(Region, region)
    return made


class Terms(NamedTuple):
    """What placing needs to know at its instant: rates per card and per GB-hour, None where there is no price in
    force, and whether the buyer's address is verified."""

    rate: Decimal | None
    disk_rate: Decimal | None
    email_verified: bool


_TERMS = f"""
WITH price AS (
  SELECT p.meter, {AGREED} AS rate FROM catalog_price p JOIN catalog_offer o ON o.id = p.offer_id
   WHERE p.offer_id = %(offer)s AND p.meter IN (%(meter)s, 'disk_gb_hour') AND p.currency = %(currency)s
     AND p.valid_from <= %(at)s AND (p.valid_to IS NULL OR p.valid_to > %(at)s)
)
SELECT
  (SELECT rate FROM price WHERE meter = %(meter)s),
  (SELECT rate FROM price WHERE meter = 'disk_gb_hour'),
  EXISTS (SELECT FROM account_emailaddress e JOIN accounts_user u ON u.id = e.user_id
          WHERE u.id = %(user)s AND e.verified AND upper(e.email) = upper(u.email))
"""  # noqa: S608 - fixed text only


def terms_now(*, offer: Offer, meter: str, organization: Organization, user: User, at: datetime) -> Terms:
    """The same answers as `catalog.queries.current_prices` and `accounts.queries.email_is_verified`, at once."""
    values: dict[str, Any] = {
        "offer": offer.pk,
        "meter": meter,
        "organization": organization.pk,
        "currency": organization.currency,
        "user": user.pk,
        "at": at,
    }
    return Terms(*prepared.fetch_all(_TERMS, values)[0])


def offers_on_sale() -> list[Offer]:
    """Everything that visitors may see, by family, model and size, with what a list of choices names: one statement."""
    return list(
        Offer.objects.on_sale()
        .filter(gpu_model__isnull=False)
        .select_related("gpu_model", "region", "pool")
        .only(
            "slug", "kind", "cards_per_unit", "disk_gb", "quote_only", "enabled",
            "gpu_model__slug", "gpu_model__name", "gpu_model__family", "gpu_model__software_stack",
            "region__code", "region__name_zh", "region__name_en", "region__enabled",
            "pool__code", "pool__paused_reason",
        )
        .order_by("gpu_model__family", "gpu_model__name", "region__code", "cards_per_unit", "slug")
    )  # fmt: skip


# --- alternatives and lists -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Alternative:
    """An offer that could be ordered now, and how many units of it are free."""

    offer: Offer
    free_units: int


def alternatives(offer: Offer, *, limit: int = 3) -> list[Alternative]:
    """The nearest offers that have a free unit: same model and region in another size first, then the same model
    elsewhere, the same family, and at last cards with at least as much memory on the same software stack."""
    model = offer.gpu_model
    if model is None:
        return []
    others = (
        Offer.objects.filter(
            enabled=True,
            quote_only=False,
            kind__in=SELLABLE_KINDS,
            pool__paused_reason="",
            region__enabled=True,
            gpu_model__software_stack=model.software_stack,
            gpu_model__memory_gb__gte=model.memory_gb or 0,
        )
        .exclude(pk=offer.pk)
        .annotate(
            other_model=~Q(gpu_model=model),
            other_family=~Q(gpu_model__family=model.family),
            elsewhere=~Q(region=offer.region_id),
            memory=F("gpu_model__memory_gb"),
            size=Abs(F("cards_per_unit") - offer.cards_per_unit),
        )
        .order_by("other_model", "other_family", "elsewhere", "memory", "size", "slug")
        .select_related("gpu_model", "region")
    )
    free = stock([other.pk for other in others])
    found = (Alternative(other, free[other.pk].units) for other in others if other.pk in free)
    return list(islice((one for one in found if one.free_units), limit))


def orders_of(organization: Organization) -> QuerySet[Order]:
    """An organization's orders with the lines and offers a page shows, newest first, in a fixed number of queries."""
    lines = OrderLine.objects.select_related("offer__gpu_model", "offer__region", "image").order_by("pk")
    return (
        Order.objects.filter(organization=organization)
        .select_related("project", "placed_by")
        .prefetch_related(Prefetch("lines", lines))
    )


def ordered_before(organization: Organization, request_key: str) -> Order | None:
    """The order that an earlier request with this key has made."""
    return Order.objects.filter(organization=organization, request_key=request_key).first()


def unsettled_order_of(subscription: Subscription) -> Order | None:
    """The order about going on with this subscription that is neither carried out nor given up."""
    lines = OrderLine.objects.filter(continues=subscription, order__status__in=UNSETTLED)
    line = lines.select_related("order").first()
    return line.order if line else None


def readable_quotes() -> QuerySet[Quote]:
    """Quotes that customers may read, with what their page shows: those that have been sent, and what customers asked
    for themselves. `was_sent` says whether its prices are theirs to see; a draft's are still sales' own. A version that
    sales began and superseded before it was sent never had readers."""
    sent = Exists(QuoteEvent.objects.filter(quote=OuterRef("pk"), status=Quote.Status.SENT))
    lines = QuoteLine.objects.select_related("offer__gpu_model", "offer__region", "image")
    return (
        Quote.objects.annotate(was_sent=sent)
        .filter(Q(was_sent=True) | Q(origin=Quote.Origin.CUSTOMER))
        .select_related("organization", "salesperson", "order")
        .prefetch_related(Prefetch("lines", lines))
    )


def quotes_of(organization: Organization) -> QuerySet[Quote]:
    """An organization's quotes and requests for one, newest first, in a fixed number of statements."""
    return readable_quotes().filter(organization=organization).order_by("-created_at", "-pk")


def requests_waiting() -> QuerySet[Quote]:
    """What customers asked for and nobody has answered."""
    return Quote.objects.filter(origin=Quote.Origin.CUSTOMER, status=Quote.Status.DRAFT)


def standing_still(at: datetime) -> QuerySet[Order]:
    """Orders that the sweeps should have moved on by `at`: neither settled after their hold nor given machines."""
    swept = (Order.Status.EXPIRING, Order.Status.CONFIRMED)
    return Order.objects.filter(status__in=swept, events__status=F("status"), events__at__lt=at - SWEPT_WITHIN)
