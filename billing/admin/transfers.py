"""Money by bank at the desk: the statement, whose money it is, and the slips customers sent."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import FileResponse, Http404, HttpRequest
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display
from unfold.widgets import UnfoldAdminFileFieldWidget

from billing import actions as verbs
from billing.actions.transfers import SlipRefused, TransferRefused
from billing.models import BankTransfer, BillingAccount, Invoice, ReceivingAccount, TransferSlip
from billing.remarks import account_of_remark
from billing.statements import MOST_BYTES, StatementUnreadable, read_statement
from billing.views.transfers import slip_download
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, button
from marketplace.lib import clock
from marketplace.lib.money import format_minor, minor

TRANSFER_STATES = {"unmatched": "warning", "matched": "success", "returned": "info"}
SLIP_STATES = {"submitted": "warning", "matched": "success", "rejected": "danger"}


# --- whose money it is ----------------------------------------------------------------------------------------------
class MatchForm(inputs.DeskForm):
    """One of the proposed accounts or any other by its remark code; an open invoice may be paid at once."""

    proposal = inputs.choice(label=gettext_lazy("Whose money it is"), required=False)
    code = inputs.text(
        label=gettext_lazy("or by remark code"),
        max_length=20,
        required=False,
        help_text=gettext_lazy("It stands on the customer's billing account."),
    )
    invoice = inputs.text(
        label=gettext_lazy("Pay this invoice"),
        max_length=24,
        required=False,
        help_text=gettext_lazy("Its number. Without one the money stays in the balance."),
    )

    def __init__(self, *args: Any, obj: BankTransfer, **kwargs: Any) -> None:
        super().__init__(*args, obj=obj, **kwargs)
        self.proposals = {str(each.account.pk): each for each in verbs.propose(obj)}
        named = [
            (pk, f"{each.account.organization} ({', '.join(str(reason) for reason in each.why)})")
            for pk, each in self.proposals.items()
        ]
        self.fields["proposal"].choices = [("", _("none of these")), *named]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        chosen, code = data.get("proposal"), data.get("code")
        if bool(chosen) == bool(code):
            self.add_error("code", _("Choose one account, by the list or by its code."))
            return data
        account = self.proposals[chosen].account if chosen else account_of_remark(code)
        if account is None:
            self.add_error("code", _("No account has this code."))
            return data
        invoice = Invoice.objects.filter(number=data["invoice"]).first() if data.get("invoice") else None
        if data.get("invoice") and invoice is None:
            self.add_error("invoice", _("There is no invoice with this number."))
        slip = self.proposals[str(account.pk)].slip if str(account.pk) in self.proposals else None
        return {"account": account, "invoice": invoice, "slip": slip}


class ReturnForm(inputs.DeskForm):
    note = inputs.note(label=gettext_lazy("Why"), max_length=300)


@admin.register(BankTransfer)
class BankTransferDesk(Desk):
    """Lines of the bank's statement. Matched by a person, never by itself; a match credits the balance once."""

    buttons = ("match", "give_back")
    refusals = (TransferRefused, SlipRefused)
    select = ("account__organization", "slip", "recorded_by", "matched_by")
    fieldsets = (
        (None, {"fields": (("reference", "state"), ("payer", "amount"), ("received", "remark"), "recorded_by")}),
        (gettext_lazy("Match"), {"fields": ("likely", ("customer", "slip_link"), ("matched_by", "matched"), "note")}),
    )
    list_display = ("reference", "state", "payer", "amount", "received", "remark", "customer")
    list_filter = ("status", "currency", "received_at")
    search_fields = ("reference", "payer", "remark", "account__organization__name")
    date_hierarchy = "received_at"
    ordering = ("-received_at", "-pk")

    state = show.badge("status", gettext_lazy("status"), TRANSFER_STATES)
    amount = show.money("amount_minor", gettext_lazy("amount"))
    received = show.instant("received_at", gettext_lazy("received at"))
    matched = show.instant("matched_at", gettext_lazy("matched at"))
    customer = show.link("account", gettext_lazy("account"))
    slip_link = show.link("slip", gettext_lazy("slip"))

    @display(description=gettext_lazy("likely owners"))
    def likely(self, transfer: BankTransfer) -> str:
        if transfer.status != BankTransfer.Status.UNMATCHED:
            return show.DASH
        found = [
            (show.link_to(each.account), ", ".join(str(reason) for reason in each.why))
            for each in verbs.propose(transfer)
        ]
        return format_html_join(format_html("<br>"), "{}: {}", found) if found else show.DASH

    @button(
        gettext_lazy("Match"),
        form=MatchForm,
        explain=gettext_lazy("The money enters the balance of the chosen account and cannot be taken out again here."),
        shown=lambda transfer: transfer.status == BankTransfer.Status.UNMATCHED,
    )
    def match(
        self,
        request: HttpRequest,
        transfer: BankTransfer,
        *,
        account: BillingAccount,
        invoice: Invoice | None,
        slip: TransferSlip | None,
    ) -> str:
        verbs.match_transfer(
            transfer=transfer,
            organization=account.organization,
            slip=slip,
            invoice=invoice,
            at=clock.now(),
            actor=request.user,  # type: ignore[arg-type]
        )
        facts = {"amount": format_minor(transfer.amount_minor, transfer.currency), "account": account}
        if invoice is None:
            return _("%(amount)s was credited to %(account)s.") % facts
        invoice.refresh_from_db()
        facts |= {"invoice": invoice, "state": invoice.get_status_display()}
        return _("%(amount)s was credited to %(account)s; invoice %(invoice)s is %(state)s.") % facts

    @button(
        gettext_lazy("Sent back"),
        form=ReturnForm,
        explain=gettext_lazy("Write down that the bank returned this money to its payer. Nothing is booked."),
        danger=True,
        shown=lambda transfer: transfer.status == BankTransfer.Status.UNMATCHED,
    )
    def give_back(self, request: HttpRequest, transfer: BankTransfer, *, note: str) -> str:
        verbs.return_transfer(transfer=transfer, note=note, at=clock.now(), actor=request.user)  # type: ignore[arg-type]
        return _("%(transfer)s was sent back.") % {"transfer": transfer}


