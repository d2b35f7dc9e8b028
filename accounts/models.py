"""Who uses the marketplace: people, organizations, projects, SSH keys, and the credit that may be committed."""

import uuid
from datetime import date
from typing import Any, ClassVar

import pghistory
import pgtrigger
from django.conf import settings
from django.contrib.auth.models import AbstractUser, BaseUserManager
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _

from marketplace.lib.money import BILLING_CURRENCIES

CURRENCY_CHOICES = [(code, code) for code in BILLING_CURRENCIES]


class UserManager(BaseUserManager["User"]):
    use_in_migrations = True

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> "User":
        user = self.model(email=self.normalize_email(email), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> "User":
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)

    def get_by_natural_key(self, email: str | None) -> "User":
        return self.get(email__iexact=email)


class User(AbstractUser):
    """A person. Logs in with an e-mail address; what they may do comes from memberships and, for staff, groups."""

    username = None  # type: ignore[assignment]
    email = models.EmailField(_("email address"), unique=True)
    # What mails are written in: the language the person signed up in or last chose while signed in.
    language = models.CharField(
        _("language"), max_length=10, choices=settings.LANGUAGES, default=settings.LANGUAGE_CODE
    )
    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects = UserManager()  # type: ignore[assignment,misc]

    class Meta:
        verbose_name = _("user")
        verbose_name_plural = _("users")
        constraints = [models.UniqueConstraint(Lower("email"), name="user_email_unique")]

    def __str__(self) -> str:
        return self.email


@pghistory.track()
class Organization(models.Model):
    """The customer: who rents, who is billed. Currency and zone are frozen by its first order."""

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.CharField(_("name"), max_length=100)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES, default="CNY")
    zone = models.CharField(_("time zone"), max_length=50, default="Asia/Shanghai")
    frozen_at = models.DateTimeField(_("currency and zone frozen at"), null=True, blank=True, editable=False)
    # Written down by billing once finance has seen that the buyer sits abroad; orders are taxed by it.
    is_export = models.BooleanField(_("sold to as an export"), default=False, db_default=False, editable=False)
    created_at = models.DateTimeField(_("created at"))
    members = models.ManyToManyField(User, through="Membership", related_name="organizations")

    class Meta:
        verbose_name = _("organization")
        verbose_name_plural = _("organizations")
        constraints = [
            models.CheckConstraint(condition=Q(currency__in=BILLING_CURRENCIES), name="organization_currency")
        ]
        triggers = [
            pgtrigger.Protect(
                name="frozen_terms",
                operation=pgtrigger.Update,
                condition=pgtrigger.Q(old__frozen_at__isnull=False)
                & (
                    pgtrigger.Q(old__currency__df=pgtrigger.F("new__currency"))
                    | pgtrigger.Q(old__zone__df=pgtrigger.F("new__zone"))
                    | pgtrigger.Q(old__frozen_at__df=pgtrigger.F("new__frozen_at"))
                ),
            )
        ]

    def __str__(self) -> str:
        return self.name


@pghistory.track()
class Membership(models.Model):
    """One person's role in one organization; `accounts.permissions` says what each role may do."""

    class Role(models.TextChoices):
        OWNER = "owner", _("Owner")
        ADMIN = "admin", _("Administrator")
        ENGINEER = "engineer", _("Engineer")
        FINANCE = "finance", _("Finance")
        VIEWER = "viewer", _("Viewer")

    user = models.ForeignKey(User, models.CASCADE, related_name="memberships", verbose_name=_("user"))
    organization = models.ForeignKey(
        Organization, models.CASCADE, related_name="memberships", verbose_name=_("organization")
    )
    role = models.CharField(_("role"), max_length=10, choices=Role)
    joined_at = models.DateTimeField(_("joined at"))

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints = [models.UniqueConstraint(fields=["user", "organization"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} · {self.organization}"


class Project(models.Model):
    """A cost centre of an organization. Every order and rental belongs to one."""

    organization = models.ForeignKey(
        Organization, models.CASCADE, related_name="projects", verbose_name=_("organization")
    )
    name = models.CharField(_("name"), max_length=60)
    is_default = models.BooleanField(_("default"), default=False)

    class Meta:
        verbose_name = _("project")
        verbose_name_plural = _("projects")
        constraints = [
            models.UniqueConstraint(fields=["organization", "name"], name="project_name_unique"),
            models.UniqueConstraint(fields=["organization"], condition=Q(is_default=True), name="project_one_default"),
        ]

    def __str__(self) -> str:
        return self.name


@pghistory.track(
    pghistory.InsertEvent(),
    pghistory.UpdateEvent(condition=pghistory.AnyChange("amount_minor", "on_reached")),
    pghistory.DeleteEvent(),
    exclude=["month", "spent_minor", "forecast_minor", "refreshed_at"],
)
class Budget(models.Model):
    """What an organization, or one of its projects, wants to spend in a calendar month, in minor units of its currency.

    Billing writes down what was spent and what the month comes to; the figures are those of `month` (the first day of
    the local month) and stand for nothing in another one.
    """

    class OnReached(models.TextChoices):
        WARN = "warn", _("Only tell us")
        BLOCK = "block", _("Refuse new orders")
        STOP = "stop", _("Refuse new orders and stop machines")

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    organization = models.ForeignKey(
        Organization, models.CASCADE, related_name="budgets", verbose_name=_("organization")
    )
    # None: the whole organization.
    project = models.ForeignKey(
        Project, models.CASCADE, null=True, blank=True, related_name="budgets", verbose_name=_("project")
    )
    amount_minor = models.BigIntegerField(_("amount a month (minor units)"))
    on_reached = models.CharField(_("when it is used up"), max_length=5, choices=OnReached, default=OnReached.WARN)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("added by"))
    created_at = models.DateTimeField(_("created at"))
    month = models.DateField(_("month"), null=True, blank=True, editable=False)
    spent_minor = models.BigIntegerField(_("spent (minor units)"), default=0, editable=False)
    forecast_minor = models.BigIntegerField(_("forecast (minor units)"), default=0, editable=False)
    refreshed_at = models.DateTimeField(_("refreshed at"), null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("budget")
        verbose_name_plural = _("budgets")
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "project"], nulls_distinct=False, name="budget_once_a_scope"
            ),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="budget_positive"),
        ]

    def __str__(self) -> str:
        return str(self.project or self.organization)

    def spent_in(self, month: date) -> int:
        """What was spent in the local month that begins on this day, as far as it is written down."""
        return self.spent_minor if self.month == month else 0


