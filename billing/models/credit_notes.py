"""Taking back: credit notes against invoice lines, refunds to where money came from, and disputes."""

import uuid

import pghistory
import pgtrigger
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES, User
from billing.models.accounts import BillingAccount
from billing.models.invoices import Invoice, InvoiceLine
from billing.models.payments import Payment
from billing.models.wallet import TopUp
from orders.models import transition_trigger

REFUND_MOVES = {
    "pending": {"submitted", "succeeded", "failed"},
    "submitted": {"succeeded", "failed"},
    # The payer's bank may still send it back.
    "succeeded": {"failed"},
}
DISPUTE_MOVES = {"open": {"won", "lost"}}


class CreditNote(models.Model):
    """Takes back a part of an issued invoice, numbered in a series of its own. Frozen from the start.

    What was not paid yet is no longer due; of the rest, money goes to the balance or back to its source.
    """

    class Destination(models.TextChoices):
        BALANCE = "balance", _("To the balance")
        SOURCE = "source", _("Back to the source")

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    account = models.ForeignKey(BillingAccount, models.PROTECT, related_name="credit_notes", verbose_name=_("account"))
    invoice = models.ForeignKey(Invoice, models.PROTECT, related_name="credit_notes", verbose_name=_("invoice"))
    number = models.CharField(_("number"), max_length=24, unique=True)
    request_key = models.CharField(max_length=120, unique=True)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    total_minor = models.BigIntegerField(_("total (minor units)"))
    tax_minor = models.BigIntegerField(_("tax within (minor units)"))
    # Of the total: what lowered the amount due, and what had been paid and is given back.
    unpaid_minor = models.BigIntegerField(_("no longer due (minor units)"), default=0)
    returned_minor = models.BigIntegerField(_("given back (minor units)"), default=0)
    # Of what is given back: what had been paid with gifted credit, which never becomes money.
    gift_minor = models.BigIntegerField(_("gifted credit given back (minor units)"), default=0)
    destination = models.CharField(_("given back"), max_length=7, choices=Destination)
    reason = models.CharField(_("reason"), max_length=300)
    issued_at = models.DateTimeField(_("issued at"))
    issued_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("issued by"))
    # Stripe is told afterwards by a sweep.
    stripe_credit_note_id = models.CharField(_("Stripe credit note"), max_length=64, blank=True)
    push_attempts = models.PositiveIntegerField(_("push attempts"), default=0, editable=False)
    push_error = models.CharField(_("push error"), max_length=300, blank=True, editable=False)
    push_version = models.PositiveIntegerField(default=1, editable=False)
    next_push_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("credit note")
        verbose_name_plural = _("credit notes")
        ordering = ["-issued_at", "-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(total_minor__gt=0, tax_minor__gte=0, unpaid_minor__gte=0, returned_minor__gte=0)
                & Q(total_minor=models.F("unpaid_minor") + models.F("returned_minor")),
                name="credit_note_adds_up",
            ),
            models.CheckConstraint(
                condition=Q(gift_minor__gte=0, gift_minor__lte=models.F("returned_minor")),
                name="credit_note_gift_in_returned",
            ),
        ]
        indexes = [
            models.Index(fields=["next_push_at"], condition=Q(next_push_at__isnull=False), name="credit_note_push_due")
        ]
        triggers = [
            pgtrigger.Protect(
                name="fixed_but_for_stripe",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition(
                    "ROW(OLD.key, OLD.number, OLD.invoice_id, OLD.account_id, OLD.request_key, OLD.currency,"
                    " OLD.total_minor, OLD.tax_minor, OLD.unpaid_minor, OLD.returned_minor, OLD.gift_minor,"
                    " OLD.destination, OLD.reason, OLD.issued_at) IS DISTINCT FROM"
                    " ROW(NEW.key, NEW.number, NEW.invoice_id, NEW.account_id, NEW.request_key, NEW.currency,"
                    " NEW.total_minor, NEW.tax_minor, NEW.unpaid_minor, NEW.returned_minor, NEW.gift_minor,"
                    " NEW.destination, NEW.reason, NEW.issued_at)"
                ),
            ),
            pgtrigger.Protect(name="stays", operation=pgtrigger.Delete),
        ]

    def __str__(self) -> str:
        return self.number


