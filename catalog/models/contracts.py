"""Prices agreed with one organization."""

import pghistory
import pgtrigger
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeBoundary, RangeOperators
from django.db import models
from django.db.models import F, Func, Q
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES, Organization
from catalog.models.cards import GpuModel
from catalog.models.offers import Offer, Price, PriceQuerySet


def _one_at_a_time(target: str) -> ExclusionConstraint:
    validity = Func("valid_from", "valid_to", RangeBoundary(), function="TSTZRANGE", output_field=DateTimeRangeField())
    columns = ("organization", target, "meter", "currency")
    return ExclusionConstraint(
        name=f"contract_price_{target}_once",
        expressions=[*((name, RangeOperators.EQUAL) for name in columns), (validity, RangeOperators.OVERLAPS)],
        condition=Q(**{f"{target}__isnull": False}),
    )


@pghistory.track()
class ContractPrice(models.Model):
    """What one organization pays on a meter of an offer, or of every offer of a GPU model, over
    `[valid_from, valid_to)`: a rate of its own, or the list price less a discount.

    An offer's row comes before its model's. It needs a list price to take the place of. Once started only its end may
    change.
    """

    organization = models.ForeignKey(
        Organization, models.PROTECT, related_name="contract_prices", verbose_name=_("organization")
    )
    offer = models.ForeignKey(
        Offer, models.PROTECT, null=True, blank=True, related_name="contract_prices", verbose_name=_("offer")
    )
    gpu_model = models.ForeignKey(
        GpuModel, models.PROTECT, null=True, blank=True, related_name="contract_prices", verbose_name=_("GPU model")
    )
    meter = models.CharField(_("meter"), max_length=12, choices=Price.Meter)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    rate = models.DecimalField(_("rate"), max_digits=20, decimal_places=10, null=True, blank=True)
    discount_percent = models.DecimalField(_("discount (%)"), max_digits=5, decimal_places=2, null=True, blank=True)
    valid_from = models.DateTimeField(_("valid from"))
    valid_to = models.DateTimeField(_("valid to"), null=True, blank=True)

    objects = PriceQuerySet.as_manager()

    class Meta:
        verbose_name = _("contract price")
        verbose_name_plural = _("contract prices")
        ordering = ["organization", "meter", "currency", "valid_from"]
        constraints = [
            models.CheckConstraint(
                condition=Q(offer__isnull=False, gpu_model__isnull=True)
                | Q(offer__isnull=True, gpu_model__isnull=False),
                name="contract_price_one_target",
            ),
            models.CheckConstraint(
                condition=Q(rate__gte=0, rate__isnull=False, discount_percent__isnull=True)
                | Q(rate__isnull=True, discount_percent__isnull=False, discount_percent__range=(0, 100)),
                name="contract_price_rate_or_discount",
            ),
            models.CheckConstraint(
                condition=Q(valid_to__isnull=True) | Q(valid_to__gt=F("valid_from")), name="contract_price_ordered"
            ),
            _one_at_a_time("offer"),
            _one_at_a_time("gpu_model"),
        ]
        triggers = [
            pgtrigger.Protect(
                name="started_is_fixed",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition(
                    "OLD.valid_from <= now() AND (OLD.organization_id, OLD.offer_id, OLD.gpu_model_id, OLD.meter,"
                    " OLD.currency, OLD.rate, OLD.discount_percent, OLD.valid_from) IS DISTINCT FROM"
                    " (NEW.organization_id, NEW.offer_id, NEW.gpu_model_id, NEW.meter, NEW.currency, NEW.rate,"
                    " NEW.discount_percent, NEW.valid_from)"
                ),
            ),
            pgtrigger.Protect(
                name="started_stays",
                operation=pgtrigger.Delete,
                condition=pgtrigger.Condition("OLD.valid_from <= now()"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.organization_id} {self.meter} {self.currency}"
