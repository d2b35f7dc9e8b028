"""What recurs or is owed once for one unit, how its term was extended, and what is paid back of it."""

import uuid

import pgtrigger
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES, Organization, Project, User
from catalog.changes import leave_a_change
from orders.models.orders import OrderLine
from orders.models.shared import Term


class Subscription(models.Model):
    """What recurs or is owed once for one unit, with its price snapshot.

    Hourly: usage windows are billed at `rate` per card-hour and `disk_rate` per GB-hour. Term: `[started_at, ends_at)`
    is prepaid. `headroom_minor` is what an hourly unit keeps committed on the credit line until it ends.
    """

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    organization = models.ForeignKey(Organization, models.PROTECT, related_name="subscriptions")
    project = models.ForeignKey(Project, models.PROTECT, related_name="subscriptions")
    order_line = models.ForeignKey(OrderLine, models.PROTECT, related_name="subscriptions")
    unit = models.UUIDField(unique=True)
    term = models.CharField(max_length=5, choices=Term)
    periods = models.PositiveIntegerField()
    cards = models.PositiveIntegerField()
    disk_gb = models.PositiveIntegerField()
    currency = models.CharField(max_length=3, choices=CURRENCY_CHOICES)
    rate = models.DecimalField(max_digits=20, decimal_places=10)
    disk_rate = models.DecimalField(max_digits=20, decimal_places=10)
    tax_percent = models.DecimalField(max_digits=5, decimal_places=2)
    tax_code = models.CharField(max_length=19)
    headroom_minor = models.BigIntegerField(default=0)
    anchor_day = models.PositiveSmallIntegerField(null=True)
    started_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    # Extended by one more of its periods before it ends, if the balance suffices.
    auto_renew = models.BooleanField(default=False, db_default=False)

    class Meta:
        verbose_name = _("subscription")
        verbose_name_plural = _("subscriptions")
        # Visitors see of a sold-out offer when the first of its terms ends.
        triggers = [leave_a_change()]
        constraints = [
            models.CheckConstraint(condition=Q(cards__gt=0, headroom_minor__gte=0), name="subscription_counts"),
            models.CheckConstraint(
                condition=Q(anchor_day__isnull=True) | Q(anchor_day__gte=1, anchor_day__lte=31),
                name="subscription_anchor",
            ),
        ]
        indexes = [models.Index(fields=["organization"], condition=Q(ended_at__isnull=True), name="subscription_open")]

    def __str__(self) -> str:
        return str(self.key)

    @property
    def is_hourly(self) -> bool:
        """Metered while it runs, with headroom kept ready; else a term that is paid in advance."""
        return self.term == Term.HOUR


class Extension(models.Model):
    """Append-only: a paid order line that moved a term's end on, `[starts_at, ends_at)` being what it added."""

    subscription = models.ForeignKey(Subscription, models.PROTECT, related_name="extensions")
    order_line = models.OneToOneField(OrderLine, models.PROTECT, related_name="extension")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    at = models.DateTimeField()

    class Meta:
        ordering = ["subscription", "starts_at"]
        constraints = [
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="extension_period_ordered"),
            models.UniqueConstraint(fields=["subscription", "starts_at"], name="extension_once"),
        ]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return f"{self.subscription_id} {self.starts_at:%Y-%m-%d} – {self.ends_at:%Y-%m-%d}"


class TermRefund(models.Model):
    """That a paid term ended early, once for each, and by which rule something is paid back; its lines say what. Or
    that an order which was paid could not be carried out any more.

    Billing pulls the lines and makes credit notes of them.
    """

    class Rule(models.TextChoices):
        NONE = "none", _("Nothing is paid back")
        FIVE_DAYS_ONCE = "five_days_once", _("Five days without a reason, once")
        PRORATED = "prorated", _("The unused part")
        NOT_DELIVERED = "not_delivered", _("Could not be delivered")

    subscription = models.ForeignKey(
        Subscription, models.PROTECT, related_name="refunds", verbose_name=_("subscription")
    )
    organization = models.ForeignKey(
        Organization, models.PROTECT, related_name="term_refunds", verbose_name=_("organization")
    )
    rule = models.CharField(_("rule"), max_length=16, choices=Rule)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    paid_minor = models.BigIntegerField(_("paid in advance (minor units)"))
    amount_minor = models.BigIntegerField(_("paid back (minor units)"))
    actor = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("by"))
    at = models.DateTimeField(_("ended at"))

    class Meta:
        verbose_name = _("refund of a term")
        verbose_name_plural = _("refunds of terms")
        ordering = ["-at", "-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(amount_minor__gte=0, amount_minor__lte=F("paid_minor")), name="term_refund_within_paid"
            ),
            models.UniqueConstraint(
                fields=["subscription"], condition=~Q(rule="not_delivered"), name="term_refund_once"
            ),
            models.UniqueConstraint(
                fields=["organization"], condition=Q(rule="five_days_once"), name="term_refund_five_days_once"
            ),
        ]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return f"{self.subscription_id} {self.amount_minor}"


class TermRefundLine(models.Model):
    """What is paid back of one paid order line. `credited_at` is set once, when billing has made its credit note."""

    refund = models.ForeignKey(TermRefund, models.PROTECT, related_name="lines", verbose_name=_("refund of a term"))
    order_line = models.ForeignKey(OrderLine, models.PROTECT, related_name="refund_lines", verbose_name=_("order line"))
    paid_minor = models.BigIntegerField(_("paid in advance (minor units)"))
    amount_minor = models.BigIntegerField(_("paid back (minor units)"))
    credited_at = models.DateTimeField(_("credited at"), null=True, blank=True)

    class Meta:
        verbose_name = _("line of a refund")
        verbose_name_plural = _("lines of a refund")
        ordering = ["refund", "pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(amount_minor__gt=0, amount_minor__lte=F("paid_minor")), name="term_refund_line_within_paid"
            ),
            models.UniqueConstraint(fields=["order_line"], name="term_refund_line_once"),
        ]
        indexes = [models.Index(fields=["refund"], condition=Q(credited_at__isnull=True), name="term_refund_to_credit")]
        triggers = [
            pgtrigger.Protect(
                name="fixed_but_for_its_credit",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition(
                    "OLD.credited_at IS NOT NULL"
                    " OR (OLD.refund_id, OLD.order_line_id, OLD.paid_minor, OLD.amount_minor)"
                    " IS DISTINCT FROM (NEW.refund_id, NEW.order_line_id, NEW.paid_minor, NEW.amount_minor)"
                ),
            ),
            pgtrigger.Protect(name="stays", operation=pgtrigger.Delete),
        ]

    def __str__(self) -> str:
        return f"{self.refund_id} · {self.order_line_id}"