class CreditNoteLine(models.Model):
    """How much of one invoice line a note takes back. Never more than the line has left, which the database holds."""

    note = models.ForeignKey(CreditNote, models.PROTECT, related_name="lines", verbose_name=_("credit note"))
    line = models.ForeignKey(InvoiceLine, models.PROTECT, related_name="credits", verbose_name=_("invoice line"))
    amount_minor = models.BigIntegerField(_("amount (minor units)"))
    tax_minor = models.BigIntegerField(_("tax within (minor units)"))

    class Meta:
        verbose_name = _("credit note line")
        verbose_name_plural = _("credit note lines")
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["note", "line"], name="credit_note_line_once"),
            models.CheckConstraint(
                condition=Q(amount_minor__gt=0, tax_minor__gte=0, tax_minor__lte=models.F("amount_minor")),
                name="credit_note_line_positive",
            ),
        ]
        triggers = [
            pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete),
            pgtrigger.Trigger(
                name="never_above_the_line",
                operation=pgtrigger.Insert,
                when=pgtrigger.Before,
                declare=[("left_amount", "bigint"), ("left_tax", "bigint")],
                func="""
                    PERFORM 1 FROM billing_invoice i JOIN billing_invoiceline l ON l.invoice_id = i.id
                        WHERE l.id = NEW.line_id FOR NO KEY UPDATE OF i;
                    SELECT l.amount_minor - COALESCE(sum(c.amount_minor), 0),
                           l.tax_minor - COALESCE(sum(c.tax_minor), 0)
                        INTO left_amount, left_tax
                        FROM billing_invoiceline l LEFT JOIN billing_creditnoteline c ON c.line_id = l.id
                        WHERE l.id = NEW.line_id GROUP BY l.id;
                    IF NEW.amount_minor > left_amount OR NEW.tax_minor > left_tax THEN
                        RAISE EXCEPTION 'line % has only % (tax %) left to credit', NEW.line_id, left_amount, left_tax;
                    END IF;
                    RETURN NEW;
                """,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.note_id} ← {self.line_id}"


# A refund counts against its source until it fails, under the source's row lock.
_WITHIN_SOURCE = """
    IF NEW.payment_id IS NOT NULL THEN
        PERFORM 1 FROM billing_payment WHERE id = NEW.payment_id FOR NO KEY UPDATE;
        SELECT p.amount_minor - COALESCE(
            (SELECT sum(r.amount_minor) FROM billing_refund r WHERE r.payment_id = p.id AND r.status <> 'failed'), 0
        ) INTO room FROM billing_payment p WHERE p.id = NEW.payment_id;
    ELSIF NEW.top_up_id IS NOT NULL THEN
        PERFORM 1 FROM billing_topup WHERE id = NEW.top_up_id FOR NO KEY UPDATE;
        SELECT CASE t.status WHEN 'paid' THEN t.amount_minor ELSE 0 END - COALESCE(
            (SELECT sum(r.amount_minor) FROM billing_refund r WHERE r.top_up_id = t.id AND r.status <> 'failed'), 0
        ) INTO room FROM billing_topup t WHERE t.id = NEW.top_up_id;
    END IF;
    IF room IS NOT NULL AND NEW.amount_minor > room THEN
        RAISE EXCEPTION 'only % is left of the source of this refund', room;
    END IF;
    RETURN NEW;
"""


