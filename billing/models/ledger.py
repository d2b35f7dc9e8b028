"""The ledger: double entry per billing account, append-only, every set of entries sums to zero."""

import pgtrigger
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from accounts.models import CURRENCY_CHOICES, User
from billing.models.accounts import BillingAccount
from billing.models.invoices import Invoice


class Book(models.TextChoices):
    """What a ledger entry counts. Debits are positive, credits negative."""

    CASH = "cash", pgettext_lazy("ledger", "Cash")
    RECEIVABLE = "receivable", pgettext_lazy("ledger", "Receivable")
    WALLET = "wallet", pgettext_lazy("ledger", "Customer balance")
    GIFT = "gift", pgettext_lazy("ledger", "Gifted credit")
    UNBILLED = "unbilled", pgettext_lazy("ledger", "Taken from balances, not invoiced yet")
    REVENUE = "revenue", pgettext_lazy("ledger", "Revenue")
    TAX = "tax", pgettext_lazy("ledger", "Tax payable")
    REFUNDS = "refunds", pgettext_lazy("ledger", "Refunds payable")
    PROMOTION = "promotion", pgettext_lazy("ledger", "Promotion")
    ROUNDING = "rounding", pgettext_lazy("ledger", "Rounding")


class Posting(models.Model):
    """One fact in the books: unique per kind and fact, so a repeated step posts nothing. Its entries sum to zero."""

    class Kind(models.TextChoices):
        ISSUE = "issue", _("Invoice issued")
        VOID = "void", _("Invoice voided")
        PAYMENT = "payment", _("Payment received")
        PAYMENT_REVERSED = "payment_reversed", _("Payment reversed")
        TOP_UP = "top_up", _("Top-up")
        TRANSFER = "transfer", _("Bank transfer matched")
        WALLET_PAID = "wallet_paid", _("Paid from the balance")
        SETTLE = "settle", _("Usage taken from the balance")
        GIFT = "gift", _("Credit gifted")
        GIFT_PAID = "gift_paid", _("Paid with gifted credit")
        GIFT_EXPIRED = "gift_expired", _("Gifted credit expired")
        CREDIT_NOTE = "credit_note", _("Credit note")
        REFUND = "refund", _("Refund")
        REFUND_FAILED = "refund_failed", _("Refund failed")
        CORRECTION = "correction", _("Correction")

    account = models.ForeignKey(BillingAccount, models.PROTECT, related_name="postings", verbose_name=_("account"))
    kind = models.CharField(_("kind"), max_length=16, choices=Kind)
    fact = models.CharField(_("fact"), max_length=120)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    at = models.DateTimeField(_("at"))
    # The month it counts in: that of `at`, or the first open one when finance has closed that already.
    booked_on = models.DateField(_("booked on"))
    invoice = models.ForeignKey(Invoice, models.PROTECT, null=True, related_name="postings", verbose_name=_("invoice"))
    actor = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("by"))
    note = models.CharField(_("note"), max_length=300, blank=True)

    class Meta:
        verbose_name = _("posting")
        verbose_name_plural = _("postings")
        ordering = ["-pk"]
        constraints = [models.UniqueConstraint(fields=["kind", "fact"], name="posting_once_a_fact")]
        indexes = [
            models.Index(fields=["account", "-at"], name="posting_by_account"),
            models.Index(fields=["booked_on"], name="posting_by_booking"),
        ]
        triggers = [
            pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete),
            pgtrigger.Trigger(
                name="not_in_a_closed_month",
                operation=pgtrigger.Insert,
                when=pgtrigger.Before,
                func="""
                    IF EXISTS (SELECT 1 FROM billing_closedmonth WHERE month = date_trunc('month', NEW.booked_on)::date)
                    THEN RAISE EXCEPTION 'the month of % is closed', NEW.booked_on; END IF;
                    RETURN NEW;
                """,
            ),
        ]

    def __str__(self) -> str:
        return self.fact


class LedgerEntry(models.Model):
    """One side of a posting: so much on one book of the account, in minor units of the posting's currency."""

    posting = models.ForeignKey(Posting, models.PROTECT, related_name="entries", verbose_name=_("posting"))
    account = models.ForeignKey(BillingAccount, models.PROTECT, related_name="+", verbose_name=_("account"))
    book = models.CharField(_("book"), max_length=10, choices=Book)
    amount_minor = models.BigIntegerField(_("amount (minor units)"))

    class Meta:
        verbose_name = _("ledger entry")
        verbose_name_plural = _("ledger entries")
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["posting", "book"], name="ledger_entry_once_a_book"),
            models.CheckConstraint(condition=~Q(amount_minor=0), name="ledger_entry_not_zero"),
        ]
        indexes = [models.Index(fields=["account", "book", "id"], include=["amount_minor"], name="ledger_balance")]
        triggers = [
            pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete),
            # A set is written by one statement, and no statement may leave a set that does not sum to zero.
            pgtrigger.Trigger(
                name="sums_to_zero",
                level=pgtrigger.Statement,
                operation=pgtrigger.Insert,
                when=pgtrigger.After,
                referencing=pgtrigger.Referencing(new="written"),
                declare=[("wrong", "bigint")],
                func="""
                    SELECT posting_id INTO wrong FROM billing_ledgerentry
                    WHERE posting_id IN (SELECT posting_id FROM written)
                    GROUP BY posting_id HAVING sum(amount_minor) <> 0 LIMIT 1;
                    IF wrong IS NOT NULL THEN RAISE EXCEPTION 'posting % does not sum to zero', wrong; END IF;
                    RETURN NULL;
                """,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.posting_id} {self.book} {self.amount_minor}"


class LedgerCheckpoint(models.Model):
    """What a book of an account sums to up to one entry: a balance is this and the entries after it."""

    account = models.ForeignKey(BillingAccount, models.PROTECT, related_name="+")
    book = models.CharField(max_length=10, choices=Book)
    through = models.BigIntegerField()
    amount_minor = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "book"], name="ledger_checkpoint_once")]

    def __str__(self) -> str:
        return f"{self.account_id} {self.book} through {self.through}"


class ClosedMonth(models.Model):
    """A month that finance locked: nothing is booked in it any more."""

    month = models.DateField(_("month"), unique=True)
    closed_at = models.DateTimeField(_("closed at"))
    closed_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("closed by"))
    # Sums of every book by currency when it was closed, as finance signed them.
    totals = models.JSONField(_("totals"), default=dict)

    class Meta:
        verbose_name = _("closed month")
        verbose_name_plural = _("closed months")
        ordering = ["-month"]
        constraints = [models.CheckConstraint(condition=Q(month__day=1), name="closed_month_is_a_month")]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m}"
