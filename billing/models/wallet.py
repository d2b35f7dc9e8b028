"""Money ahead of any invoice: top-ups, bank transfers, gifted credit, and usage already taken from a balance."""

import uuid

import pghistory
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES, User
from billing.models.accounts import BillingAccount
from orders.models import Subscription, transition_trigger

TOP_UP_MOVES = {
    "created": {"open", "paid", "expired", "failed"},
    "open": {"paid", "expired", "failed"},
    # Money that comes late is credited all the same.
    "expired": {"paid"},
    "failed": {"paid"},
}
SLIP_MOVES = {"submitted": {"matched", "rejected"}}
TRANSFER_MOVES = {"unmatched": {"matched", "returned"}}


class SettledUsage(models.Model):
    """How much of one line to be was taken from the balance so far: ends equal to the line.

    `month` is the local month's start; the other fields are what the invoice line will be grouped by.
    """

    account = models.ForeignKey(BillingAccount, models.PROTECT, related_name="+")
    subscription = models.ForeignKey(Subscription, models.PROTECT, related_name="+")
    meter = models.CharField(max_length=12)
    quantity = models.PositiveIntegerField()
    rate = models.DecimalField(max_digits=20, decimal_places=10)
    month = models.DateTimeField()
    amount_minor = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["account", "month", "subscription", "meter", "quantity", "rate"], name="settled_once_a_line"
            )
        ]

    def __str__(self) -> str:
        return f"{self.subscription_id} {self.meter} {self.month:%Y-%m}"


class SettledGift(models.Model):
    """How much of a month's settled usage was taken from gifted credit; the rest came from the balance."""

    account = models.ForeignKey(BillingAccount, models.PROTECT, related_name="+")
    month = models.DateTimeField()
    amount_minor = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "month"], name="settled_gift_once_a_month")]

    def __str__(self) -> str:
        return f"{self.account_id} {self.month:%Y-%m}"


@pghistory.track(exclude=["checkout_url"])
class TopUp(models.Model):
    """Money a customer pays into the balance through Stripe. Credited once per payment intent."""

    class Status(models.TextChoices):
        CREATED = "created", _("Begun")
        OPEN = "open", _("Awaiting payment")
        PAID = "paid", _("Paid")
        EXPIRED = "expired", _("Expired")
        FAILED = "failed", _("Failed")

    NEXT = TOP_UP_MOVES

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    account = models.ForeignKey(BillingAccount, models.PROTECT, related_name="top_ups", verbose_name=_("account"))
    request_key = models.CharField(max_length=64)
    status = models.CharField(_("status"), max_length=8, choices=Status, default=Status.CREATED)
    amount_minor = models.BigIntegerField(_("amount (minor units)"))
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    is_automatic = models.BooleanField(_("automatic"), default=False)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("by"))
    created_at = models.DateTimeField(_("created at"))
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    paid_at = models.DateTimeField(_("paid at"), null=True, blank=True)
    stripe_session_id = models.CharField(_("Stripe session"), max_length=100, blank=True)
    payment_intent = models.CharField(_("payment intent"), max_length=100, null=True, blank=True, unique=True)
    checkout_url = models.URLField(max_length=600, blank=True)
    version = models.PositiveIntegerField(default=1, editable=False)
    attempts = models.PositiveIntegerField(default=0, editable=False)
    declines = models.PositiveIntegerField(default=0, editable=False)
    error = models.CharField(_("problem"), max_length=300, blank=True)
    next_check_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("top-up")
        verbose_name_plural = _("top-ups")
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["account", "request_key"], name="top_up_request_once"),
            models.UniqueConstraint(
                fields=["stripe_session_id"], condition=~Q(stripe_session_id=""), name="top_up_session_once"
            ),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="top_up_positive"),
            models.CheckConstraint(
                condition=~Q(status="paid") | Q(payment_intent__isnull=False, paid_at__isnull=False),
                name="paid_top_up_has_its_payment",
            ),
        ]
        indexes = [
            models.Index(fields=["next_check_at"], condition=Q(status__in=["created", "open"]), name="top_up_check_due")
        ]
        triggers = [transition_trigger(TOP_UP_MOVES)]

    def __str__(self) -> str:
        return str(self.key)


@pghistory.track()
class ReceivingAccount(models.Model):
    """A bank account of the company that customers transfer to, shown by currency."""

    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    holder = models.CharField(_("account holder"), max_length=100)
    bank = models.CharField(_("bank"), max_length=100)
    number = models.CharField(_("account number"), max_length=40)
    routing = models.CharField(_("SWIFT or CNAPS code"), max_length=20, blank=True)
    is_shown = models.BooleanField(_("shown to customers"), default=True)

    class Meta:
        verbose_name = _("receiving bank account")
        verbose_name_plural = _("receiving bank accounts")

    def __str__(self) -> str:
        return f"{self.bank} {self.number}"


