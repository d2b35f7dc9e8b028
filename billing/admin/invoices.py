"""Invoices: what was charged, how far Stripe has it, money by bank, and the exports finance works with."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import path
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST
from unfold.decorators import display

from billing import actions as verbs
from billing import stripe_gateway
from billing.actions import exporting
from billing.actions.credit_notes import creditable_minor, remaining_by_line, spread
from billing.admin import exports
from billing.exports import SHAPES, invoice_lines_download
from billing.exports.selection import Selection
from billing.models import CreditNote, Invoice, InvoiceEvent, InvoiceLine, Payment
from billing.paper import Unprintable, invoice_pdf
from billing.paper.views import as_download, reading_language
from billing.queries import with_astray_money
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, Rows, bulk, button
from marketplace.lib import clock, visitor
from marketplace.lib.money import exponent, format_minor, major, minor
from marketplace.lib.refusals import Refusal

STATES = {
    "draft": "info", "issued": "info", "pushing": "info", "open": "warning", "paid": "success",
    "uncollectible": "danger", "void": "danger",
}  # fmt: skip
Status = Invoice.Status


class LineRows(Rows):
    model = InvoiceLine
    fields = (
        "position", "title", "region", "resource", "project", "meter", "quantity", "seconds", "periods", "price",
        "gross", "tax_percent", "tax",
    )  # fmt: skip
    select = ("invoice",)
    per_page = 100

    price = show.rate("rate", gettext_lazy("rate"), currency="invoice__currency")
    gross = show.money("amount_minor", gettext_lazy("amount"), currency="invoice__currency")
    tax = show.money("tax_minor", gettext_lazy("tax within"), currency="invoice__currency")


class PaymentRows(Rows):
    model = Payment
    fields = ("received", "method", "reference", "amount", "recorded_by")
    select = ("recorded_by",)

    received = show.instant("received_at", gettext_lazy("received at"))
    amount = show.money("amount_minor", gettext_lazy("amount"))


class EventRows(Rows):
    model = InvoiceEvent
    fields = ("when", "became", "who", "remark")
    ordering = ("-at", "-pk")
    select = ("actor",)
    verbose_name_plural = gettext_lazy("What happened")

    when = show.instant("at", gettext_lazy("When"))
    who = show.plain("actor", gettext_lazy("By"))
    remark = show.plain("note", gettext_lazy("Note"))
    became = show.badge("status", gettext_lazy("status"), STATES)


class BankPaymentForm(inputs.DeskForm):
    amount = inputs.decimal(label=gettext_lazy("Amount"), max_digits=14, min_value=Decimal("0.01"))
    reference = inputs.text(
        label=gettext_lazy("Reference"),
        max_length=100,
        help_text=gettext_lazy("The bank's own number of the transfer. The same reference is never booked twice."),
    )
    received_at = inputs.instant(label=gettext_lazy("Received at"))

    def __init__(self, *args: Any, obj: Invoice, **kwargs: Any) -> None:
        super().__init__(*args, obj=obj, **kwargs)
        field = self.fields["amount"]
        # Django builds the limit of digits when the field is made; ours depends on the invoice's currency.
        field.max_digits, field.decimal_places = 14, exponent(obj.currency)
        field.validators[-1].decimal_places = field.decimal_places
        field.help_text = _("In %(currency)s; %(left)s is not paid yet.") % {
            "currency": obj.currency,
            "left": format_minor(obj.outstanding_minor, obj.currency),
        }
        self.initial.setdefault("amount", major(obj.outstanding_minor, obj.currency))
        self.initial.setdefault("received_at", timezone.localtime(clock.now()).replace(microsecond=0))

    def clean_received_at(self) -> datetime:
        received_at = self.cleaned_data["received_at"]
        if received_at > clock.now():
            self.add_error("received_at", _("Money cannot be received in the future."))
        return received_at


class VoidForm(inputs.DeskForm):
    note = inputs.note(label=gettext_lazy("Why"), max_length=300)


class CreditForm(inputs.DeskForm):
    """How much of which line is taken back. `seen` is what was credited when the form was drawn: a double press, or a
    colleague's note in between, is noticed."""

    seen = forms.IntegerField(widget=forms.HiddenInput)
    line = inputs.choice(label=gettext_lazy("Line"), required=False)
    amount = inputs.decimal(label=gettext_lazy("Amount"), max_digits=14, min_value=Decimal("0.01"))
    destination = inputs.choice(
        label=gettext_lazy("What was paid of it goes"),
        choices=CreditNote.Destination,
        help_text=gettext_lazy("The source is the card or bank account; what came from the balance returns there."),
    )
    reason = inputs.note(label=gettext_lazy("Why"), max_length=300)

    def __init__(self, *args: Any, obj: Invoice, **kwargs: Any) -> None:
        super().__init__(*args, obj=obj, **kwargs)
        left = remaining_by_line(obj)
        lines = obj.lines.in_bulk(list(left))
        named = [(str(pk), self._name(lines[pk], left[pk])) for pk in left if left[pk]]
        self.fields["line"].choices = [("", _("All lines, the first ones first")), *named]
        self.fields["amount"].help_text = _("Including tax; %(left)s of this invoice is left.") % {
            "left": format_minor(creditable_minor(obj), obj.currency)
        }
        self.initial.setdefault("amount", major(creditable_minor(obj), obj.currency))
        self.initial.setdefault("seen", obj.credited_minor)

    def _name(self, line: InvoiceLine, left_minor: int) -> str:
        return f"{line.position}. {line.title} · {line.resource} · {format_minor(left_minor, self.obj.currency)}"