# --- slips ----------------------------------------------------------------------------------------------------------
class RejectForm(inputs.DeskForm):
    reason = inputs.note(label=gettext_lazy("Why"), max_length=300, help_text=gettext_lazy("The customer reads this."))


@admin.register(TransferSlip)
class TransferSlipDesk(Desk):
    """What customers say they sent. A slip credits nothing: the line of the statement does, once it is matched."""

    buttons = ("reject",)
    refusals = (SlipRefused,)
    select = ("account__organization", "submitted_by", "decided_by")
    fieldsets = (
        (None, {"fields": (("customer", "state"), ("payer", "amount"), ("sent_on", "document"))}),
        (None, {"fields": (("submitted_by", "submitted"), ("decided_by", "decided"), "reason")}),
    )
    list_display = ("payer", "customer", "state", "amount", "sent_on", "submitted")
    list_filter = ("status", "currency", "submitted_at")
    search_fields = ("payer", "account__organization__name")
    ordering = ("-submitted_at", "-pk")

    customer = show.link("account", gettext_lazy("account"))
    state = show.badge("status", gettext_lazy("status"), SLIP_STATES)
    amount = show.money("amount_minor", gettext_lazy("amount"))
    submitted = show.instant("submitted_at", gettext_lazy("submitted at"))
    decided = show.instant("decided_at", gettext_lazy("decided at"))

    @display(description=gettext_lazy("slip"))
    def document(self, slip: TransferSlip) -> str:
        address = reverse("admin:billing_transferslip_file", args=[slip.pk])
        return format_html('<a class="text-link" href="{}">{}</a>', address, _("Download"))

    def get_urls(self) -> list:
        view = self.admin_site.admin_view(self.file)
        return [path("<path:object_id>/file/", view, name="billing_transferslip_file"), *super().get_urls()]

    def file(self, request: HttpRequest, object_id: str) -> FileResponse:
        slip = self.get_object(request, object_id)
        if slip is None:
            raise Http404
        if not self.has_view_permission(request, slip):
            raise PermissionDenied
        return slip_download(slip)

    @button(
        gettext_lazy("Reject"),
        form=RejectForm,
        danger=True,
        shown=lambda slip: slip.status == TransferSlip.Status.SUBMITTED,
    )
    def reject(self, request: HttpRequest, slip: TransferSlip, *, reason: str) -> str:
        verbs.reject_slip(slip=slip, reason=reason, at=clock.now(), actor=request.user)  # type: ignore[arg-type]
        return _("The slip was rejected and the customer told.")


