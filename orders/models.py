"""What was asked for and agreed: quotes, orders, their lines, and the subscriptions that everything billed hangs on."""

import secrets
import uuid

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES, Organization, Project, User
from catalog.changes import leave_a_change
from catalog.models import Image, Offer


class Term(models.TextChoices):
    HOUR = "hour", _("By the hour")
    MONTH = "month", _("By the month")
    YEAR = "year", _("By the year")


def transition_trigger(moves: dict[str, set[str]]) -> pgtrigger.FSM:
    """The database's copy of a model's transition table: an UPDATE of `status` along no listed arrow is refused."""
    return pgtrigger.FSM(
        name="status_moves",
        field="status",
        transitions=[(start, end) for start, ends in moves.items() for end in sorted(ends)],
    )


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


ORDER_MOVES = {
    "awaiting_payment": {"confirmed", "expiring", "cancelled"},
    "expiring": {"confirmed", "cancelled"},
    "confirmed": {"provisioning", "failed"},
    "provisioning": {"active", "ended", "failed"},
    "active": {"ended"},
}


class Order(models.Model):
    """A request for units at a frozen price. Placing it holds the cards in the same transaction."""

    class Status(models.TextChoices):
        AWAITING_PAYMENT = "awaiting_payment", _("Awaiting payment")
        EXPIRING = "expiring", _("Expiring")
        CONFIRMED = "confirmed", _("Confirmed")
        PROVISIONING = "provisioning", _("Provisioning")
        ACTIVE = "active", _("Active")
        ENDED = "ended", _("Ended")
        CANCELLED = "cancelled", _("Cancelled")
        FAILED = "failed", _("Failed")

    NEXT = ORDER_MOVES

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    organization = models.ForeignKey(
        Organization, models.PROTECT, related_name="orders", verbose_name=_("organization")
    )
    project = models.ForeignKey(Project, models.PROTECT, related_name="orders", verbose_name=_("project"))
    placed_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("placed by"))
    request_key = models.CharField(_("request key"), max_length=64)
    status = models.CharField(_("status"), max_length=20, choices=Status)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    total_minor = models.BigIntegerField(_("paid in advance (minor units)"))
    placed_at = models.DateTimeField(_("placed at"))
    hold_expires_at = models.DateTimeField(_("hold expires at"), null=True, blank=True)
    paid_at = models.DateTimeField(_("paid at"), null=True, blank=True)

    class Meta:
        verbose_name = _("order")
        verbose_name_plural = _("orders")
        ordering = ["-placed_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["organization", "request_key"], name="order_request_once"),
            models.CheckConstraint(condition=Q(total_minor__gte=0), name="order_total_not_negative"),
            models.CheckConstraint(
                condition=~Q(status__in=["awaiting_payment", "expiring"]) | Q(hold_expires_at__isnull=False),
                name="unpaid_order_has_expiry",
            ),
        ]
        indexes = [
            models.Index(
                fields=["status"],
                condition=Q(status__in=["awaiting_payment", "expiring", "confirmed", "provisioning"]),
                name="order_open",
            )
        ]
        triggers = [transition_trigger(ORDER_MOVES)]

    def __str__(self) -> str:
        return self.number

    @property
    def number(self) -> str:
        """Carries the day as the site's zone counts it."""
        local = timezone.localtime(self.placed_at, timezone.get_default_timezone())
        return f"SO{local:%y%m%d}{self.pk:06d}"


