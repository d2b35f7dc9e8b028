"""Money that goes back: credit notes, refunds, disputes, and where Stripe's books differ from ours."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display

from billing import actions as verbs
from billing import stripe_gateway
from billing.models import CreditNote, CreditNoteLine, Dispute, Reconciliation, ReconciliationDifference, Refund
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, Rows, bulk, button
from marketplace.lib import clock
from marketplace.lib.money import format_minor
from marketplace.lib.refusals import Refusal

REFUND_STATES = {"pending": "info", "submitted": "warning", "succeeded": "success", "failed": "danger"}
DISPUTE_STATES = {"open": "warning", "won": "success", "lost": "danger"}
DIFFERENCE_STATES = {"open": "danger", "repaired": "success", "gone": "info"}


class StillNotSent(Refusal):
    """Stripe did not take it; what it said stands on the row."""

    def __init__(self, row: Any, error: str) -> None:
        super().__init__(message=_("Stripe has not taken %(what)s: %(error)s") % {"what": row, "error": error})


# --- credit notes ---------------------------------------------------------------------------------------------------
class CreditNoteRows(Rows):
    model = CreditNoteLine
    fields = ("what", "where", "amount", "tax")
    select = ("line", "note")
    per_page = 100

    what = show.plain("line__title", gettext_lazy("product"))
    where = show.plain("line__resource", gettext_lazy("rental or order"))
    amount = show.money("amount_minor", gettext_lazy("amount"), currency="note__currency")
    tax = show.money("tax_minor", gettext_lazy("tax within"), currency="note__currency")


@admin.register(CreditNote)
class CreditNoteDesk(Desk):
    """Credit notes. Frozen from the start; issued on the page of their invoice."""

    buttons = ("send_again",)
    refusals = (stripe_gateway.GatewayError, StillNotSent)
    select = ("invoice", "account__organization", "issued_by")
    fieldsets = (
        (None, {"fields": (("number", "bill"), ("customer", "issued"), ("reason", "issued_by"))}),
        (gettext_lazy("Amounts"), {"fields": (("total", "tax"), ("unpaid", "returned"), ("gift", "destination"))}),
        ("Stripe", {"fields": ("stripe_credit_note_id", ("push_attempts", "next_push"), "push_error")}),
    )
    inlines = (CreditNoteRows,)
    list_display = ("number", "bill", "customer", "total", "returned", "destination", "issued", "trouble")
    list_filter = ("destination", "currency", ("push_error", admin.EmptyFieldListFilter), "issued_at")
    search_fields = ("number", "invoice__number", "account__organization__name", "=stripe_credit_note_id")
    date_hierarchy = "issued_at"
    ordering = ("-issued_at", "-pk")

    bill = show.link("invoice", gettext_lazy("invoice"))
    customer = show.link("account__organization", gettext_lazy("organization"))
    total = show.money("total_minor", gettext_lazy("total"))
    tax = show.money("tax_minor", gettext_lazy("tax within"))
    unpaid = show.money("unpaid_minor", gettext_lazy("no longer due"))
    returned = show.money("returned_minor", gettext_lazy("given back"))
    gift = show.money("gift_minor", gettext_lazy("of it gifted credit"))
    issued = show.instant("issued_at", gettext_lazy("issued at"))
    next_push = show.instant("next_push_at", gettext_lazy("next push at"))

    @display(description=gettext_lazy("push error"), ordering="push_error")
    def trouble(self, note: CreditNote) -> str:
        return note.push_error or show.DASH

    @button(
        gettext_lazy("Send to Stripe again"),
        shown=lambda note: bool(note.invoice.stripe_invoice_id) and not note.stripe_credit_note_id,
    )
    def send_again(self, request: HttpRequest, note: CreditNote) -> str:
        now = verbs.retry_credit_note(note=note, at=clock.now())
        if not now.stripe_credit_note_id:
            raise StillNotSent(now, now.push_error or _("it still waits"))
        return _("Stripe has %(note)s now.") % {"note": now}


# --- refunds --------------------------------------------------------------------------------------------------------
class BankRefundForm(inputs.DeskForm):
    reference = inputs.text(
        label=gettext_lazy("Reference"),
        max_length=100,
        help_text=gettext_lazy("The bank's own number of the transfer to the customer."),
    )


@admin.register(Refund)
class RefundDesk(Desk):
    """Money on its way back. Stripe's are sent by themselves, the bank's by finance."""

    buttons = ("confirm", "send_now", "keep")
    actions = (bulk("send_now", gettext_lazy("Send the chosen ones now")),)
    refusals = (verbs.RefundRefused, StillNotSent)
    select = ("account__organization", "payment", "top_up", "credit_note", "requested_by")
    fieldsets = (
        (None, {"fields": (("identity", "state"), ("customer", "amount"), ("method", "note"))}),
        (None, {"fields": (("source", "top_up"), ("created", "finished"), ("requested_by", "reference"))}),
        ("Stripe", {"fields": (("attempts", "next_attempt"), "error")}),
    )
    list_display = ("identity", "customer", "amount", "method", "state", "note", "created", "finished", "error")
    list_filter = ("status", "method", "currency", "created_at")
    search_fields = ("=key", "account__organization__name", "reference", "payment__reference", "credit_note__number")
    date_hierarchy = "created_at"
    ordering = ("-created_at", "-pk")

    identity = show.plain("key", gettext_lazy("refund"))
    customer = show.link("account__organization", gettext_lazy("organization"))
    amount = show.money("amount_minor", gettext_lazy("amount"))
    state = show.badge("status", gettext_lazy("status"), REFUND_STATES)
    note = show.link("credit_note", gettext_lazy("credit note"))
    source = show.link("payment", gettext_lazy("payment"))
    created = show.instant("created_at", gettext_lazy("created at"))
    finished = show.instant("finished_at", gettext_lazy("finished at"))
    next_attempt = show.instant("next_attempt_at", gettext_lazy("next attempt at"))

    @button(
        gettext_lazy("Transferred"),
        form=BankRefundForm,
        explain=gettext_lazy("The money was transferred to the customer's bank account."),
        shown=lambda refund: refund.method == Refund.Method.BANK_TRANSFER and refund.status == Refund.Status.PENDING,
    )
    def confirm(self, request: HttpRequest, refund: Refund, *, reference: str) -> str:
        verbs.confirm_bank_refund(refund=refund, reference=reference, at=clock.now(), actor=request.user)
        return _("%(amount)s is refunded.") % {"amount": format_minor(refund.amount_minor, refund.currency)}

    @button(
        gettext_lazy("Ask Stripe now"),
        shown=lambda refund: (
            refund.method == Refund.Method.STRIPE and refund.status in {Refund.Status.PENDING, Refund.Status.SUBMITTED}
        ),
    )
    def send_now(self, request: HttpRequest, refund: Refund) -> str:
        at = clock.now()
        verbs.hurry_refund(refund=refund, at=at)
        now = verbs.send_refund(refund_id=refund.pk, at=at)
        if now.error and now.status == Refund.Status.PENDING:
            raise StillNotSent(now, now.error)
        return _("The refund is %(state)s now.") % {"state": now.get_status_display()}

    @button(
        gettext_lazy("Keep on the balance"),
        explain=gettext_lazy("The money is not sent back; it is added to the customer's balance instead."),
        shown=lambda refund: (
            refund.status == Refund.Status.PENDING
            and (refund.method == Refund.Method.BANK_TRANSFER or not refund.attempts)
        ),
    )
    def keep(self, request: HttpRequest, refund: Refund) -> str:
        verbs.keep_on_balance(refund=refund, at=clock.now(), actor=request.user)
        return _("%(amount)s is on the balance.") % {"amount": format_minor(refund.amount_minor, refund.currency)}


# --- disputes -------------------------------------------------------------------------------------------------------
@admin.register(Dispute)
class DisputeDesk(Desk):
    """Payments that a payer's bank took back. Answered at Stripe; what becomes of them is followed here."""

    buttons = ("follow", "give_credit")
    refusals = (verbs.DisputeRefused, stripe_gateway.GatewayError)
    select = ("account__organization__credit_line", "payment__invoice", "top_up")
    fieldsets = (
        (None, {"fields": (("stripe_id", "state"), ("customer", "amount"), ("reason", "standing"))}),
        (None, {"fields": (("source", "top_up"), ("opened", "closed"))}),
    )
    list_display = ("stripe_id", "customer", "amount", "reason", "state", "source", "opened", "closed")
    list_filter = ("status", "currency", "opened_at")
    search_fields = ("=stripe_id", "account__organization__name", "payment__reference", "payment__invoice__number")
    date_hierarchy = "opened_at"
    ordering = ("-opened_at", "-pk")

    customer = show.link("account__organization", gettext_lazy("organization"))
    amount = show.money("amount_minor", gettext_lazy("amount"))
    state = show.badge("status", gettext_lazy("status"), DISPUTE_STATES)
    source = show.link("payment", gettext_lazy("payment"))
    opened = show.instant("opened_at", gettext_lazy("opened at"))
    closed = show.instant("closed_at", gettext_lazy("closed at"))
    standing = show.badge(
        "account__organization__credit_line__standing", gettext_lazy("credit line"),
        {"good": "success", "frozen": "danger"},
    )  # fmt: skip

    @button(gettext_lazy("Ask Stripe now"), shown=lambda dispute: dispute.status == Dispute.Status.OPEN)
    def follow(self, request: HttpRequest, dispute: Dispute) -> str:
        theirs = stripe_gateway.retrieve_dispute(dispute_id=dispute.stripe_id)
        now = verbs.apply_dispute(theirs=theirs, at=clock.now()) or dispute
        return _("The dispute is %(state)s.") % {"state": now.get_status_display()}

    @button(
        gettext_lazy("Give credit again"),
        explain=gettext_lazy("The customer may rent again. Do this once the lost payment was settled."),
        shown=lambda dispute: (
            dispute.status == Dispute.Status.LOST and dispute.account.organization.credit_line.standing == "frozen"
        ),
    )
    def give_credit(self, request: HttpRequest, dispute: Dispute) -> str:
        verbs.give_credit_again(dispute=dispute)
        return _("%(customer)s may rent again.") % {"customer": dispute.account}


