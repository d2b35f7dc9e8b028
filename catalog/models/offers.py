"""What is sold, and at which dated price."""

from datetime import datetime

import pghistory
import pgtrigger
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeBoundary, RangeOperators
from django.db import models
from django.db.models import F, Func, Q
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES
from catalog.changes import leave_a_change
from catalog.models.cards import GpuModel
from catalog.models.places import Region
from catalog.models.stock import Pool


class OfferQuerySet(models.QuerySet):
    def on_sale(self) -> "OfferQuerySet":
        """Offers that visitors may see: switched on, in a region that is."""
        return self.filter(enabled=True, region__enabled=True)


@pghistory.track()
class Offer(models.Model):
    """Something with a price: `cards_per_unit` cards of one host, rented as one machine."""

    class Kind(models.TextChoices):
        GPU = "gpu", _("GPU")
        SERVER = "server", _("Whole server")
        CLUSTER = "cluster", _("Cluster")
        COLOCATION = "colocation", _("Colocation")
        SERVICE = "service", _("Service")

    class Fabric(models.TextChoices):
        NONE = "", _("None")
        INFINIBAND = "infiniband", "InfiniBand"
        ROCE = "rocev2", "RoCEv2"
        ETHERNET = "ethernet", _("Ethernet")

    class Cooling(models.TextChoices):
        AIR = "air", _("Air")
        LIQUID = "liquid", _("Liquid")

    class Isolation(models.TextChoices):
        CONTAINER = "container", _("Container")
        VM = "vm", _("Virtual machine")
        BARE_METAL = "bare_metal", _("Bare metal")

    slug = models.SlugField(_("slug"), max_length=80, unique=True)
    kind = models.CharField(_("kind"), max_length=12, choices=Kind)
    region = models.ForeignKey(Region, models.PROTECT, related_name="offers", verbose_name=_("region"))
    gpu_model = models.ForeignKey(
        GpuModel, models.PROTECT, null=True, blank=True, related_name="offers", verbose_name=_("GPU model")
    )
    pool = models.ForeignKey(Pool, models.PROTECT, null=True, blank=True, related_name="offers", verbose_name=_("pool"))
    cards_per_unit = models.PositiveIntegerField(_("cards per unit"))
    vcpus = models.PositiveIntegerField(_("vCPUs per unit"), null=True, blank=True)
    memory_gb = models.PositiveIntegerField(_("RAM per unit (GB)"), null=True, blank=True)
    disk_gb = models.PositiveIntegerField(_("NVMe per unit (GB)"), null=True, blank=True)
    fabric = models.CharField(_("fabric"), max_length=12, choices=Fabric, blank=True)
    fabric_gbps = models.DecimalField(
        _("fabric (Gb/s per card)"), max_digits=9, decimal_places=3, null=True, blank=True
    )
    fabric_basis = models.CharField(_("basis of the fabric figure"), max_length=300, blank=True)
    fabric_report = models.CharField(_("fabric test report"), max_length=300, blank=True)
    fabric_tested_on = models.DateField(_("fabric tested on"), null=True, blank=True)
    cooling = models.CharField(_("cooling"), max_length=10, choices=Cooling, default=Cooling.AIR)
    isolation = models.CharField(_("isolation"), max_length=12, choices=Isolation, default=Isolation.CONTAINER)
    sla_percent = models.DecimalField(
        _("availability promised (%)"), max_digits=5, decimal_places=3, null=True, blank=True
    )
    response_minutes = models.PositiveIntegerField(_("response time (minutes)"), null=True, blank=True)
    quote_only = models.BooleanField(_("on quote only"), default=False)
    enabled = models.BooleanField(_("enabled"), default=True)

    objects = OfferQuerySet.as_manager()

    class Meta:
        verbose_name = _("offer")
        verbose_name_plural = _("offers")
        triggers = [leave_a_change()]
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(kind__in=["gpu", "server", "cluster"])
                | Q(gpu_model__isnull=False, pool__isnull=False, cards_per_unit__gt=0)
                | Q(gpu_model__isnull=False, quote_only=True),
                name="offer_has_cards",
            )
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def title(self) -> str:
        """Model and size, e.g. “NVIDIA H100 SXM5 80GB × 8”; needs the GPU model loaded."""
        if self.gpu_model is None:
            return self.slug
        return f"{self.gpu_model.name} × {self.cards_per_unit}"


class PriceQuerySet(models.QuerySet):
    def in_force(self, at: datetime) -> "PriceQuerySet":
        """Prices whose `[valid_from, valid_to)` holds the instant."""
        return self.filter(Q(valid_to__isnull=True) | Q(valid_to__gt=at), valid_from__lte=at)


@pghistory.track()
class Price(models.Model):
    """A rate for one meter of an offer in one currency over `[valid_from, valid_to)`, tax included for CNY.

    `card_hour`, `month` and `year` are per card; `disk_gb_hour` is per GB. Once started only its end may change.
    """

    class Meter(models.TextChoices):
        CARD_HOUR = "card_hour", _("Card-hour")
        MONTH = "month", _("Card-month")
        YEAR = "year", _("Card-year")
        DISK_GB_HOUR = "disk_gb_hour", _("GB-hour of disk")
        KW_MONTH = "kw_month", _("kW-month")
        UNIT_MONTH = "unit_month", _("Rack-unit-month")
        ONCE = "once", _("Once")

    offer = models.ForeignKey(Offer, models.PROTECT, related_name="prices", verbose_name=_("offer"))
    meter = models.CharField(_("meter"), max_length=12, choices=Meter)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    rate = models.DecimalField(_("rate"), max_digits=20, decimal_places=10)
    valid_from = models.DateTimeField(_("valid from"))
    valid_to = models.DateTimeField(_("valid to"), null=True, blank=True)

    objects = PriceQuerySet.as_manager()

    class Meta:
        verbose_name = _("price")
        verbose_name_plural = _("prices")
        ordering = ["offer", "meter", "currency", "valid_from"]
        indexes = [
            # The next dated price, asked for with every page.
            models.Index(fields=["valid_from"], name="price_from"),
            models.Index(fields=["valid_to"], name="price_to"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(rate__gte=0), name="price_not_negative"),
            models.CheckConstraint(
                condition=Q(valid_to__isnull=True) | Q(valid_to__gt=F("valid_from")), name="price_period_ordered"
            ),
            ExclusionConstraint(
                name="price_one_at_a_time",
                expressions=[
                    ("offer", RangeOperators.EQUAL),
                    ("meter", RangeOperators.EQUAL),
                    ("currency", RangeOperators.EQUAL),
                    (
                        Func(
                            "valid_from",
                            "valid_to",
                            RangeBoundary(),
                            function="TSTZRANGE",
                            output_field=DateTimeRangeField(),
                        ),
                        RangeOperators.OVERLAPS,
                    ),
                ],
            ),
        ]
        triggers = [
            leave_a_change(),
            pgtrigger.Protect(
                name="started_price_is_fixed",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition(
                    "OLD.valid_from <= now() AND (OLD.offer_id, OLD.meter, OLD.currency, OLD.rate, OLD.valid_from)"
                    " IS DISTINCT FROM (NEW.offer_id, NEW.meter, NEW.currency, NEW.rate, NEW.valid_from)"
                ),
            ),
            pgtrigger.Protect(
                name="started_price_stays",
                operation=pgtrigger.Delete,
                condition=pgtrigger.Condition("OLD.valid_from <= now()"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.offer_id} {self.meter} {self.currency} {self.rate}"
