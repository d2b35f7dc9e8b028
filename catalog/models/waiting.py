"""Who waits for a sold-out offer."""

import uuid

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization, User
from catalog.models.offers import Offer


class Waitlist(models.Model):
    """An organization's wish to hear when `units` of an offer are free; open until it was told or it left.

    Nothing is reserved. Whoever was told has a while in which the same units are announced to nobody else
    (`catalog.waitlist.TURN`).
    """

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    offer = models.ForeignKey(Offer, models.PROTECT, related_name="waitlist", verbose_name=_("offer"))
    organization = models.ForeignKey(
        Organization, models.PROTECT, related_name="waitlist", verbose_name=_("organization")
    )
    user = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("joined by"))
    units = models.PositiveIntegerField(_("units"))
    created_at = models.DateTimeField(_("joined at"))
    notified_at = models.DateTimeField(_("told at"), null=True, blank=True)
    left_at = models.DateTimeField(_("left at"), null=True, blank=True)

    class Meta:
        verbose_name = _("waitlist entry")
        verbose_name_plural = _("waitlist")
        ordering = ["created_at", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["offer", "organization"],
                condition=Q(notified_at__isnull=True, left_at__isnull=True),
                name="waitlist_open_once",
            ),
            models.CheckConstraint(condition=Q(units__gt=0), name="waitlist_has_units"),
            models.CheckConstraint(
                condition=Q(notified_at__isnull=True) | Q(left_at__isnull=True), name="waitlist_closed_once"
            ),
        ]
        indexes = [
            models.Index(fields=["notified_at"], condition=Q(notified_at__isnull=False), name="waitlist_told"),
        ]

    def __str__(self) -> str:
        return f"{self.offer_id} × {self.units}"