# --- the nightly comparison -----------------------------------------------------------------------------------------
@admin.register(ReconciliationDifference)
class DifferenceDesk(Desk):
    """Where Stripe's books and ours disagree. Repairing asks Stripe again and applies what it says."""

    buttons = ("repair",)
    actions = (bulk("repair", gettext_lazy("Repair the chosen ones")),)
    refusals = (verbs.NotRepaired, verbs.PaymentRefused, verbs.TopUpRefused, stripe_gateway.GatewayError)
    select = ("closed_by",)
    fieldsets = (
        (None, {"fields": (("kind", "badge"), ("subject", "stripe_id"), "problem")}),
        (None, {"fields": (("found", "seen"), ("closed", "closed_by"))}),
    )
    list_display = ("subject", "kind", "problem", "badge", "found", "seen", "closed")
    list_filter = ("state", "kind", "found_at")
    search_fields = ("subject", "=stripe_id", "problem")
    date_hierarchy = "found_at"
    ordering = ("-found_at", "-pk")

    badge = show.badge("state", gettext_lazy("state"), DIFFERENCE_STATES)
    found = show.instant("found_at", gettext_lazy("found at"))
    seen = show.instant("seen_at", gettext_lazy("last seen at"))
    closed = show.instant("closed_at", gettext_lazy("closed at"))

    @button(gettext_lazy("Repair"), shown=lambda difference: difference.state == "open")
    def repair(self, request: HttpRequest, difference: ReconciliationDifference) -> str:
        verbs.repair(difference_id=difference.pk, at=clock.now(), actor=request.user)
        return _("%(what)s agrees now.") % {"what": difference}


@admin.register(Reconciliation)
class ReconciliationDesk(Desk):
    """Each comparison with Stripe: from when to when, how much was compared, how much differed."""

    fieldsets = ((None, {"fields": (("started", "finished"), ("from_", "to"), ("compared", "found"), "error")}),)
    list_display = ("started", "finished", "from_", "to", "compared", "found", "error")
    list_filter = (("error", admin.EmptyFieldListFilter), "started_at")
    date_hierarchy = "started_at"
    ordering = ("-started_at", "-pk")

    started = show.instant("started_at", gettext_lazy("started at"))
    finished = show.instant("finished_at", gettext_lazy("finished at"))
    from_ = show.instant("since", gettext_lazy("from"))
    to = show.instant("until", gettext_lazy("to"))
