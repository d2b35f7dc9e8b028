"""Invoices, their lines, which usage each line charged, and their history."""

import uuid
from datetime import datetime, timedelta
from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from accounts.models import CURRENCY_CHOICES, Organization, User
from billing.models.accounts import BillingAccount
from marketplace.lib import clock
from orders.models import Order, OrderLine, Subscription, transition_trigger
from rentals.models import UsageWindow

INVOICE_MOVES = {
    "draft": {"issued", "void"},
    "issued": {"pushing", "open", "paid", "void"},
    "pushing": {"open", "paid", "void"},
    "open": {"paid", "void", "uncollectible"},
    "uncollectible": {"paid", "void"},
    # Only when the payer's bank takes its payment back for good.
    "paid": {"open"},
}


class Invoice(models.Model):
    """What an organization owes for one month of usage or one prepaid order. Frozen once issued."""

    class Kind(models.TextChoices):
        USAGE = "usage", _("Usage")
        ORDER = "order", _("Prepaid order")

    class Status(models.TextChoices):
        DRAFT = "draft", _("Draft")
        ISSUED = "issued", pgettext_lazy("invoice status", "Issued")
        PUSHING = "pushing", _("Being sent to Stripe")
        OPEN = "open", _("Open")
        PAID = "paid", _("Paid")
        VOID = "void", _("Void")
        UNCOLLECTIBLE = "uncollectible", _("Uncollectible")

    NEXT = INVOICE_MOVES
    UNPAID: ClassVar[tuple[str, ...]] = (Status.ISSUED, Status.PUSHING, Status.OPEN, Status.UNCOLLECTIBLE)

    class Collection(models.TextChoices):
        STRIPE = "stripe", "Stripe"
        BANK_TRANSFER = "bank_transfer", _("Bank transfer")

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    account = models.ForeignKey(
        BillingAccount, models.PROTECT, related_name="invoices", verbose_name=_("billing account")
    )
    organization = models.ForeignKey(
        Organization, models.PROTECT, related_name="invoices", verbose_name=_("organization")
    )
    kind = models.CharField(_("kind"), max_length=8, choices=Kind)
    order = models.ForeignKey(
        Order, models.PROTECT, null=True, blank=True, related_name="invoices", verbose_name=_("order")
    )
    number = models.CharField(_("number"), max_length=24, null=True, blank=True, unique=True)
    status = models.CharField(_("status"), max_length=13, choices=Status, default=Status.DRAFT)
    collection = models.CharField(_("collected by"), max_length=13, choices=Collection, default=Collection.STRIPE)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    period_start = models.DateTimeField(_("period start"), null=True, blank=True)
    period_end = models.DateTimeField(_("period end"), null=True, blank=True)
    total_minor = models.BigIntegerField(_("total (minor units)"), default=0)
    tax_minor = models.BigIntegerField(_("tax within (minor units)"), default=0)
    paid_minor = models.BigIntegerField(_("paid (minor units)"), default=0)
    # Part of what is paid: gifted credit, which no 发票 covers.
    gift_minor = models.BigIntegerField(_("paid with gifted credit (minor units)"), default=0)
    credited_minor = models.BigIntegerField(_("credited (minor units)"), default=0)
    # The organization's tax profile as it was when the invoice was issued.
    buyer = models.JSONField(_("buyer"), default=dict, blank=True, editable=False)
    drafted_at = models.DateTimeField(_("drafted at"))
    issued_at = models.DateTimeField(_("issued at"), null=True, blank=True)
    due_at = models.DateTimeField(_("due at"), null=True, blank=True)
    paid_at = models.DateTimeField(_("paid at"), null=True, blank=True)
    stripe_invoice_id = models.CharField(_("Stripe invoice"), max_length=64, blank=True)
    hosted_url = models.URLField(_("payment page"), max_length=500, blank=True)
    push_version = models.PositiveIntegerField(_("push version"), default=1, editable=False)
    push_started_at = models.DateTimeField(null=True, blank=True, editable=False)
    push_attempts = models.PositiveIntegerField(_("push attempts"), default=0, editable=False)
    push_error = models.CharField(_("push error"), max_length=300, blank=True)
    # While pushing: the end of the running attempt's lease or of its back-off; none means parked for finance.
    next_push_at = models.DateTimeField(_("next push at"), null=True, blank=True, editable=False)
    # While open: when Stripe is asked next whether it was paid, should its webhook never arrive.
    next_check_at = models.DateTimeField(_("next check at"), null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("invoice")
        verbose_name_plural = _("invoices")
        ordering = ["-drafted_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "period_start"],
                condition=Q(kind="usage") & ~Q(status="void"),
                name="one_usage_invoice_a_period",
            ),
            models.UniqueConstraint(
                fields=["order"], condition=Q(kind="order") & ~Q(status="void"), name="one_invoice_an_order"
            ),
            models.UniqueConstraint(
                fields=["stripe_invoice_id"], condition=~Q(stripe_invoice_id=""), name="stripe_invoice_once"
            ),
            models.CheckConstraint(
                condition=Q(
                    kind="usage", period_start__isnull=False, period_end__gt=F("period_start"), order__isnull=True
                )
                | Q(kind="order", order__isnull=False),
                name="invoice_has_its_fact",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["draft", "void"]) | Q(number__isnull=False, issued_at__isnull=False),
                name="issued_invoice_has_number",
            ),
            models.CheckConstraint(
                condition=Q(total_minor__gte=0, paid_minor__gte=0, tax_minor__gte=0), name="invoice_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(credited_minor__gte=0, credited_minor__lte=F("total_minor")),
                name="invoice_credited_in_total",
            ),
            models.CheckConstraint(
                condition=Q(gift_minor__gte=0, gift_minor__lte=F("paid_minor")), name="invoice_gift_in_paid"
            ),
            models.CheckConstraint(
                condition=~Q(status="paid") | Q(paid_minor__gte=F("total_minor") - F("credited_minor")),
                name="paid_invoice_is_paid",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_push_at"], condition=Q(status__in=["issued", "pushing"]), name="invoice_push_due"
            ),
            models.Index(fields=["next_check_at"], condition=Q(status="open"), name="invoice_check_due"),
            models.Index(fields=["organization", "-drafted_at"], name="invoice_by_organization"),
        ]
        triggers = [
            transition_trigger(INVOICE_MOVES),
            pgtrigger.Trigger(
                name="issued_adds_up",
                operation=pgtrigger.Update,
                when=pgtrigger.Before,
                condition=pgtrigger.Condition("OLD.status = 'draft' AND NEW.status <> 'draft'"),
                declare=[("line_total", "bigint"), ("line_tax", "bigint")],
                func="""
                    SELECT COALESCE(SUM(amount_minor), 0), COALESCE(SUM(tax_minor), 0) INTO line_total, line_tax
                    FROM billing_invoiceline WHERE invoice_id = NEW.id;
                    IF (line_total, line_tax) IS DISTINCT FROM (NEW.total_minor, NEW.tax_minor) THEN
                        RAISE EXCEPTION 'invoice % does not add up: lines % (tax %), invoice % (tax %)',
                            NEW.id, line_total, line_tax, NEW.total_minor, NEW.tax_minor;
                    END IF;
                    RETURN NEW;
                """,
            ),
            pgtrigger.Protect(
                name="issued_is_frozen",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition(
                    "OLD.status <> 'draft' AND"
                    " (OLD.total_minor, OLD.tax_minor, OLD.currency, OLD.number, OLD.organization_id, OLD.order_id,"
                    " OLD.kind, OLD.period_start, OLD.period_end, OLD.issued_at, OLD.due_at, OLD.buyer)"
                    " IS DISTINCT FROM"
                    " (NEW.total_minor, NEW.tax_minor, NEW.currency, NEW.number, NEW.organization_id, NEW.order_id,"
                    " NEW.kind, NEW.period_start, NEW.period_end, NEW.issued_at, NEW.due_at, NEW.buyer)"
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.number or str(self.key)

    @property
    def outstanding_minor(self) -> int:
        return max(self.total_minor - self.credited_minor - self.paid_minor, 0)

    @property
    def is_unpaid(self) -> bool:
        """Whether somebody still has to pay it."""
        return self.status in self.UNPAID

    @property
    def last_moment(self) -> datetime | None:
        """The last second of a usage invoice's half-open period, as people read it."""
        return self.period_end - timedelta(seconds=1) if self.period_end else None

    @property
    def month(self) -> str:
        """The calendar month of a usage invoice (2026-11) in the organization's zone; needs the organization loaded."""
        if self.period_start is None:
            return ""
        return f"{clock.local_date(self.period_start, self.organization.zone):%Y-%m}"


LINE_METERS = [
    ("card_hour", _("Card-hour")),
    ("disk_gb_hour", _("GB-hour of disk")),
    ("month", _("Card-month")),
    ("year", _("Card-year")),
    ("unit", _("Unit")),
]


class InvoiceLine(models.Model):
    """One charge, rounded once. Amounts are gross, tax is the part within; price, tax rate and code are snapshots."""

    class Kind(models.TextChoices):
        USAGE = "usage", _("Usage")
        PREPAID = "prepaid", _("Paid in advance")
        LATE = "late", _("Usage of an earlier month")
        RECURRING = "recurring", _("Recurring service")
        ONCE = "once", _("One-off service")
        TRUE_UP = "true_up", _("Minimum commitment")
        DISCOUNT = "discount", _("Volume discount")
        PACK = "pack", _("Covered by a compute pack")

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    invoice = models.ForeignKey(Invoice, models.PROTECT, related_name="lines", verbose_name=_("invoice"))
    position = models.PositiveIntegerField(_("position"))
    kind = models.CharField(_("kind"), max_length=9, choices=Kind, default=Kind.USAGE)
    # What is agreed apart from an order (a service, a commitment) has none.
    order_line = models.ForeignKey(
        OrderLine, models.PROTECT, null=True, related_name="invoice_lines", verbose_name=_("order line")
    )
    # Usage belongs to one subscription; a prepaid order is invoiced before its subscriptions exist.
    subscription = models.ForeignKey(
        Subscription,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="invoice_lines",
        verbose_name=_("subscription"),
    )
    meter = models.CharField(_("meter"), max_length=12, choices=LINE_METERS)
    title = models.CharField(_("product"), max_length=120)
    region = models.CharField(_("region"), max_length=60)
    resource = models.CharField(_("rental or order"), max_length=60)
    project = models.CharField(_("project"), max_length=60)
    quantity = models.PositiveIntegerField(_("cards or GB"))
    # Net of reversed windows, so a correction that outweighs the month is negative.
    seconds = models.BigIntegerField(_("seconds"), default=0)
    periods = models.PositiveIntegerField(_("months or years"), default=0)
    rate = models.DecimalField(_("rate"), max_digits=20, decimal_places=10)
    amount_minor = models.BigIntegerField(_("amount (minor units)"))
    tax_percent = models.DecimalField(_("tax (%)"), max_digits=5, decimal_places=2)
    tax_minor = models.BigIntegerField(_("tax within (minor units)"))
    tax_code = models.CharField(_("tax code"), max_length=19)
    period_start = models.DateTimeField(_("period start"), null=True, blank=True)
    period_end = models.DateTimeField(_("period end"), null=True, blank=True)

    class Meta:
        verbose_name = _("invoice line")
        verbose_name_plural = _("invoice lines")
        ordering = ["invoice", "position"]
        constraints = [
            models.UniqueConstraint(fields=["invoice", "position"], name="invoice_line_position"),
            models.UniqueConstraint(
                fields=["invoice", "subscription", "meter", "quantity", "rate"],
                condition=Q(kind="usage"),
                name="invoice_line_once",
            ),
            models.UniqueConstraint(
                fields=["invoice", "order_line"], condition=Q(kind="prepaid"), name="invoice_order_line_once"
            ),
            models.CheckConstraint(
                condition=Q(order_line__isnull=False) | ~Q(kind__in=["usage", "prepaid", "late"]),
                name="invoice_line_has_its_order",
            ),
        ]
        triggers = [
            pgtrigger.Protect(name="append_only", operation=pgtrigger.Update),
            pgtrigger.Trigger(
                name="only_in_draft",
                operation=pgtrigger.Insert | pgtrigger.Delete,
                when=pgtrigger.Before,
                func="""
                    IF EXISTS (
                        SELECT 1 FROM billing_invoice
                        WHERE id = CASE WHEN TG_OP = 'DELETE' THEN OLD.invoice_id ELSE NEW.invoice_id END
                        AND status <> 'draft'
                    ) THEN
                        RAISE EXCEPTION 'the lines of an issued invoice are frozen';
                    END IF;
                    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
                    RETURN NEW;
                """,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.invoice_id} #{self.position}"

    @property
    def last_moment(self) -> datetime | None:
        """Periods are half-open; people read the last second that belongs to them."""
        return self.period_end - timedelta(seconds=1) if self.period_end else None


class BilledWindow(models.Model):
    """Which invoice line charged a usage window: unique, so nothing is billed twice. Voiding removes the rows."""

    line = models.ForeignKey(InvoiceLine, models.PROTECT, related_name="billed_windows")
    window = models.OneToOneField(UsageWindow, models.PROTECT, related_name="billed")

    def __str__(self) -> str:
        return f"{self.line_id} ← {self.window_id}"


class BilledFact(models.Model):
    """Which line charged a fact that is no usage window (a service's month, a commitment's): unique, so nothing is
    billed twice. Voiding removes the rows."""

    line = models.ForeignKey(InvoiceLine, models.PROTECT, related_name="billed_facts")
    fact = models.CharField(max_length=120, unique=True)

    def __str__(self) -> str:
        return f"{self.line_id} ← {self.fact}"


class InvoiceEvent(models.Model):
    """Append-only: what happened to an invoice, when and by whom."""

    invoice = models.ForeignKey(Invoice, models.CASCADE, related_name="events")
    status = models.CharField(max_length=13, choices=Invoice.Status)
    actor = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField()
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["at", "pk"]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update)]

    def __str__(self) -> str:
        return f"{self.invoice_id} {self.status}"
