"""Who the buyer is to the tax bureau, and the fapiao that were asked for and issued."""

import uuid

import pghistory
import pgtrigger
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES, Organization, User
from billing.models.invoices import Invoice
from orders.models import transition_trigger


@pghistory.track()
class TaxProfile(models.Model):
    """The buyer's title and numbers as they stand on invoices and fapiao; a copy is kept with each.

    Changed by `actions.save_tax_profile` alone, which holds `billing.tax`'s rules.
    """

    class Kind(models.TextChoices):
        COMPANY = "company", _("Company")
        INDIVIDUAL = "individual", _("Individual")
        FOREIGN = "foreign", _("Company outside mainland China")

    organization = models.OneToOneField(
        Organization, models.CASCADE, related_name="tax_profile", verbose_name=_("organization")
    )
    kind = models.CharField(_("kind of buyer"), max_length=10, choices=Kind, default=Kind.COMPANY)
    # ISO 3166: where the buyer sits; the number's form follows from it.
    country = models.CharField(_("country or region"), max_length=2, default="CN")
    title = models.CharField(_("title"), max_length=100)
    tax_id = models.CharField(_("tax number"), max_length=20, blank=True)
    address = models.CharField(_("registered address"), max_length=100, blank=True)
    phone = models.CharField(_("registered phone"), max_length=30, blank=True)
    bank = models.CharField(_("bank"), max_length=100, blank=True)
    bank_account = models.CharField(_("bank account"), max_length=40, blank=True)
    email = models.EmailField(_("e-mail for documents"), blank=True)
    updated_at = models.DateTimeField(_("updated at"))
    updated_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("by"))
    # Finance has seen the proof that the buyer sits abroad; any change by the customer takes it back.
    export_confirmed_at = models.DateTimeField(_("export confirmed at"), null=True, blank=True)
    export_confirmed_by = models.ForeignKey(
        User, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("export confirmed by")
    )

    class Meta:
        verbose_name = _("tax profile")
        verbose_name_plural = _("tax profiles")
        constraints = [
            models.CheckConstraint(
                condition=Q(kind="foreign") & ~Q(country="CN") | ~Q(kind="foreign") & Q(country="CN"),
                name="tax_profile_country_fits",
            ),
            models.CheckConstraint(
                condition=Q(export_confirmed_at__isnull=True) | Q(kind="foreign"), name="only_foreign_is_export"
            ),
        ]

    def __str__(self) -> str:
        return self.title


FAPIAO_MOVES = {
    "requested": {"issued", "failed", "withdrawn"},
    "failed": {"requested", "withdrawn"},
    "issued": {"red_pending"},
    "red_pending": {"red_flushed", "issued"},
}


