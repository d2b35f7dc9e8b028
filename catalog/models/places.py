"""Where machines stand."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from catalog.changes import leave_a_change
from marketplace.lib.spoken import either


class Region(models.Model):
    """A place where machines stand, and what becomes of the data on them."""

    class Crossing(models.TextChoices):
        UNSTATED = "", _("Not stated yet")
        KEPT = "kept", _("Stays in mainland China")
        AGREED = "agreed", _("Crosses the border only by agreement")

    code = models.SlugField(_("code"), unique=True)
    name_zh = models.CharField(_("name (Chinese)"), max_length=60)
    name_en = models.CharField(_("name (English)"), max_length=60)
    admin_code = models.CharField(_("administrative code"), max_length=6)
    timezone = models.CharField(_("time zone"), max_length=50)
    has_machine_room = models.BooleanField(_("has a machine room"), default=False)
    enabled = models.BooleanField(_("enabled"), default=True)
    is_default = models.BooleanField(_("default"), default=False)
    basis = models.TextField(_("basis of the facts"), blank=True)
    data_stays_zh = models.TextField(_("where data stays (Chinese)"), blank=True)
    data_stays_en = models.TextField(_("where data stays (English)"), blank=True)
    crossing = models.CharField(_("across the border"), max_length=10, choices=Crossing, blank=True)
    crossing_zh = models.TextField(_("crossing the border, in words (Chinese)"), blank=True)
    crossing_en = models.TextField(_("crossing the border, in words (English)"), blank=True)

    class Meta:
        verbose_name = _("region")
        verbose_name_plural = _("regions")
        triggers = [leave_a_change()]
        ordering = ["-is_default", "code"]
        constraints = [
            models.UniqueConstraint(fields=["is_default"], condition=Q(is_default=True), name="region_one_default")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def both_names(self) -> str:
        """In both languages, because a document is read by people of either."""
        return f"{self.name_zh} {self.name_en}"[:60]

    @property
    def name(self) -> str:
        """In the reader's language."""
        return self._spoken("name")

    @property
    def data_stays(self) -> str:
        """Where data stays, in the reader's language; empty where nothing is stated."""
        return self._spoken("data_stays")

    @property
    def crossing_words(self) -> str:
        """What crossing the border takes, in the reader's language."""
        return self._spoken("crossing")

    def _spoken(self, field: str) -> str:
        return str(getattr(self, f"{field}_{either('zh', 'en')}"))