class CreditLine(models.Model):
    """What an organization may still commit to, in minor units of its currency.

    Billing keeps `available_minor` fresh (limit and balance, less everything used and unpaid); placing and ending
    hourly rentals moves `committed_minor` (hours of burn kept ready) by guarded updates, so two parallel orders cannot
    both pass.
    """

    class Standing(models.TextChoices):
        GOOD = "good", _("Good")
        FROZEN = "frozen", _("Frozen")

    organization = models.OneToOneField(
        Organization, models.CASCADE, related_name="credit_line", verbose_name=_("organization")
    )
    limit_minor = models.BigIntegerField(_("credit limit (minor units)"), default=0)
    available_minor = models.BigIntegerField(_("available (minor units)"), default=0)
    committed_minor = models.BigIntegerField(_("committed (minor units)"), default=0)
    standing = models.CharField(_("standing"), max_length=10, choices=Standing, default=Standing.GOOD)
    refreshed_at = models.DateTimeField(_("refreshed at"), null=True, blank=True)
    # The last warning that credit runs low: for how many hours of burn, when, and what was available then. None once
    # credit has recovered, so that the next crossing warns again.
    warned_hours = models.PositiveSmallIntegerField(null=True, blank=True, editable=False)
    warned_at = models.DateTimeField(null=True, blank=True, editable=False)
    warned_available_minor = models.BigIntegerField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("credit line")
        verbose_name_plural = _("credit lines")
        constraints = [
            models.CheckConstraint(condition=Q(limit_minor__gte=0), name="credit_limit_not_negative"),
            models.CheckConstraint(condition=Q(committed_minor__gte=0), name="credit_committed_not_negative"),
        ]

    def __str__(self) -> str:
        return str(self.organization)

    @property
    def headroom_minor(self) -> int:
        """What a new hourly order may still commit."""
        return max(self.available_minor - self.committed_minor, 0)


class SshKey(models.Model):
    """A public key that an organization's machines admit. Only public keys are ever stored."""

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    organization = models.ForeignKey(
        Organization, models.CASCADE, related_name="ssh_keys", verbose_name=_("organization")
    )
    name = models.CharField(_("name"), max_length=60)
    public_key = models.TextField(_("public key"))
    algorithm = models.CharField(_("algorithm"), max_length=60)
    fingerprint = models.CharField(_("fingerprint"), max_length=60)
    # Ticked already on the form of a new order.
    is_default = models.BooleanField(_("chosen for new orders"), default=False)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("added by"))
    created_at = models.DateTimeField(_("created at"))

    class Meta:
        verbose_name = _("SSH key")
        verbose_name_plural = _("SSH keys")
        constraints = [
            models.UniqueConstraint(fields=["organization", "fingerprint"], name="ssh_key_once"),
            models.UniqueConstraint(fields=["organization", "name"], name="ssh_key_name_unique"),
        ]

    def __str__(self) -> str:
        return self.name


