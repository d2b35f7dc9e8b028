"""What is agreed apart from single orders: volume tiers, commitments, packs of card-hours, and services that recur."""

import uuid
from datetime import datetime

import pghistory
import pgtrigger
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeBoundary, RangeOperators
from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Coalesce
from django.utils import translation
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES, Organization, Project, User
from orders.models.orders import Order
from orders.models.quotes import Quote


class DatedQuerySet(models.QuerySet):
    def in_force(self, at: datetime) -> "DatedQuerySet":
        """Rows whose `[valid_from, valid_to)` holds the instant."""
        return self.filter(Q(valid_to__isnull=True) | Q(valid_to__gt=at), valid_from__lte=at)

    def overlapping(self, start: datetime, end: datetime) -> "DatedQuerySet":
        """Rows in force at some instant of `[start, end)`."""
        return self.filter(Q(valid_to__isnull=True) | Q(valid_to__gt=start), valid_from__lt=end)


def validity() -> Func:
    """`[valid_from, valid_to)` as a range, for constraints."""
    return Func("valid_from", "valid_to", RangeBoundary(), function="TSTZRANGE", output_field=DateTimeRangeField())


def started_is_fixed(*columns: str) -> list[pgtrigger.Trigger]:
    """Once such a row has begun, only its end may change, and it stays."""
    old, new = (", ".join(f"{row}.{column}" for column in (*columns, "valid_from")) for row in ("OLD", "NEW"))
    return [
        pgtrigger.Protect(
            name="started_is_fixed",
            operation=pgtrigger.Update,
            condition=pgtrigger.Condition(f"OLD.valid_from <= now() AND ({old}) IS DISTINCT FROM ({new})"),
        ),
        pgtrigger.Protect(
            name="started_stays",
            operation=pgtrigger.Delete,
            condition=pgtrigger.Condition("OLD.valid_from <= now()"),
        ),
    ]


@pghistory.track()
class VolumeTier(models.Model):
    """Card-hours of a month beyond `from_card_hours` of one class of cards are that much cheaper.

    For one organization, or for all where none is named; an organization with tiers of its own has only those.
    """

    organization = models.ForeignKey(
        Organization,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="volume_tiers",
        verbose_name=_("organization"),
        help_text=_("Empty: for every customer."),
    )
    gpu_class = models.CharField(_("class of cards"), max_length=20)
    from_card_hours = models.PositiveIntegerField(_("from card-hours a month"))
    discount_percent = models.DecimalField(_("discount (%)"), max_digits=5, decimal_places=2)
    valid_from = models.DateTimeField(_("valid from"))
    valid_to = models.DateTimeField(_("valid to"), null=True, blank=True)

    objects = DatedQuerySet.as_manager()

    class Meta:
        verbose_name = _("volume tier")
        verbose_name_plural = _("volume tiers")
        ordering = ["organization", "gpu_class", "from_card_hours", "valid_from"]
        constraints = [
            models.CheckConstraint(
                condition=Q(discount_percent__gt=0, discount_percent__lte=100), name="volume_tier_discount"
            ),
            models.CheckConstraint(
                condition=Q(valid_to__isnull=True) | Q(valid_to__gt=F("valid_from")), name="volume_tier_ordered"
            ),
            ExclusionConstraint(
                name="volume_tier_one_at_a_time",
                expressions=[
                    (Coalesce(F("organization"), Value(0)), RangeOperators.EQUAL),
                    ("gpu_class", RangeOperators.EQUAL),
                    ("from_card_hours", RangeOperators.EQUAL),
                    (validity(), RangeOperators.OVERLAPS),
                ],
            ),
        ]
        triggers = started_is_fixed("organization_id", "gpu_class", "from_card_hours", "discount_percent")

    def __str__(self) -> str:
        return f"≥ {self.from_card_hours}: −{self.discount_percent} %"


@pghistory.track()
class Commitment(models.Model):
    """What an organization pays a month at least, tax included; a shorter use is made up for when the month closes."""

    organization = models.ForeignKey(
        Organization, models.PROTECT, related_name="commitments", verbose_name=_("organization")
    )
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    amount_minor = models.BigIntegerField(_("a month at least (minor units)"))
    tax_percent = models.DecimalField(_("tax (%)"), max_digits=5, decimal_places=2)
    tax_code = models.CharField(_("tax code"), max_length=19)
    valid_from = models.DateTimeField(_("valid from"))
    valid_to = models.DateTimeField(_("valid to"), null=True, blank=True)

    objects = DatedQuerySet.as_manager()

    class Meta:
        verbose_name = _("minimum commitment")
        verbose_name_plural = _("minimum commitments")
        ordering = ["organization", "valid_from"]
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="commitment_positive"),
            models.CheckConstraint(
                condition=Q(valid_to__isnull=True) | Q(valid_to__gt=F("valid_from")), name="commitment_ordered"
            ),
            ExclusionConstraint(
                name="commitment_one_at_a_time",
                expressions=[("organization", RangeOperators.EQUAL), (validity(), RangeOperators.OVERLAPS)],
            ),
        ]
        triggers = started_is_fixed("organization_id", "currency", "amount_minor", "tax_percent", "tax_code")

    def __str__(self) -> str:
        return f"{self.organization_id} ≥ {self.amount_minor}"


