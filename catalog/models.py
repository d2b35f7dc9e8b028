"""What is sold and what it is made of: regions, GPU models, images, offers, dated prices, pools, hosts, cards."""

from datetime import datetime

import pghistory
import pgtrigger
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, DateTimeRangeField, RangeBoundary, RangeOperators
from django.db import models
from django.db.models import F, Func, Q
from django.utils.translation import get_language, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES


class Region(models.Model):
    """A place where machines stand."""

    code = models.SlugField(_("code"), unique=True)
    name_zh = models.CharField(_("name (Chinese)"), max_length=60)
    name_en = models.CharField(_("name (English)"), max_length=60)
    admin_code = models.CharField(_("administrative code"), max_length=6)
    timezone = models.CharField(_("time zone"), max_length=50)
    has_machine_room = models.BooleanField(_("has a machine room"), default=False)
    enabled = models.BooleanField(_("enabled"), default=True)
    is_default = models.BooleanField(_("default"), default=False)
    basis = models.TextField(_("basis of the facts"), blank=True)

    class Meta:
        verbose_name = _("region")
        verbose_name_plural = _("regions")
        ordering = ["-is_default", "code"]
        constraints = [
            models.UniqueConstraint(fields=["is_default"], condition=Q(is_default=True), name="region_one_default")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """In the reader's language."""
        return self.name_zh if (get_language() or "").startswith("zh") else self.name_en


class Source(models.Model):
    """Where a figure of the catalogue comes from."""

    key = models.CharField(_("key"), max_length=40, unique=True)
    url = models.URLField(_("address"), max_length=500)
    what = models.TextField(_("what it is"))
    grade = models.CharField(_("grade"), max_length=80)

    class Meta:
        verbose_name = _("source")
        verbose_name_plural = _("sources")

    def __str__(self) -> str:
        return self.key


class GpuModel(models.Model):
    """An accelerator. Rates are dense TFLOPS (INT8: TOPS); null means not published: a dash, never zero."""

    slug = models.SlugField(_("slug"), unique=True)
    name = models.CharField(_("name"), max_length=80)
    aliases = ArrayField(models.CharField(max_length=60), verbose_name=_("aliases"), default=list, blank=True)
    vendor = models.CharField(_("vendor"), max_length=40)
    family = models.CharField(_("family"), max_length=40)
    architecture = models.CharField(_("architecture"), max_length=60, null=True, blank=True)
    memory_gb = models.PositiveIntegerField(_("memory (GB)"), null=True, blank=True)
    memory_type = models.CharField(_("memory type"), max_length=20, null=True, blank=True)
    memory_bandwidth_gbps = models.DecimalField(
        _("memory bandwidth (GB/s)"), max_digits=9, decimal_places=2, null=True, blank=True
    )
    fp64_tflops = models.DecimalField("FP64 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    fp32_tflops = models.DecimalField("FP32 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    tf32_tflops = models.DecimalField("TF32 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    bf16_tflops = models.DecimalField("BF16 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    fp16_tflops = models.DecimalField("FP16 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    fp8_tflops = models.DecimalField("FP8 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    fp4_tflops = models.DecimalField("FP4 (TFLOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    int8_tops = models.DecimalField("INT8 (TOPS)", max_digits=9, decimal_places=3, null=True, blank=True)
    measured_bf16_tflops = models.DecimalField(
        _("BF16 measured (TFLOPS)"), max_digits=9, decimal_places=3, null=True, blank=True
    )
    tdp_watts = models.PositiveIntegerField(_("power (W)"), null=True, blank=True)
    form_factor = models.CharField(_("form factor"), max_length=60, null=True, blank=True)
    interconnect_type = models.CharField(_("in-node link"), max_length=80, null=True, blank=True)
    interconnect_gbps = models.DecimalField(
        _("in-node link (GB/s per card, both directions)"), max_digits=9, decimal_places=2, null=True, blank=True
    )
    host_bus = models.CharField(_("host bus"), max_length=60, null=True, blank=True)
    host_bus_gbps = models.DecimalField(
        _("host bus (GB/s, both directions)"), max_digits=9, decimal_places=2, null=True, blank=True
    )
    release_year = models.PositiveIntegerField(_("release year"), null=True, blank=True)
    max_gpus_per_node = models.PositiveIntegerField(_("cards per node at most"), null=True, blank=True)
    software_stack = models.CharField(_("software stack"), max_length=40)
    domestic = models.BooleanField(_("domestic"), default=False)
    rental_class = models.CharField(_("class"), max_length=20)
    quote_only = models.BooleanField(_("on quote only"), default=False)
    notes = models.TextField(_("notes"), blank=True)
    sources = models.JSONField(_("sources by field"), default=dict, blank=True)
    uncertain = models.JSONField(_("uncertain fields and why"), default=dict, blank=True)

    class Meta:
        verbose_name = _("GPU model")
        verbose_name_plural = _("GPU models")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def doubt(self, field: str) -> str:
        """Why this field (or the whole record) is uncertain, or an empty string."""
        return self.uncertain.get(field) or self.uncertain.get("*") or ""


class Image(models.Model):
    """A system image. An offer shows only the images of its cards' software stack."""

    slug = models.SlugField(_("slug"), unique=True)
    name = models.CharField(_("name"), max_length=80)
    software_stack = models.CharField(_("software stack"), max_length=40)
    stack_version = models.CharField(_("stack version"), max_length=20)
    framework = models.CharField(_("framework"), max_length=60, blank=True)
    operating_system = models.CharField(_("operating system"), max_length=40)
    driver_range = models.CharField(_("driver range"), max_length=40, blank=True)
    digest = models.CharField(_("digest"), max_length=80)
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        verbose_name = _("image")
        verbose_name_plural = _("images")
        ordering = ["software_stack", "name"]

    def __str__(self) -> str:
        return self.name


class Pool(models.Model):
    """Hosts of one kind behind one engine. The credential is a reference (env:NAME or file:/path), never the secret."""

    class Driver(models.TextChoices):
        DEMO = "demo", _("Demonstration")

    code = models.SlugField(_("code"), unique=True)
    region = models.ForeignKey(Region, models.PROTECT, related_name="pools", verbose_name=_("region"))
    gpu_model = models.ForeignKey(GpuModel, models.PROTECT, related_name="pools", verbose_name=_("GPU model"))
    driver = models.CharField(_("driver"), max_length=20, choices=Driver)
    endpoint = models.CharField(_("endpoint"), max_length=300)
    credential_ref = models.CharField(_("credential reference"), max_length=200)
    resource_name = models.CharField(_("resource name"), max_length=60)
    paused_reason = models.CharField(_("paused because"), max_length=200, blank=True)

    class Meta:
        verbose_name = _("pool")
        verbose_name_plural = _("pools")
        ordering = ["code"]

    def __str__(self) -> str:
        return self.code

    @property
    def is_demo(self) -> bool:
        """Its machines are for demonstration: they have no GPU, which every page that shows one says."""
        return self.driver == self.Driver.DEMO


class Host(models.Model):
    """A machine with cards. `cards_free` changes only inside a claim or release that holds this row's lock."""

    class State(models.TextChoices):
        ACTIVE = "active", pgettext_lazy("host", "Active")
        DRAINING = "draining", _("Draining")
        OFFLINE = "offline", _("Offline")

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="hosts", verbose_name=_("pool"))
    name = models.CharField(_("name"), max_length=60, unique=True)
    fabric_group = models.CharField(_("fabric group"), max_length=60, blank=True)
    cards_total = models.PositiveIntegerField(_("cards"))
    cards_free = models.PositiveIntegerField(_("free cards"))
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.ACTIVE)

    class Meta:
        verbose_name = _("host")
        verbose_name_plural = _("hosts")
        ordering = ["name"]
        constraints = [models.CheckConstraint(condition=Q(cards_free__lte=F("cards_total")), name="host_free_in_total")]
        # No index carries cards_free: every claim changes it, and each change would be a new index entry.

    def __str__(self) -> str:
        return self.name


class Gpu(models.Model):
    """One card. `holder` is the unit that has it now; the locked row is what makes a claim exact."""

    host = models.ForeignKey(Host, models.PROTECT, related_name="gpus", verbose_name=_("host"))
    slot = models.PositiveSmallIntegerField(_("slot"))
    serial = models.CharField(_("serial number"), max_length=60, unique=True)
    holder = models.UUIDField(_("holder"), null=True, blank=True, editable=False)
    healthy = models.BooleanField(_("healthy"), default=True)

    class Meta:
        verbose_name = _("card")
        verbose_name_plural = _("cards")
        ordering = ["host", "slot"]
        constraints = [models.UniqueConstraint(fields=["host", "slot"], name="gpu_slot_once")]
        indexes = [models.Index(fields=["holder"], condition=Q(holder__isnull=False), name="gpu_holder")]

    def __str__(self) -> str:
        return self.serial


class Allocation(models.Model):
    """Who had which card when: `[claimed, released)`. The exclusion constraint is the guard behind the row locks."""

    gpu = models.ForeignKey(Gpu, models.PROTECT, related_name="allocations", verbose_name=_("card"))
    period = DateTimeRangeField(_("period"))
    holder = models.UUIDField(_("holder"), db_index=True)

    class Meta:
        verbose_name = _("allocation")
        verbose_name_plural = _("allocations")
        constraints = [
            ExclusionConstraint(
                name="allocation_one_holder",
                expressions=[("gpu", RangeOperators.EQUAL), ("period", RangeOperators.OVERLAPS)],
            )
        ]

    def __str__(self) -> str:
        return f"{self.gpu} → {self.holder}"


class Reservation(models.Model):
    """A quantity of a pool's cards promised for a future period; cards are bound when it starts."""

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="reservations", verbose_name=_("pool"))
    cards = models.PositiveIntegerField(_("cards"))
    period = DateTimeRangeField(_("period"))
    note = models.CharField(_("note"), max_length=200)

    class Meta:
        verbose_name = _("reservation")
        verbose_name_plural = _("reservations")
        constraints = [models.CheckConstraint(condition=Q(cards__gt=0), name="reservation_has_cards")]

    def __str__(self) -> str:
        return f"{self.pool} · {self.cards}"


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