class Fapiao(models.Model):
    """A fapiao for what was consumed on one invoice: asked for by the customer, issued by finance at the tax bureau."""

    class Kind(models.TextChoices):
        SPECIAL = "special", _("Special VAT invoice")
        ORDINARY = "ordinary", _("Ordinary VAT invoice")

    class Status(models.TextChoices):
        REQUESTED = "requested", _("Requested")
        ISSUED = "issued", _("Issued by the tax bureau")
        FAILED = "failed", _("Could not be issued")
        WITHDRAWN = "withdrawn", _("Withdrawn")
        RED_PENDING = "red_pending", _("Red flush under way")
        RED_FLUSHED = "red_flushed", _("Red-flushed")

    class RedReason(models.TextChoices):
        WRONG = "01", _("Issued wrongly")
        RETURNED = "02", _("Goods returned")
        ENDED = "03", _("Service ended")
        DISCOUNT = "04", _("Discount on the sale")

    NEXT = FAPIAO_MOVES

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    invoice = models.ForeignKey(Invoice, models.PROTECT, related_name="fapiao", verbose_name=_("invoice"))
    serial = models.CharField(_("serial"), max_length=20, unique=True)
    kind = models.CharField(_("kind"), max_length=8, choices=Kind)
    status = models.CharField(_("status"), max_length=11, choices=Status, default=Status.REQUESTED)
    buyer = models.JSONField(_("buyer"), default=dict)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    total_minor = models.BigIntegerField(_("amount with tax (minor units)"))
    tax_minor = models.BigIntegerField(_("tax (minor units)"))
    number = models.CharField(_("number"), max_length=20, blank=True)
    issued_on = models.DateField(_("issued on"), null=True, blank=True)
    file = models.FileField(_("file"), upload_to="fapiao/%Y/%m", max_length=200, blank=True)
    red_reason = models.CharField(_("reason of the red flush"), max_length=2, choices=RedReason, blank=True)
    red_number = models.CharField(_("number of the red fapiao"), max_length=20, blank=True)
    red_flushed_on = models.DateField(_("red-flushed on"), null=True, blank=True)
    reason = models.CharField(_("reason"), max_length=300, blank=True)
    requested_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("asked by"))
    requested_at = models.DateTimeField(_("asked at"))

    class Meta:
        verbose_name = _("fapiao")
        verbose_name_plural = _("fapiao")
        ordering = ["-requested_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["invoice"],
                condition=Q(status__in=["requested", "issued", "failed", "red_pending"]),
                name="one_fapiao_an_invoice",
            ),
            models.UniqueConstraint(fields=["number"], condition=~Q(number=""), name="fapiao_number_once"),
            models.CheckConstraint(
                condition=~Q(status__in=["issued", "red_pending", "red_flushed"])
                | (~Q(number="") & Q(issued_on__isnull=False)),
                name="issued_fapiao_has_number",
            ),
            models.UniqueConstraint(fields=["red_number"], condition=~Q(red_number=""), name="fapiao_red_number_once"),
            models.CheckConstraint(
                condition=Q(number="") | Q(number__regex=r"^[0-9]{20}$"), name="fapiao_number_of_20_digits"
            ),
            models.CheckConstraint(condition=Q(serial__regex=r"^[A-Za-z0-9]{1,20}$"), name="fapiao_serial_plain"),
            models.CheckConstraint(
                condition=~Q(status__in=["red_pending", "red_flushed"]) | ~Q(red_reason=""),
                name="red_fapiao_has_reason",
            ),
            models.CheckConstraint(
                condition=~Q(status="red_flushed")
                | (Q(red_number__regex=r"^[0-9]{20}$") & Q(red_flushed_on__isnull=False)),
                name="flushed_fapiao_has_red_number",
            ),
            models.CheckConstraint(
                condition=Q(total_minor__gt=0, tax_minor__gte=0, tax_minor__lte=models.F("total_minor")),
                name="fapiao_amounts",
            ),
        ]
        triggers = [
            transition_trigger(FAPIAO_MOVES),
            pgtrigger.Protect(
                name="issued_is_frozen",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition(
                    "OLD.status IN ('issued', 'red_pending', 'red_flushed') AND"
                    " (OLD.invoice_id, OLD.serial, OLD.kind, OLD.buyer, OLD.currency, OLD.total_minor, OLD.tax_minor,"
                    " OLD.number, OLD.issued_on, OLD.file) IS DISTINCT FROM"
                    " (NEW.invoice_id, NEW.serial, NEW.kind, NEW.buyer, NEW.currency, NEW.total_minor, NEW.tax_minor,"
                    " NEW.number, NEW.issued_on, NEW.file)"
                ),
            ),
            pgtrigger.Protect(name="kept", operation=pgtrigger.Delete),
        ]

    def __str__(self) -> str:
        return self.number or self.serial


class FapiaoEvent(models.Model):
    """Append-only: what happened to a fapiao, when and by whom."""

    fapiao = models.ForeignKey(Fapiao, models.CASCADE, related_name="events")
    status = models.CharField(max_length=11, choices=Fapiao.Status)
    actor = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField()
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["at", "pk"]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update)]

    def __str__(self) -> str:
        return f"{self.fapiao_id} {self.status}"