class OrderLine(models.Model):
    """What one line agreed, frozen: offer, units, term, rate, image and keys. `units` are the machines to be made."""

    order = models.ForeignKey(Order, models.PROTECT, related_name="lines", verbose_name=_("order"))
    offer = models.ForeignKey(Offer, models.PROTECT, related_name="order_lines", verbose_name=_("offer"))
    image = models.ForeignKey(Image, models.PROTECT, related_name="+", verbose_name=_("image"))
    public_keys = ArrayField(models.TextField(), verbose_name=_("SSH keys"))
    quantity = models.PositiveIntegerField(_("units"))
    cards_per_unit = models.PositiveIntegerField(_("cards per unit"))
    disk_gb = models.PositiveIntegerField(_("disk per unit (GB)"))
    term = models.CharField(_("term"), max_length=5, choices=Term)
    periods = models.PositiveIntegerField(_("months or years"))
    rate = models.DecimalField(_("rate per card"), max_digits=20, decimal_places=10)
    disk_rate = models.DecimalField(_("rate per GB-hour while stopped"), max_digits=20, decimal_places=10)
    amount_minor = models.BigIntegerField(_("paid in advance (minor units)"))
    tax_percent = models.DecimalField(_("tax (%)"), max_digits=5, decimal_places=2)
    tax_code = models.CharField(_("tax code"), max_length=19)
    units = ArrayField(models.UUIDField(), verbose_name=_("units"))

    class Meta:
        verbose_name = _("order line")
        verbose_name_plural = _("order lines")
        constraints = [
            models.CheckConstraint(
                condition=Q(quantity__gt=0, cards_per_unit__gt=0, periods__gt=0), name="order_line_counts"
            ),
            models.CheckConstraint(condition=Q(units__len=models.F("quantity")), name="order_line_unit_per_piece"),
            models.CheckConstraint(
                condition=Q(rate__gte=0, disk_rate__gte=0, amount_minor__gte=0), name="order_line_money"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.order_id} · {self.offer_id}"

    @property
    def cards(self) -> int:
        """Cards of all units together."""
        return self.quantity * self.cards_per_unit


class OrderEvent(models.Model):
    """Append-only: what happened to an order, when and by whom (no actor: the system)."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="events")
    status = models.CharField(max_length=20, choices=Order.Status)
    actor = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField()
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["at", "pk"]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update)]

    def __str__(self) -> str:
        return f"{self.order_id} {self.status}"


class Subscription(models.Model):
    """What recurs or is owed once for one unit, with its price snapshot.

    Hourly: usage windows are billed at `rate` per card-hour and `disk_rate` per GB-hour. Term: `[started_at, ends_at)`
    is prepaid. `headroom_minor` is what an hourly unit keeps committed on the credit line until it ends.
    """

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    organization = models.ForeignKey(Organization, models.PROTECT, related_name="subscriptions")
    project = models.ForeignKey(Project, models.PROTECT, related_name="subscriptions")
    order_line = models.ForeignKey(OrderLine, models.PROTECT, related_name="subscriptions")
    unit = models.UUIDField(unique=True)
    term = models.CharField(max_length=5, choices=Term)
    periods = models.PositiveIntegerField()
    cards = models.PositiveIntegerField()
    disk_gb = models.PositiveIntegerField()
    currency = models.CharField(max_length=3, choices=CURRENCY_CHOICES)
    rate = models.DecimalField(max_digits=20, decimal_places=10)
    disk_rate = models.DecimalField(max_digits=20, decimal_places=10)
    tax_percent = models.DecimalField(max_digits=5, decimal_places=2)
    tax_code = models.CharField(max_length=19)
    headroom_minor = models.BigIntegerField(default=0)
    anchor_day = models.PositiveSmallIntegerField(null=True)
    started_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("subscription")
        verbose_name_plural = _("subscriptions")
        # Visitors see of a sold-out offer when the first of its terms ends.
        triggers = [leave_a_change()]
        constraints = [
            models.CheckConstraint(condition=Q(cards__gt=0, headroom_minor__gte=0), name="subscription_counts"),
            models.CheckConstraint(
                condition=Q(anchor_day__isnull=True) | Q(anchor_day__gte=1, anchor_day__lte=31),
                name="subscription_anchor",
            ),
        ]
        indexes = [models.Index(fields=["organization"], condition=Q(ended_at__isnull=True), name="subscription_open")]

    def __str__(self) -> str:
        return str(self.key)

    @property
    def is_hourly(self) -> bool:
        """Metered while it runs, with headroom kept ready; else a term that is paid in advance."""
        return self.term == Term.HOUR
