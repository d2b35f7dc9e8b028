"""Balances below zero and invoices that are not paid in time: what was done about each, every step once."""

import pgtrigger
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from billing.models.accounts import BillingAccount
from billing.models.invoices import Invoice
from orders.models import transition_trigger

ARREARS_MOVES = {
    "open": {"suspended", "cleared"},
    "suspended": {"releasing", "cleared"},
    # The balance is read once more before anything is deleted: it may go back to where it waits.
    "releasing": {"suspended", "released", "cleared"},
    "released": {"cleared"},
}


class Arrears(models.Model):
    """One time below zero, from its first sight until the balance is settled; an account has at most one open."""

    class Status(models.TextChoices):
        OPEN = "open", _("Machines still run")
        SUSPENDED = "suspended", _("Machines suspended")
        RELEASING = "releasing", _("Marked for deletion")
        RELEASED = "released", _("Data deleted")
        CLEARED = "cleared", _("Settled")

    NEXT = ARREARS_MOVES

    account = models.ForeignKey(
        BillingAccount, models.PROTECT, related_name="arrears", verbose_name=_("billing account")
    )
    status = models.CharField(_("status"), max_length=9, choices=Status, default=Status.OPEN)
    opened_at = models.DateTimeField(_("below zero since"))
    suspended_at = models.DateTimeField(_("suspended at"), null=True, blank=True)
    releasing_at = models.DateTimeField(_("marked for deletion at"), null=True, blank=True)
    released_at = models.DateTimeField(_("data deleted at"), null=True, blank=True)
    cleared_at = models.DateTimeField(_("settled at"), null=True, blank=True)
    # Finance has agreed on something: until then nothing is suspended or deleted.
    held_until = models.DateTimeField(_("held until"), null=True, blank=True)

    class Meta:
        verbose_name = _("arrears")
        verbose_name_plural = _("arrears")
        ordering = ["-opened_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["account"], condition=~Q(status="cleared"), name="one_open_arrears_an_account"
            ),
            models.CheckConstraint(
                condition=Q(status="cleared", cleared_at__isnull=False)
                | (~Q(status="cleared") & Q(cleared_at__isnull=True)),
                name="cleared_arrears_has_instant",
            ),
            models.CheckConstraint(
                condition=~Q(status__in=["suspended", "releasing", "released"]) | Q(suspended_at__isnull=False),
                name="suspended_arrears_has_instant",
            ),
        ]
        triggers = [transition_trigger(ARREARS_MOVES)]

    def __str__(self) -> str:
        return f"{self.account} {self.opened_at:%Y-%m-%d}"


class ArrearsStep(models.Model):
    """Append-only: a step of the ladder that was taken, once each, and the balance that was read for it."""

    arrears = models.ForeignKey(Arrears, models.CASCADE, related_name="steps", verbose_name=_("arrears"))
    step = models.CharField(_("step"), max_length=16)
    balance_minor = models.BigIntegerField(_("balance (minor units)"))
    at = models.DateTimeField(_("at"))

    class Meta:
        verbose_name = _("step of arrears")
        verbose_name_plural = _("steps of arrears")
        ordering = ["at", "pk"]
        constraints = [models.UniqueConstraint(fields=["arrears", "step"], name="arrears_step_once")]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update)]

    def __str__(self) -> str:
        return f"{self.arrears_id} {self.step}"


class DunningStep(models.Model):
    """Append-only: a reminder of an unpaid invoice, once for each of the days of the settings."""

    invoice = models.ForeignKey(Invoice, models.CASCADE, related_name="dunning_steps", verbose_name=_("invoice"))
    days = models.PositiveSmallIntegerField(_("days after the day of payment"))
    at = models.DateTimeField(_("at"))

    class Meta:
        verbose_name = _("reminder")
        verbose_name_plural = _("reminders")
        ordering = ["at", "pk"]
        constraints = [models.UniqueConstraint(fields=["invoice", "days"], name="dunning_step_once")]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update)]

    def __str__(self) -> str:
        return f"{self.invoice_id} +{self.days}"
