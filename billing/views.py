"""Console pages of billing: where the organization stands, its invoices, paying one, taking them away as a file."""

from __future__ import annotations

import time
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.permissions import can
from billing import actions, queries
from billing.actions.pushing import leased
from billing.exports import SHAPES, invoice_lines_download
from billing.grouping import arithmetic
from billing.models import Invoice
from marketplace.lib import clock
from marketplace.lib.capitals import in_words
from orders.models import Order

PAGE_SIZE = 20
# How long a press on Pay waits for a worker that is opening the invoice already.
WORKER_SECONDS = 5
Status = Invoice.Status


class Overview(OrganizationRequired, View):
    """The credit line, the month so far, what is to be paid and what to do next."""

    verb = "bills"

    def get(self, request: HttpRequest) -> HttpResponse:
        at = clock.now()
        standing = queries.standing_of(self.organization, at=at)
        unpaid = list(queries.unpaid_invoices_of(self.organization)[:PAGE_SIZE])
        context = {
            "standing": standing,
            "unpaid": unpaid,
            "overdue": [invoice for invoice in unpaid if invoice.due_at and invoice.due_at < at],
            "month_start": clock.month_start(at, self.organization.zone),
            "month_end": clock.next_month_start(at, self.organization.zone),
            "may_pay": can(self.membership, "pay"),
        }
        return render(request, "billing/overview.html", context)


class InvoiceList(OrganizationRequired, View):
    """The organization's invoices, newest first."""

    verb = "bills"

    def get(self, request: HttpRequest) -> HttpResponse:
        page = Paginator(queries.invoices_of(self.organization), PAGE_SIZE).get_page(request.GET.get("page"))
        return render(request, "billing/invoices.html", {"page": page, "may_pay": can(self.membership, "pay")})


class InvoiceDetail(OrganizationRequired, View):
    """One invoice with the arithmetic of every line; `?print=1` is the same as a paper, whole."""

    verb = "bills"

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        invoice = get_object_or_404(queries.invoices_of(self.organization).select_related("account"), key=key)
        return self._paper(invoice) if "print" in request.GET else self._page(invoice)

    def _paper(self, invoice: Invoice) -> HttpResponse:
        context = {
            "invoice": invoice,
            "lines": [(line, arithmetic(line, invoice.currency)) for line in invoice.lines.order_by("position")],
            "in_words": in_words(invoice.total_minor, invoice.currency),
            "bank_account": settings.BANK_ACCOUNT,
            "seller": settings.SELLER,
            "back": reverse("billing:invoice", args=[invoice.key]),
        }
        return render(self.request, "billing/invoice_print.html", context)

    def _page(self, invoice: Invoice) -> HttpResponse:
        request = self.request
        lines = Paginator(invoice.lines.order_by("position"), 200).get_page(request.GET.get("page"))
        context = {
            "invoice": invoice,
            "page": lines,
            "lines": [(line, arithmetic(line, invoice.currency)) for line in lines],
            "payments": invoice.payments.all(),
            "bank_account": settings.BANK_ACCOUNT,
            "may_pay": can(self.membership, "pay") and invoice.is_unpaid,
            "overdue": invoice.is_unpaid and invoice.due_at and invoice.due_at < clock.now(),
        }
        return render(request, "billing/invoice.html", context)


class InvoiceExport(OrganizationRequired, View):
    """The organization's own invoice lines as a file."""

    verb = "bills"

    def get(self, request: HttpRequest, shape: str) -> HttpResponseBase:
        if shape not in SHAPES:
            raise Http404
        name = f"invoices-{clock.local_date(clock.now(), self.organization.zone):%Y%m%d}"
        return invoice_lines_download(queries.invoices_of(self.organization), shape=shape, name=name)


class Paying(OrganizationRequired, View):
    """Goes to Stripe's page of an invoice, or says why not and what happens next. Never charges anything itself."""

    http_method_names = ["post", "options"]

    def pay(self, request: HttpRequest, invoice: Invoice, *, back: tuple[str, UUID]) -> HttpResponse:
        invoice = ready_to_pay(invoice, clock.now())
        if invoice.status == Status.OPEN and invoice.hosted_url:
            return HttpResponseRedirect(invoice.hosted_url)
        level, text = self.why_not(invoice)
        messages.add_message(request, level, text)
        return redirect(*back)

    @staticmethod
    def why_not(invoice: Invoice) -> tuple[int, str]:
        """The message for an invoice that cannot be paid online now."""
        if invoice.status == Status.PAID:
            return messages.SUCCESS, _("This invoice is already paid.")
        if invoice.status == Status.VOID:
            return messages.WARNING, _("This invoice was voided; nothing is to be paid for it.")
        if invoice.collection == Invoice.Collection.BANK_TRANSFER:
            return messages.INFO, _(
                "This invoice is paid by bank transfer. State the invoice number %(number)s as the reference."
            ) % {"number": invoice.number}
        if invoice.order_id is not None:
            return messages.ERROR, _(
                "The payment page is not ready: the payment service cannot be reached right now. Nothing was charged. "
                "We keep trying; your cards stay held until the time shown. Try again in a minute."
            )
        return messages.ERROR, _(
            "The payment page is not ready: the payment service cannot be reached right now. Nothing was charged. "
            "We keep trying; try again in a few minutes."
        )


class PayInvoice(Paying):
    """Pay one invoice. Those who order may pay for what they ordered, usage is for those who pay the bills."""

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        invoice = get_object_or_404(queries.invoices_of(self.organization), key=key)
        may = can(self.membership, "pay") or (invoice.order_id and can(self.membership, "order"))
        if not may:
            raise PermissionDenied
        sees_bills = can(self.membership, "bills")
        back = ("billing:invoice", invoice.key) if sees_bills else ("orders:detail", invoice.order.key)
        return self.pay(request, invoice, back=back)


class PayOrder(Paying):
    """Pay an order that waits for it; its invoice is made now if the sweep has not made it yet."""

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        order = get_object_or_404(Order, organization=self.organization, key=key)
        if not (can(self.membership, "pay") or can(self.membership, "order")):
            raise PermissionDenied
        invoice = actions.draft_order_invoice(order=order, at=clock.now())
        if invoice is None:
            messages.warning(request, _("This order does not wait for a payment."))
            return redirect("orders:detail", order.key)
        return self.pay(request, invoice, back=("orders:detail", order.key))


def ready_to_pay(invoice: Invoice, at: datetime) -> Invoice:
    """The invoice after one hurried attempt to open it at Stripe, where it is not open yet.

    A worker may be opening it this very moment; then its few seconds are waited for.
    """
    if invoice.status in {Status.ISSUED, Status.PUSHING}:
        invoice = actions.push(invoice_id=invoice.pk, at=at, impatient=True)
    deadline = time.monotonic() + WORKER_SECONDS
    while leased(invoice, at) and time.monotonic() < deadline:
        time.sleep(0.1)
        invoice.refresh_from_db()
    return invoice
