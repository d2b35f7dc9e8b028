"""How an organization is billed, and the gapless numbers of documents."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization


class BillingAccount(models.Model):
    """How an organization is billed. One to one with it; holds money state only.

    Its row lock is taken before anything is posted for it, so that balances are read and written by one at a time.
    """

    class Mode(models.TextChoices):
        WALLET = "wallet", _("Prepaid balance")
        CREDIT = "credit", _("Monthly invoice")

    organization = models.OneToOneField(
        Organization, models.PROTECT, related_name="billing_account", verbose_name=_("organization")
    )
    email = models.EmailField(_("billing e-mail"))
    # Prepaid: usage is taken from the balance while it runs. Otherwise it is owed with the month's invoice.
    mode = models.CharField(_("pays by"), max_length=6, choices=Mode, default=Mode.CREDIT)
    # When the balance falls below the first amount, the second is charged to the saved card; none means never.
    auto_top_up_below_minor = models.BigIntegerField(_("top up when below (minor units)"), null=True, blank=True)
    auto_top_up_minor = models.BigIntegerField(_("amount to top up (minor units)"), null=True, blank=True)
    stripe_payment_method_id = models.CharField(_("saved card"), max_length=64, blank=True)
    # How its owner knows it: brand and last digits.
    saved_card = models.CharField(_("card"), max_length=60, blank=True)
    # Since when the balance is below the mark and was topped up for it; none while it is not.
    auto_top_up_crossed_at = models.DateTimeField(null=True, blank=True, editable=False)
    stripe_customer_id = models.CharField(_("Stripe customer"), max_length=64, blank=True)

    class Meta:
        verbose_name = _("billing account")
        verbose_name_plural = _("billing accounts")
        constraints = [
            models.CheckConstraint(
                condition=Q(auto_top_up_below_minor__isnull=True, auto_top_up_minor__isnull=True)
                | Q(auto_top_up_below_minor__gte=0, auto_top_up_minor__gt=0),
                name="auto_top_up_whole",
            )
        ]

    def __str__(self) -> str:
        return str(self.organization)

    @property
    def pays_from_balance(self) -> bool:
        """Whether usage is taken from the balance while it runs."""
        return self.mode == self.Mode.WALLET


class NumberSeries(models.Model):
    """The next number of one series and year, taken under a row lock by the issuing transaction: no gap can form."""

    series = models.CharField(_("series"), max_length=12)
    year = models.PositiveIntegerField(_("year"))
    next_number = models.PositiveIntegerField(_("next number"), default=1)

    class Meta:
        verbose_name = _("number series")
        verbose_name_plural = _("number series")
        constraints = [models.UniqueConstraint(fields=["series", "year"], name="number_series_once")]

    def __str__(self) -> str:
        return f"{self.series} {self.year}"
