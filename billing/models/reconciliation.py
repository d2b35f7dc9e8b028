"""Comparing our books with Stripe's: each run, and every difference until it is gone."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from accounts.models import User


class Reconciliation(models.Model):
    """One comparison of what Stripe lists as made in `[since, until)` with our rows."""

    since = models.DateTimeField(_("from"))
    until = models.DateTimeField(_("to"))
    started_at = models.DateTimeField(_("started at"))
    finished_at = models.DateTimeField(_("finished at"), null=True, blank=True)
    compared = models.PositiveIntegerField(_("compared"), default=0)
    found = models.PositiveIntegerField(_("differences"), default=0)
    error = models.CharField(_("error"), max_length=300, blank=True)

    class Meta:
        verbose_name = _("reconciliation")
        verbose_name_plural = _("reconciliations")
        ordering = ["-started_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.started_at:%Y-%m-%d %H:%M}"


class ReconciliationDifference(models.Model):
    """Where Stripe's books and ours disagree about one object: open until a later comparison finds it gone."""

    class Kind(models.TextChoices):
        INVOICE = "invoice", _("invoice")
        CHECKOUT = "checkout", _("top-up")
        REFUND = "refund", _("refund")
        CREDIT_NOTE = "credit_note", _("credit note")
        DISPUTE = "dispute", _("dispute")

    class State(models.TextChoices):
        OPEN = "open", pgettext_lazy("difference", "Open")
        REPAIRED = "repaired", _("Repaired")
        GONE = "gone", _("Gone")

    kind = models.CharField(_("kind"), max_length=11, choices=Kind)
    stripe_id = models.CharField(_("at Stripe"), max_length=100, blank=True)
    subject = models.CharField(_("what"), max_length=120)
    problem = models.CharField(_("difference"), max_length=300)
    state = models.CharField(_("state"), max_length=8, choices=State, default=State.OPEN)
    found_at = models.DateTimeField(_("found at"))
    seen_at = models.DateTimeField(_("last seen at"))
    closed_at = models.DateTimeField(_("closed at"), null=True, blank=True)
    closed_by = models.ForeignKey(
        User, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("closed by")
    )

    class Meta:
        verbose_name = _("difference with Stripe")
        verbose_name_plural = _("differences with Stripe")
        ordering = ["-found_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "stripe_id", "subject"], condition=Q(state="open"), name="difference_open_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.subject} ({self.stripe_id})" if self.stripe_id else self.subject
