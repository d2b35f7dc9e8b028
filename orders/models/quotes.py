"""Quotes with their versions, lines and events."""

import secrets
import uuid

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES, Organization, User
from catalog.models import Image, Offer
from orders.models.shared import Term, transition_trigger

QUOTE_MOVES = {
    "draft": {"sent", "superseded"},
    "sent": {"accepted", "declined", "expired", "superseded"},
}


class Quote(models.Model):
    """A numbered offer to one organization. A version that left draft is never edited; a change is the next version.

    What a customer asks for is a draft too: `asked` holds the lines as a basket's items, priced or not.
    """

    class Status(models.TextChoices):
        DRAFT = "draft", _("Draft")
        SENT = "sent", _("Sent")
        ACCEPTED = "accepted", _("Accepted")
        DECLINED = "declined", _("Declined")
        EXPIRED = "expired", _("Expired")
        SUPERSEDED = "superseded", _("Superseded")

    class Origin(models.TextChoices):
        SALES = "sales", _("Written by sales")
        CUSTOMER = "customer", _("Requested by the customer")

    class Need(models.TextChoices):
        GPU = "gpu", _("GPU rental")
        COLOCATION = "colocation", _("Colocation of own servers")
        COMPUTE_CENTRE = "compute_centre", _("Building a compute centre")
        WORKS = "works", _("Networking and machine room works")
        CROSS_BORDER = "cross_border", _("Cross-border business")
        OTHER = "other", _("Something else")

    NEXT = QUOTE_MOVES

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    number = models.CharField(_("number"), max_length=20, editable=False)
    version = models.PositiveIntegerField(_("version"), default=1, editable=False)
    # A visitor may ask without having an organization; it has to have one before it is sent.
    organization = models.ForeignKey(
        Organization, models.PROTECT, null=True, related_name="quotes", verbose_name=_("organization")
    )
    status = models.CharField(_("status"), max_length=10, choices=Status, default=Status.DRAFT, editable=False)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES, editable=False)
    valid_until = models.DateTimeField(_("valid until"))
    note = models.TextField(_("note to the customer"), blank=True)
    token = models.CharField(max_length=43, default=secrets.token_urlsafe, unique=True, editable=False)
    salesperson = models.ForeignKey(
        User, models.SET_NULL, null=True, related_name="+", verbose_name=_("salesperson"), editable=False
    )
    created_at = models.DateTimeField(_("created at"), editable=False)
    # What a customer's request said; every version of the quote carries it.
    origin = models.CharField(_("origin"), max_length=10, choices=Origin, default=Origin.SALES, editable=False)
    need = models.CharField(_("need"), max_length=20, choices=Need, blank=True, editable=False)
    contact_name = models.CharField(_("contact"), max_length=60, blank=True, editable=False)
    contact_company = models.CharField(_("company"), max_length=100, blank=True, editable=False)
    contact_email = models.EmailField(_("e-mail of the contact"), blank=True, editable=False)
    contact_phone = models.CharField(_("phone of the contact"), max_length=30, blank=True, editable=False)
    request_note = models.TextField(_("what the customer wrote"), max_length=2000, blank=True, editable=False)
    asked = models.JSONField(_("what the customer asked for"), default=list, blank=True, editable=False)
    request_key = models.CharField(max_length=64, null=True, unique=True, editable=False)
    # When sales is to be mailed about the request; empty for everything else and once it was.
    sales_mail_due_at = models.DateTimeField(null=True, editable=False)
    order = models.OneToOneField(
        "Order", models.PROTECT, null=True, blank=True, related_name="quote", verbose_name=_("order"), editable=False
    )

    class Meta:
        verbose_name = _("quote")
        verbose_name_plural = _("quotes")
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(fields=["number", "version"], name="quote_version_once"),
            models.CheckConstraint(
                condition=~Q(status="accepted") | Q(order__isnull=False), name="accepted_quote_has_order"
            ),
            models.CheckConstraint(
                condition=Q(organization__isnull=False) | Q(origin="customer", status__in=["draft", "superseded"]),
                name="sent_quote_has_organization",
            ),
        ]
        indexes = [
            models.Index(
                fields=["sales_mail_due_at"], condition=Q(sales_mail_due_at__isnull=False), name="quote_sales_mail_due"
            )
        ]
        triggers = [transition_trigger(QUOTE_MOVES)]

    def __str__(self) -> str:
        return f"{self.number} v{self.version}"

    @property
    def is_requested(self) -> bool:
        """A customer asked for it; no salesperson began it."""
        return self.origin == self.Origin.CUSTOMER


class QuoteLine(models.Model):
    """One priced line of a quote: list rate frozen when added, less its discount."""

    quote = models.ForeignKey(Quote, models.CASCADE, related_name="lines", verbose_name=_("quote"))
    position = models.PositiveIntegerField(_("position"), default=1)
    offer = models.ForeignKey(Offer, models.PROTECT, related_name="+", verbose_name=_("offer"))
    image = models.ForeignKey(Image, models.PROTECT, related_name="+", verbose_name=_("image"))
    quantity = models.PositiveIntegerField(_("units"), default=1)
    term = models.CharField(_("term"), max_length=5, choices=Term)
    periods = models.PositiveIntegerField(_("months or years"), default=1)
    list_rate = models.DecimalField(_("list rate per card"), max_digits=20, decimal_places=10, editable=False)
    discount_percent = models.DecimalField(_("discount (%)"), max_digits=5, decimal_places=2, default=0)
    rate = models.DecimalField(_("rate per card"), max_digits=20, decimal_places=10, editable=False)
    disk_rate = models.DecimalField(
        _("rate per GB-hour while stopped"), max_digits=20, decimal_places=10, default=0, editable=False
    )
    amount_minor = models.BigIntegerField(_("amount (minor units)"), editable=False)

    class Meta:
        verbose_name = _("quote line")
        verbose_name_plural = _("quote lines")
        ordering = ["position", "pk"]
        constraints = [
            models.CheckConstraint(condition=Q(quantity__gt=0, periods__gt=0), name="quote_line_counts"),
            models.CheckConstraint(
                condition=Q(discount_percent__gte=0, discount_percent__lte=100), name="quote_line_discount"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.quote} #{self.position}"

    @property
    def cards(self) -> int:
        """Cards of all units together; needs the offer loaded."""
        return self.quantity * self.offer.cards_per_unit


class QuoteEvent(models.Model):
    """Append-only: what happened to a quote, when and by whom."""

    quote = models.ForeignKey(Quote, models.CASCADE, related_name="events")
    status = models.CharField(max_length=10, choices=Quote.Status)
    actor = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField()

    class Meta:
        ordering = ["at", "pk"]

    def __str__(self) -> str:
        return f"{self.quote} {self.status}"