@pghistory.track()
class TransferSlip(models.Model):
    """A customer's word that money is on its way, with the bank's slip. Finance matches it; it credits nothing."""

    class Status(models.TextChoices):
        SUBMITTED = "submitted", _("Submitted")
        MATCHED = "matched", _("Matched")
        REJECTED = "rejected", _("Rejected")

    NEXT = SLIP_MOVES

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    account = models.ForeignKey(BillingAccount, models.PROTECT, related_name="slips", verbose_name=_("account"))
    status = models.CharField(_("status"), max_length=9, choices=Status, default=Status.SUBMITTED)
    amount_minor = models.BigIntegerField(_("amount (minor units)"))
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    payer = models.CharField(_("payer"), max_length=100)
    sent_on = models.DateField(_("sent on"))
    file = models.FileField(_("slip"), upload_to="slips/%Y/%m", max_length=200)
    # The hash of the file and its figures: a double click is one slip.
    fingerprint = models.CharField(max_length=64)
    submitted_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("by"))
    submitted_at = models.DateTimeField(_("submitted at"))
    decided_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("decided by"))
    decided_at = models.DateTimeField(_("decided at"), null=True, blank=True)
    reason = models.CharField(_("reason"), max_length=300, blank=True)

    class Meta:
        verbose_name = _("transfer slip")
        verbose_name_plural = _("transfer slips")
        ordering = ["-submitted_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["account", "fingerprint"], condition=~Q(status="rejected"), name="transfer_slip_once"
            ),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="transfer_slip_positive"),
        ]
        triggers = [transition_trigger(SLIP_MOVES)]

    def __str__(self) -> str:
        return f"{self.payer} {self.sent_on}"


@pghistory.track()
class BankTransfer(models.Model):
    """Money that stands on the bank's statement, once per reference; matched to an account it enters its balance."""

    class Status(models.TextChoices):
        UNMATCHED = "unmatched", _("Unmatched")
        MATCHED = "matched", _("Matched")
        RETURNED = "returned", _("Sent back")

    NEXT = TRANSFER_MOVES

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    reference = models.CharField(_("bank's reference"), max_length=60, unique=True)
    status = models.CharField(_("status"), max_length=9, choices=Status, default=Status.UNMATCHED)
    payer = models.CharField(_("payer"), max_length=100)
    amount_minor = models.BigIntegerField(_("amount (minor units)"))
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    remark = models.CharField(_("remark"), max_length=200, blank=True)
    received_at = models.DateTimeField(_("received at"))
    recorded_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("recorded by"))
    account = models.ForeignKey(
        BillingAccount, models.PROTECT, null=True, blank=True, related_name="transfers", verbose_name=_("account")
    )
    slip = models.OneToOneField(TransferSlip, models.PROTECT, null=True, blank=True, related_name="transfer")
    matched_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("matched by"))
    matched_at = models.DateTimeField(_("matched at"), null=True, blank=True)
    note = models.CharField(_("note"), max_length=300, blank=True)

    class Meta:
        verbose_name = _("bank transfer")
        verbose_name_plural = _("bank transfers")
        ordering = ["-received_at", "-pk"]
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="bank_transfer_positive"),
            models.CheckConstraint(
                condition=~Q(status="matched") | Q(account__isnull=False, matched_at__isnull=False),
                name="matched_transfer_has_account",
            ),
        ]
        triggers = [transition_trigger(TRANSFER_MOVES)]

    def __str__(self) -> str:
        return self.reference


class Gift(models.Model):
    """Credit given for nothing: spent before the balance, oldest expiry first; not refundable, on no 发票."""

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    account = models.ForeignKey(BillingAccount, models.PROTECT, related_name="gifts", verbose_name=_("account"))
    amount_minor = models.BigIntegerField(_("amount (minor units)"))
    spent_minor = models.BigIntegerField(_("spent (minor units)"), default=0)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    reason = models.CharField(_("reason"), max_length=200)
    granted_at = models.DateTimeField(_("granted at"))
    granted_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("granted by"))
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    expired_at = models.DateTimeField(_("expired at"), null=True, blank=True, editable=False)
    request_key = models.CharField(max_length=64, unique=True)

    class Meta:
        verbose_name = _("gifted credit")
        verbose_name_plural = _("gifted credits")
        ordering = ["-granted_at", "-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(amount_minor__gt=0, spent_minor__gte=0, spent_minor__lte=F("amount_minor")),
                name="gift_spent_in_amount",
            )
        ]

    def __str__(self) -> str:
        return self.reason

    @property
    def left_minor(self) -> int:
        """What is not spent; of one that expired, what was taken back."""
        return self.amount_minor - self.spent_minor


@pghistory.track()
class Voucher(models.Model):
    """A code that turns into gifted credit, once."""

    code = models.CharField(_("code"), max_length=32, unique=True)
    amount_minor = models.BigIntegerField(_("amount (minor units)"))
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    reason = models.CharField(_("reason"), max_length=200)
    valid_until = models.DateTimeField(_("valid until"))
    days = models.PositiveIntegerField(_("days the credit lasts"), default=365)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("by"))
    created_at = models.DateTimeField(_("created at"))
    gift = models.OneToOneField(
        Gift,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="voucher",
        verbose_name=_("gifted credit"),
        editable=False,
    )

    class Meta:
        verbose_name = _("voucher")
        verbose_name_plural = _("vouchers")
        ordering = ["-created_at", "-pk"]
        constraints = [models.CheckConstraint(condition=Q(amount_minor__gt=0), name="voucher_positive")]

    def __str__(self) -> str:
        return self.code