class Notification(models.Model):
    """Something an organization should know, once per fact: written in the transaction that made the fact.

    It holds no words: `accounts.notices` says it in the reader's language from `kind` and `params`. `page` and
    `page_args` name the page it is about.
    """

    class Kind(models.TextChoices):
        RENTAL_READY = "rental_ready", _("Machine ready")
        RENTAL_FAILED = "rental_failed", _("Machine failed")
        RENTAL_LOST = "rental_lost", _("Machine lost")
        RENTAL_SUSPENDED = "rental_suspended", _("Machine suspended")
        RENTAL_NOT_RESUMED = "rental_not_resumed", _("Machine not started again")
        AUTO_STOPPED = "auto_stopped", _("Stopped by a rule")
        AUTO_STOP_FAILED = "auto_stop_failed", _("Rule could not stop a machine")
        RENTAL_EXPIRING = "rental_expiring", _("Term ending")
        HOLD_EXPIRED = "hold_expired", _("Order expired")
        WAITLIST_FREE = "waitlist_free", _("Cards free")
        QUOTE_SENT = "quote_sent", _("Quote received")
        INVOICE_ISSUED = "invoice_issued", _("Invoice issued")
        INVOICE_OVERDUE = "invoice_overdue", _("Invoice overdue")
        INVOICE_REMINDER = "invoice_reminder", _("Invoice reminder")
        CREDIT_LOW = "credit_low", _("Credit running low")
        ARREARS_BEGUN = "arrears_begun", _("Balance below zero")
        ARREARS_SUSPENDED = "arrears_suspended", _("Machines suspended")
        ARREARS_KEPT = "arrears_kept", _("Data about to be deleted")
        ARREARS_RELEASED = "arrears_released", _("Data deleted")
        ARREARS_CLEARED = "arrears_cleared", _("Balance settled")
        BUDGET_REACHED = "budget_reached", _("Budget used")
        BALANCE_CREDITED = "balance_credited", _("Balance credited")
        SLIP_REJECTED = "slip_rejected", _("Transfer slip rejected")
        TOP_UP_DECLINED = "top_up_declined", _("Automatic top-up declined")
        CREDIT_NOTE = "credit_note", _("Credit note issued")
        REFUND_ENDED = "refund_ended", _("Refund done or failed")
        DISPUTE_OPENED = "dispute_opened", _("Payment disputed")
        FAPIAO_ISSUED = "fapiao_issued", _("Fapiao issued")
        FAPIAO_REFUSED = "fapiao_refused", _("Fapiao could not be issued")
        FAPIAO_FLUSHED = "fapiao_flushed", _("Fapiao red-flushed")

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    organization = models.ForeignKey(
        Organization, models.CASCADE, related_name="notifications", verbose_name=_("organization")
    )
    user = models.ForeignKey(User, models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("only for"))
    kind = models.CharField(_("kind"), max_length=20, choices=Kind)
    fact = models.CharField(_("fact"), max_length=120)
    params = models.JSONField(_("figures"), default=dict)
    page = models.CharField(max_length=60)
    page_args = models.JSONField(default=list)
    created_at = models.DateTimeField(_("created at"))

    class Meta:
        verbose_name = _("notification")
        verbose_name_plural = _("notifications")
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["organization", "kind", "fact"], name="notification_once_a_fact")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.fact}"


class Delivery(models.Model):
    """One notification for one member: what they read, and the queue of mails (rows with `mail_due_at`).

    `mail_due_at` is the next attempt or, while one runs, the end of its lease; none means sent, given up or not wanted.
    """

    notification = models.ForeignKey(
        Notification, models.CASCADE, related_name="deliveries", verbose_name=_("notification")
    )
    user = models.ForeignKey(User, models.CASCADE, related_name="deliveries", verbose_name=_("person"))
    in_app = models.BooleanField(_("shown in the console"), default=True)
    read_at = models.DateTimeField(_("read at"), null=True, blank=True)
    mail_due_at = models.DateTimeField(_("mail due at"), null=True, blank=True)
    mailed_at = models.DateTimeField(_("mailed at"), null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    failed_reason = models.CharField(_("mail not sent because"), max_length=60, blank=True)

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        constraints = [models.UniqueConstraint(fields=["notification", "user"], name="delivery_once")]
        indexes = [
            models.Index(fields=["mail_due_at"], condition=Q(mail_due_at__isnull=False), name="delivery_mail_due"),
            models.Index(fields=["user"], condition=Q(in_app=True, read_at__isnull=True), name="delivery_unread"),
        ]

    def __str__(self) -> str:
        return f"{self.notification_id} → {self.user_id}"


class NotificationPreference(models.Model):
    """How one person wants one group of notices; no row means the group's default (`accounts.notices.GROUPS`)."""

    user = models.ForeignKey(User, models.CASCADE, related_name="notification_preferences")
    group = models.CharField(max_length=20)
    in_app = models.BooleanField()
    mail = models.BooleanField()

    class Meta:
        verbose_name = _("notification preference")
        verbose_name_plural = _("notification preferences")
        constraints = [models.UniqueConstraint(fields=["user", "group"], name="notification_preference_once")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.group}"
