"""Money that arrived, and what Stripe told of it."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES, User
from billing.models.invoices import Invoice


class Payment(models.Model):
    """Money that arrived for an invoice, once per provider reference."""

    class Method(models.TextChoices):
        STRIPE = "stripe", "Stripe"
        BANK_TRANSFER = "bank_transfer", _("Bank transfer")
        WALLET = "wallet", _("Balance")
        GIFT = "gift", _("Gifted credit")

    invoice = models.ForeignKey(Invoice, models.PROTECT, related_name="payments", verbose_name=_("invoice"))
    method = models.CharField(_("method"), max_length=13, choices=Method)
    reference = models.CharField(_("reference"), max_length=100)
    amount_minor = models.BigIntegerField(_("amount (minor units)"))
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    received_at = models.DateTimeField(_("received at"))
    recorded_by = models.ForeignKey(
        User, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("recorded by")
    )

    # When Stripe was told of a part payment that came by other means.
    reported_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("payment")
        verbose_name_plural = _("payments")
        ordering = ["-received_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["method", "reference"], name="payment_once"),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="payment_positive"),
        ]

    def __str__(self) -> str:
        return self.reference


class StripeEvent(models.Model):
    """A verified webhook, stored once before anything is done with it; a sweep applies it and keeps what went wrong."""

    stripe_id = models.CharField(_("event id"), max_length=64, unique=True)
    type = models.CharField(_("type"), max_length=64)
    object_id = models.CharField(_("object"), max_length=100, blank=True)
    payload = models.JSONField(_("payload"))
    received_at = models.DateTimeField(_("received at"))
    processed_at = models.DateTimeField(_("processed at"), null=True, blank=True)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    error = models.CharField(_("error"), max_length=300, blank=True)
    next_attempt_at = models.DateTimeField(_("next attempt at"), null=True, blank=True)

    class Meta:
        verbose_name = _("Stripe event")
        verbose_name_plural = _("Stripe events")
        ordering = ["-received_at", "-pk"]
        indexes = [
            models.Index(fields=["received_at"], condition=Q(processed_at__isnull=True), name="stripe_event_waiting")
        ]

    def __str__(self) -> str:
        return self.stripe_id
