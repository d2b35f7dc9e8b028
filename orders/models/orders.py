"""Orders, their lines and events."""

import uuid

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES, Organization, Project, User
from catalog.models import Image, Offer
from orders.models.shared import Term, transition_trigger

ORDER_MOVES = {
    "awaiting_payment": {"confirmed", "expiring", "cancelled"},
    "expiring": {"confirmed", "cancelled"},
    # An extension makes no machines: it is active as soon as it is paid.
    "confirmed": {"provisioning", "active", "failed"},
    "provisioning": {"active", "ended", "failed"},
    "active": {"ended"},
}


class Order(models.Model):
    """A request at a frozen price: for new units, whose cards are held as it is placed, for more time of a running
    term, for a term in place of the hour, or for a pack of card-hours."""

    class Kind(models.TextChoices):
        NEW = "new", _("New machines")
        RENEWAL = "renewal", _("Extension of a term")
        CONVERSION = "conversion", _("Hourly to a term")
        PACK = "pack", _("Pack of card-hours")

    class Status(models.TextChoices):
        AWAITING_PAYMENT = "awaiting_payment", _("Awaiting payment")
        EXPIRING = "expiring", _("Expiring")
        CONFIRMED = "confirmed", _("Confirmed")
        PROVISIONING = "provisioning", _("Provisioning")
        ACTIVE = "active", _("Active")
        ENDED = "ended", _("Ended")
        CANCELLED = "cancelled", _("Cancelled")
        FAILED = "failed", _("Failed")

    NEXT = ORDER_MOVES

    kind = models.CharField(_("kind"), max_length=10, choices=Kind, default=Kind.NEW, db_default=Kind.NEW)
    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    organization = models.ForeignKey(
        Organization, models.PROTECT, related_name="orders", verbose_name=_("organization")
    )
    project = models.ForeignKey(Project, models.PROTECT, related_name="orders", verbose_name=_("project"))
    placed_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("placed by"))
    request_key = models.CharField(_("request key"), max_length=64)
    status = models.CharField(_("status"), max_length=20, choices=Status)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    total_minor = models.BigIntegerField(_("paid in advance (minor units)"))
    placed_at = models.DateTimeField(_("placed at"))
    hold_expires_at = models.DateTimeField(_("hold expires at"), null=True, blank=True)
    paid_at = models.DateTimeField(_("paid at"), null=True, blank=True)

    class Meta:
        verbose_name = _("order")
        verbose_name_plural = _("orders")
        ordering = ["-placed_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["organization", "request_key"], name="order_request_once"),
            models.CheckConstraint(condition=Q(total_minor__gte=0), name="order_total_not_negative"),
            models.CheckConstraint(
                condition=~Q(status__in=["awaiting_payment", "expiring"]) | Q(hold_expires_at__isnull=False),
                name="unpaid_order_has_expiry",
            ),
        ]
        indexes = [
            models.Index(
                fields=["status"],
                condition=Q(status__in=["awaiting_payment", "expiring", "confirmed", "provisioning"]),
                name="order_open",
            )
        ]
        triggers = [transition_trigger(ORDER_MOVES)]

    def __str__(self) -> str:
        return self.number

    @property
    def number(self) -> str:
        """Carries the day as the site's zone counts it."""
        local = timezone.localtime(self.placed_at, timezone.get_default_timezone())
        return f"SO{local:%y%m%d}{self.pk:06d}"


class OrderLine(models.Model):
    """What one line agreed, frozen: offer, units, term, rate, image and keys. `units` are the machines to be made."""

    order = models.ForeignKey(Order, models.PROTECT, related_name="lines", verbose_name=_("order"))
    offer = models.ForeignKey(Offer, models.PROTECT, related_name="order_lines", verbose_name=_("offer"))
    image = models.ForeignKey(Image, models.PROTECT, related_name="+", verbose_name=_("image"))
    public_keys = ArrayField(models.TextField(), verbose_name=_("SSH keys"))
    quantity = models.PositiveIntegerField(_("units"))
    cards_per_unit = models.PositiveIntegerField(_("cards per unit"))
    disk_gb = models.PositiveIntegerField(_("disk per unit (GB)"))
    term = models.CharField(_("term"), max_length=5, choices=Term)
    periods = models.PositiveIntegerField(_("months or years"))
    rate = models.DecimalField(_("rate per card"), max_digits=20, decimal_places=10)
    disk_rate = models.DecimalField(_("rate per GB-hour while stopped"), max_digits=20, decimal_places=10)
    amount_minor = models.BigIntegerField(_("paid in advance (minor units)"))
    tax_percent = models.DecimalField(_("tax (%)"), max_digits=5, decimal_places=2)
    tax_code = models.CharField(_("tax code"), max_length=19)
    units = ArrayField(models.UUIDField(), verbose_name=_("units"))
    # The running subscription that the line extends, or that its term takes the place of.
    continues = models.ForeignKey(
        "Subscription", models.PROTECT, null=True, blank=True, related_name="continued_by", verbose_name=_("continues")
    )

    class Meta:
        verbose_name = _("order line")
        verbose_name_plural = _("order lines")
        constraints = [
            models.CheckConstraint(
                condition=Q(quantity__gt=0, cards_per_unit__gt=0, periods__gt=0), name="order_line_counts"
            ),
            models.CheckConstraint(condition=Q(units__len=models.F("quantity")), name="order_line_unit_per_piece"),
            models.CheckConstraint(
                condition=Q(rate__gte=0, disk_rate__gte=0, amount_minor__gte=0), name="order_line_money"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.order_id} · {self.offer_id}"

    @property
    def cards(self) -> int:
        """Cards of all units together."""
        return self.quantity * self.cards_per_unit


class OrderEvent(models.Model):
    """Append-only: what happened to an order, when and by whom (no actor: the system)."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="events")
    status = models.CharField(max_length=20, choices=Order.Status)
    actor = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField()
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["at", "pk"]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update)]

    def __str__(self) -> str:
        return f"{self.order_id} {self.status}"
