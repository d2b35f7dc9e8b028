"""What there is: pools, hosts, cards, and who has or will have them."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper  # a range's upper bound in PostgreSQL
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from catalog.changes import leave_a_change
from catalog.models.cards import GpuModel
from catalog.models.places import Region


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
        triggers = [leave_a_change()]
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
        triggers = [leave_a_change()]
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
        triggers = [leave_a_change()]
        constraints = [models.CheckConstraint(condition=Q(cards__gt=0), name="reservation_has_cards")]
        # The next one to end, asked for with every page.
        indexes = [models.Index(Upper("period"), name="reservation_end")]

    def __str__(self) -> str:
        return f"{self.pool} · {self.cards}"