class CreditedMeanwhile(Refusal):
    """Somebody, or the same press twice, has credited this invoice since the form was drawn."""

    code = "credited_meanwhile"
    message = gettext_lazy("This invoice was credited in the meantime. Look at its credit notes and decide anew.")


class StillNotPushed(Refusal):
    """Stripe did not take the invoice; what it said stands on it."""

    def __init__(self, invoice: Invoice) -> None:
        facts = {"invoice": invoice, "error": invoice.push_error}
        super().__init__(message=_("Stripe has not taken %(invoice)s: %(error)s") % facts)


class MoneyFilter(admin.SimpleListFilter):
    """Invoices whose money waits for a person."""

    title = gettext_lazy("money")
    parameter_name = "money"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("astray", str(gettext_lazy("to be returned or assigned")))]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        return queryset.filter(pk__in=with_astray_money()) if self.value() == "astray" else queryset


@admin.register(Invoice)
class InvoiceDesk(Desk):
    """Invoices. Once issued only their state moves, and that by actions; nothing is ever deleted."""

    buttons = ("push_again", "record_payment", "credit", "download_pdf", "void")
    actions = (bulk("push_again", gettext_lazy("Send the chosen ones to Stripe again")), "export_csv", "export_xlsx")
    refusals = (
        verbs.IllegalMove, verbs.PaymentRefused, verbs.VoidRefused, stripe_gateway.GatewayError, StillNotPushed,
        verbs.CreditRefused, CreditedMeanwhile,
        Unprintable,
    )  # fmt: skip
    select = ("organization", "account__organization", "order")
    list_before_template = "admin/desk/export.html"
    fieldsets = (
        (None, {"fields": (("name", "state"), ("customer", "order_link"), ("kind", "collection"))}),
        (gettext_lazy("Amounts"), {"fields": (("total", "tax"), ("paid", "left"))}),
        (gettext_lazy("Dates"), {"fields": (("from_", "to"), ("drafted", "issued"), ("due", "paid_on"))}),
        ("Stripe", {"fields": ("stripe_invoice_id", "page", ("push_attempts", "next_push"), "push_error")}),
    )
    inlines = (LineRows, PaymentRows, EventRows)
    list_display = ("name", "customer", "kind", "state", "total", "left", "issued", "due", "trouble")
    list_filter = (
        "status", MoneyFilter, "kind", "collection", "currency", ("push_error", admin.EmptyFieldListFilter),
        "issued_at",
    )  # fmt: skip
    search_fields = ("number", "=key", "organization__name", "=stripe_invoice_id", "payments__reference")
    date_hierarchy = "issued_at"
    ordering = ("-drafted_at", "-pk")

    customer = show.link("organization", gettext_lazy("organization"))
    order_link = show.link("order", gettext_lazy("order"))
    state = show.badge("status", gettext_lazy("status"), STATES)
    total = show.money("total_minor", gettext_lazy("total"))
    tax = show.money("tax_minor", gettext_lazy("tax within"))
    paid = show.money("paid_minor", gettext_lazy("paid"))
    from_ = show.instant("period_start", gettext_lazy("period start"))
    to = show.instant("period_end", gettext_lazy("period end"))
    drafted = show.instant("drafted_at", gettext_lazy("drafted at"))
    issued = show.instant("issued_at", gettext_lazy("issued at"))
    due = show.instant("due_at", gettext_lazy("due at"))
    paid_on = show.instant("paid_at", gettext_lazy("paid at"))
    next_push = show.instant("next_push_at", gettext_lazy("next push at"))

    @display(description=gettext_lazy("number"), ordering="number")
    def name(self, invoice: Invoice) -> str:
        return invoice.number or _("draft")

    @display(description=gettext_lazy("not paid yet"))
    def left(self, invoice: Invoice) -> str:
        if invoice.status == Status.VOID:
            return show.DASH
        return format_minor(invoice.outstanding_minor, invoice.currency)

    @display(description=gettext_lazy("push error"), ordering="push_error")
    def trouble(self, invoice: Invoice) -> str:
        return invoice.push_error or show.DASH

    @display(description=gettext_lazy("payment page"))
    def page(self, invoice: Invoice) -> str:
        if not invoice.hosted_url:
            return show.DASH
        return format_html(
            '<a class="text-link" rel="noopener noreferrer" href="{}">{}</a>',
            invoice.hosted_url,
            invoice.hosted_url,
        )

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        mine = {"organization__id__exact", "order__id__exact"}
        return lookup in mine or super().lookup_allowed(lookup, value, request)

    # --- buttons ---

    @button(
        gettext_lazy("Send to Stripe again"),
        shown=lambda invoice: (
            invoice.status in {Status.ISSUED, Status.PUSHING} and invoice.collection == Invoice.Collection.STRIPE
        ),
    )
    def push_again(self, request: HttpRequest, invoice: Invoice) -> str:
        now = verbs.retry_push(invoice_id=invoice.pk, at=clock.now())
        if now.push_error:
            raise StillNotPushed(now)
        return _("%(invoice)s is %(state)s now.") % {"invoice": now, "state": now.get_status_display()}

    @button(
        gettext_lazy("Record bank payment"),
        form=BankPaymentForm,
        explain=gettext_lazy("Money that arrived on the bank account for this invoice."),
        shown=lambda invoice: invoice.status in Invoice.UNPAID,
    )
    def record_payment(
        self, request: HttpRequest, invoice: Invoice, *, amount: Decimal, reference: str, received_at: datetime
    ) -> str:
        payment = verbs.record_payment(
            invoice=invoice,
            method=Payment.Method.BANK_TRANSFER,
            reference=reference,
            amount_minor=minor(amount, invoice.currency),
            currency=invoice.currency,
            received_at=received_at,
            actor=request.user,
            at=clock.now(),
        )
        return _("%(amount)s recorded under %(reference)s.") % {
            "amount": format_minor(payment.amount_minor, payment.currency),
            "reference": payment.reference,
        }

    @button(
        gettext_lazy("Issue a credit note"),
        form=CreditForm,
        explain=gettext_lazy("Takes back a part of this invoice: what is unpaid is no longer due, the rest goes back."),
        shown=lambda invoice: (
            invoice.status in {*Invoice.UNPAID, Status.PAID}
            and (invoice.order_id is None or invoice.status == Status.PAID)
            and creditable_minor(invoice) > 0
        ),
    )
    def credit(
        self, request: HttpRequest, invoice: Invoice, *, seen: int, line: str, amount: Decimal, destination: str,
        reason: str,
    ) -> str:  # fmt: skip
        if seen != invoice.credited_minor:
            raise CreditedMeanwhile
        amount_minor = minor(amount, invoice.currency)
        note = verbs.issue_credit_note(
            invoice=invoice,
            amounts={int(line): amount_minor} if line else spread(invoice, amount_minor),
            destination=destination,
            reason=reason,
            request_key=f"desk:{invoice.key}:{seen}",
            at=clock.now(),
            actor=request.user,
        )
        return _("%(note)s over %(amount)s is issued.") % {
            "note": note,
            "amount": format_minor(note.total_minor, note.currency),
        }

    @button(
        gettext_lazy("Void this invoice"),
        form=VoidForm,
        explain=gettext_lazy(
            "The invoice is taken back at Stripe first, then here. Its usage is billed anew by the next run."
        ),
        shown=lambda invoice: invoice.status in {Status.DRAFT, *Invoice.UNPAID} and not invoice.paid_minor,
        danger=True,
    )
    def void(self, request: HttpRequest, invoice: Invoice, *, note: str) -> str:
        voided = verbs.void_invoice(invoice=invoice, at=clock.now(), actor=request.user, note=note)
        return _("%(invoice)s is void.") % {"invoice": voided}

    @button(
        gettext_lazy("Download PDF"),
        shown=lambda invoice: invoice.issued_at is not None,
        permission="billing.view_invoice",
    )
    def download_pdf(self, request: HttpRequest, invoice: Invoice) -> HttpResponse:
        return as_download(invoice_pdf(invoice, language=reading_language()), invoice.number)

    # --- exports ---

    def get_urls(self) -> list:
        view = self.admin_site.admin_view(require_POST(self.export_filtered))
        return [path("export/<slug:shape>/", view, name="billing_invoice_export"), *super().get_urls()]

    @admin.action(description=gettext_lazy("Export the chosen ones as CSV"), permissions=["view"])
    def export_csv(self, request: HttpRequest, queryset: QuerySet) -> HttpResponseBase:
        return self._export(request, queryset, "csv")

    @admin.action(description=gettext_lazy("Export the chosen ones as XLSX"), permissions=["view"])
    def export_xlsx(self, request: HttpRequest, queryset: QuerySet) -> HttpResponseBase:
        return self._export(request, queryset, "xlsx")

    def export_filtered(self, request: HttpRequest, shape: str) -> HttpResponseBase:
        """Every invoice of the list as it is filtered, on all of its pages."""
        if shape not in SHAPES:
            raise Http404
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            filtered = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:
            return HttpResponseBadRequest(_("This filter is not known."))
        return self._export(request, filtered, shape)

    def _export(self, request: HttpRequest, queryset: QuerySet, shape: str) -> HttpResponseBase:
        # The list's ordering and joins are of no use to the export, and its filters may have doubled rows.
        chosen = Invoice.objects.filter(pk__in=queryset.order_by().values("pk"))
        self._log_export(request, shape, chosen.count())
        selection = Selection(at=clock.now(), invoices=chosen)
        rows = exporting.rows_of(kind="invoice_lines", selection=selection)
        filters = request.GET.urlencode()
        if rows > settings.EXPORT_ROWS_IN_REQUEST:
            job = exports.start(
                request, kind="invoice_lines", shape=shape, selection=selection, filters=filters, rows=rows
            )
            return HttpResponseRedirect(show.page_of(job))
        name = f"invoices-{timezone.localtime(clock.now()):%Y%m%d-%H%M%S}"
        answer = invoice_lines_download(chosen, shape=shape, name=name)
        exporting.record_at_once(
            kind="invoice_lines", shape=shape, rows=rows, filters=filters, actor=request.user,
            address=visitor.address_of(request), at=clock.now(),
        )  # fmt: skip
        return answer

    def _log_export(self, request: HttpRequest, shape: str, count: int) -> None:
        """An export is no change of one row, so the log names the list, its filter and how much was taken."""
        filtered = f" ({request.GET.urlencode()})" if request.GET else ""
        LogEntry.objects.create(
            user_id=request.user.pk,
            content_type=ContentType.objects.get_for_model(Invoice),
            object_repr=str(self.opts.verbose_name_plural),
            action_flag=CHANGE,
            change_message=f"{shape.upper()}: {count}{filtered}",
        )