# --- the statement --------------------------------------------------------------------------------------------------
class LineForm(inputs.DeskForm):
    reference = inputs.text(label=gettext_lazy("bank's reference"), max_length=60)
    payer = inputs.text(label=gettext_lazy("payer"), max_length=100)
    amount = inputs.decimal(label=gettext_lazy("amount"), max_digits=14, decimal_places=2, min_value=Decimal("0.01"))
    received_at = inputs.instant(label=gettext_lazy("received at"))
    remark = inputs.text(label=gettext_lazy("remark"), max_length=200, required=False)

    def __init__(self, *args: Any, obj: ReceivingAccount, **kwargs: Any) -> None:
        super().__init__(*args, obj=obj, **kwargs)
        self.fields["amount"].help_text = obj.currency
        self.initial.setdefault("received_at", timezone.localtime(clock.now()).replace(microsecond=0))


class StatementForm(inputs.DeskForm):
    file = forms.FileField(
        label=gettext_lazy("statement (CSV)"),
        widget=UnfoldAdminFileFieldWidget,
        help_text=gettext_lazy("As the bank exports it, UTF-8 or GBK. Outgoing payments are left out; lines that are"
                               " known already are not recorded again."),
    )  # fmt: skip


@admin.register(ReceivingAccount)
class ReceivingAccountDesk(Desk):
    """The company's own bank accounts, shown to customers by currency, and what arrives on them."""

    addable = True
    # Another number is another account.
    editable = ("holder", "bank", "routing", "is_shown")
    buttons = ("add_line", "add_statement")
    refusals = (TransferRefused, StatementUnreadable)
    fieldsets = ((None, {"fields": (("currency", "is_shown"), ("holder", "bank"), ("number", "routing"))}),)
    list_display = ("bank", "number", "holder", "currency", "is_shown")
    ordering = ("currency", "bank", "number")

    @button(
        gettext_lazy("Record a payment"),
        form=LineForm,
        explain=gettext_lazy("One incoming payment as the statement shows it. It then waits to be matched."),
        permission="billing.change_banktransfer",
    )
    def add_line(
        self,
        request: HttpRequest,
        account: ReceivingAccount,
        *,
        reference: str,
        payer: str,
        amount: Decimal,
        received_at: datetime,
        remark: str,
    ) -> str:
        line = verbs.StatementLine(
            reference=reference,
            payer=payer,
            amount_minor=minor(amount, account.currency),
            currency=account.currency,
            remark=remark,
            received_at=received_at,
        )
        transfer, created = verbs.record_transfer(line=line, at=clock.now(), actor=request.user)  # type: ignore[arg-type]
        if not created:
            return _("%(transfer)s was recorded already.") % {"transfer": transfer}
        return _("%(transfer)s was recorded and waits to be matched.") % {"transfer": transfer}

    @button(
        gettext_lazy("Import a statement"),
        form=StatementForm,
        explain=gettext_lazy("Every incoming payment of the file is recorded and waits to be matched, or none is."),
        permission="billing.change_banktransfer",
    )
    def add_statement(self, request: HttpRequest, account: ReceivingAccount, *, file: Any) -> str:
        found = read_statement(file.read(MOST_BYTES + 1), currency=account.currency, zone=ZoneInfo(settings.TIME_ZONE))
        lines = [
            verbs.StatementLine(
                reference=each.reference,
                payer=each.payer,
                amount_minor=each.amount_minor,
                currency=account.currency,
                remark=each.remark,
                received_at=each.received_at,
            )
            for each in found
        ]
        new, known = verbs.record_statement(lines=lines, at=clock.now(), actor=request.user)  # type: ignore[arg-type]
        return _("%(new)s payments were recorded, %(known)s were known already.") % {"new": new, "known": known}