class Pack(models.Model):
    """Card-hours bought in advance, for every offer of one class of cards. Spent oldest first; what is left expires.

    It can be used from its payment on. `used_seconds` changes only together with a PackDraw, under the row's lock.
    """

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    organization = models.ForeignKey(Organization, models.PROTECT, related_name="packs", verbose_name=_("organization"))
    order = models.OneToOneField(Order, models.PROTECT, related_name="pack", verbose_name=_("order"))
    gpu_class = models.CharField(_("class of cards"), max_length=20)
    card_seconds = models.BigIntegerField(_("card-seconds bought"))
    used_seconds = models.BigIntegerField(_("card-seconds used"), default=0)
    price_minor = models.BigIntegerField(_("price (minor units)"))
    tax_percent = models.DecimalField(_("tax (%)"), max_digits=5, decimal_places=2)
    tax_code = models.CharField(_("tax code"), max_length=19)
    months = models.PositiveSmallIntegerField(_("valid for months"))
    starts_at = models.DateTimeField(_("valid from"), null=True, blank=True)
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)

    class Meta:
        verbose_name = _("pack of card-hours")
        verbose_name_plural = _("packs of card-hours")
        ordering = ["starts_at", "pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(card_seconds__gt=0, used_seconds__gte=0, used_seconds__lte=F("card_seconds")),
                name="pack_used_within_bought",
            ),
            models.CheckConstraint(condition=Q(price_minor__gte=0, months__gt=0), name="pack_terms"),
            models.CheckConstraint(
                condition=Q(starts_at__isnull=True, expires_at__isnull=True, used_seconds=0)
                | Q(starts_at__isnull=False, expires_at__gt=F("starts_at")),
                name="pack_used_once_paid",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pk} · {self.card_seconds // 3600} h"

    @property
    def card_hours(self) -> int:
        return self.card_seconds // 3600

    @property
    def left_seconds(self) -> int:
        return self.card_seconds - self.used_seconds


class PackDraw(models.Model):
    """Append-only: card-seconds that one fact took from a pack, once for each; a negative one gives back."""

    pack = models.ForeignKey(Pack, models.PROTECT, related_name="draws")
    fact = models.CharField(_("fact"), max_length=120)
    card_seconds = models.BigIntegerField(_("card-seconds"))
    at = models.DateTimeField()

    class Meta:
        ordering = ["pack", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["pack", "fact"], name="pack_draw_once"),
            models.CheckConstraint(condition=~Q(card_seconds=0), name="pack_draw_something"),
        ]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return f"{self.pack_id} {self.card_seconds} s"


@pghistory.track()
class Service(models.Model):
    """Something charged once, every month or every year: racks, remote hands, maintenance, a milestone.

    A period is charged in advance, at 00:00 of its first day in the organization's zone; the anchor is the first day's.
    Only the end may change, and only so that no period that has begun becomes shorter.
    """

    class Interval(models.TextChoices):
        ONCE = "once", _("Once")
        MONTH = "month", _("Every month")
        YEAR = "year", _("Every year")

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    organization = models.ForeignKey(
        Organization, models.PROTECT, related_name="services", verbose_name=_("organization")
    )
    project = models.ForeignKey(Project, models.PROTECT, related_name="services", verbose_name=_("project"))
    quote = models.ForeignKey(
        Quote, models.PROTECT, null=True, blank=True, related_name="services", verbose_name=_("quote")
    )
    title_zh = models.CharField(_("title in Chinese"), max_length=100)
    title_en = models.CharField(_("title in English"), max_length=100)
    interval = models.CharField(_("charged"), max_length=5, choices=Interval)
    quantity = models.DecimalField(_("quantity"), max_digits=12, decimal_places=3)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    rate = models.DecimalField(_("unit price"), max_digits=20, decimal_places=10)
    tax_percent = models.DecimalField(_("tax (%)"), max_digits=5, decimal_places=2)
    tax_code = models.CharField(_("tax code"), max_length=19)
    starts_on = models.DateField(_("first day"))
    ends_on = models.DateField(_("first day without it"), null=True, blank=True)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("created by"))
    created_at = models.DateTimeField(_("created at"))

    class Meta:
        verbose_name = _("service")
        verbose_name_plural = _("services")
        ordering = ["organization", "starts_on", "pk"]
        constraints = [
            models.CheckConstraint(condition=Q(quantity__gt=0, rate__gte=0), name="service_counts"),
            models.CheckConstraint(
                condition=Q(ends_on__isnull=True) | Q(ends_on__gt=F("starts_on")), name="service_ordered"
            ),
        ]
        triggers = [
            pgtrigger.Protect(
                name="only_its_end_changes",
                operation=pgtrigger.Update,
                condition=pgtrigger.AnyChange(exclude=["ends_on"]),
            ),
            pgtrigger.Protect(name="stays", operation=pgtrigger.Delete),
        ]

    def __str__(self) -> str:
        return self.title_zh

    @property
    def title(self) -> str:
        """In the reader's language."""
        return self.title_zh if (translation.get_language() or "").startswith("zh") else self.title_en