@pghistory.track()
class Refund(models.Model):
    """Money on its way back to where it came from: a card payment, a top-up or a bank account. Stripe's are pushed."""

    class Status(models.TextChoices):
        PENDING = "pending", _("To be sent")
        SUBMITTED = "submitted", _("Under way")
        SUCCEEDED = "succeeded", _("Refunded")
        FAILED = "failed", _("Refund failed")

    class Method(models.TextChoices):
        STRIPE = "stripe", "Stripe"
        BANK_TRANSFER = "bank_transfer", _("Bank transfer")

    NEXT = REFUND_MOVES

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    account = models.ForeignKey(BillingAccount, models.PROTECT, related_name="refunds", verbose_name=_("account"))
    request_key = models.CharField(max_length=120, unique=True)
    credit_note = models.ForeignKey(
        CreditNote, models.PROTECT, null=True, blank=True, related_name="refunds", verbose_name=_("credit note")
    )
    payment = models.ForeignKey(
        Payment, models.PROTECT, null=True, blank=True, related_name="refunds", verbose_name=_("payment")
    )
    top_up = models.ForeignKey(
        TopUp, models.PROTECT, null=True, blank=True, related_name="refunds", verbose_name=_("top-up")
    )
    method = models.CharField(_("method"), max_length=13, choices=Method)
    amount_minor = models.BigIntegerField(_("amount (minor units)"))
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    status = models.CharField(_("status"), max_length=9, choices=Status, default=Status.PENDING)
    requested_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("by"))
    created_at = models.DateTimeField(_("created at"))
    finished_at = models.DateTimeField(_("finished at"), null=True, blank=True)
    reference = models.CharField(_("reference"), max_length=100, blank=True)
    error = models.CharField(_("problem"), max_length=300, blank=True)
    version = models.PositiveIntegerField(default=1, editable=False)
    attempts = models.PositiveIntegerField(_("attempts"), default=0, editable=False)
    next_attempt_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("refund")
        verbose_name_plural = _("refunds")
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="refund_positive"),
            models.CheckConstraint(
                condition=Q(payment__isnull=True) | Q(top_up__isnull=True), name="refund_has_one_source"
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_attempt_at"], condition=Q(status__in=["pending", "submitted"]), name="refund_due"
            )
        ]
        triggers = [
            transition_trigger(REFUND_MOVES),
            pgtrigger.Trigger(
                name="within_its_source",
                operation=pgtrigger.Insert,
                when=pgtrigger.Before,
                declare=[("room", "bigint")],
                func=_WITHIN_SOURCE,
            ),
        ]

    def __str__(self) -> str:
        return str(self.key)


@pghistory.track()
class Dispute(models.Model):
    """A payer's bank takes a card payment back until it is decided. Credit is frozen meanwhile."""

    class Status(models.TextChoices):
        OPEN = "open", _("Open")
        WON = "won", _("Won")
        LOST = "lost", _("Lost")

    NEXT = DISPUTE_MOVES

    stripe_id = models.CharField(_("Stripe dispute"), max_length=64, unique=True)
    account = models.ForeignKey(BillingAccount, models.PROTECT, related_name="disputes", verbose_name=_("account"))
    payment = models.ForeignKey(
        Payment, models.PROTECT, null=True, blank=True, related_name="disputes", verbose_name=_("payment")
    )
    top_up = models.ForeignKey(
        TopUp, models.PROTECT, null=True, blank=True, related_name="disputes", verbose_name=_("top-up")
    )
    amount_minor = models.BigIntegerField(_("amount (minor units)"))
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    reason = models.CharField(_("reason"), max_length=60, blank=True)
    status = models.CharField(_("status"), max_length=5, choices=Status, default=Status.OPEN)
    opened_at = models.DateTimeField(_("opened at"))
    closed_at = models.DateTimeField(_("closed at"), null=True, blank=True)

    class Meta:
        verbose_name = _("dispute")
        verbose_name_plural = _("disputes")
        ordering = ["-opened_at", "-pk"]
        triggers = [transition_trigger(DISPUTE_MOVES)]

    def __str__(self) -> str:
        return self.stripe_id
