"""The organization's invoices: the list, one of them, and both as a file."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.permissions import can
from billing import queries
from billing.actions import exporting
from billing.actions.wallet import Holdings, holdings
from billing.exports import SHAPES, invoice_lines_download
from billing.exports.selection import Selection
from billing.grouping import arithmetic
from billing.models import Invoice
from billing.tasks import write_export
from billing.views.fapiao import fapiao_of
from marketplace.lib import clock, visitor
from marketplace.lib.capitals import in_words
from marketplace.lib.nudge import nudge

PAGE_SIZE = 20


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
            "held": self._held(invoice),
            "fapiao": fapiao_of(invoice),
            "may_ask": can(self.membership, "pay"),
            "overdue": invoice.is_unpaid and invoice.due_at and invoice.due_at < clock.now(),
        }
        return render(request, "billing/invoice.html", context)

    def _held(self, invoice: Invoice) -> Holdings | None:
        """What could pay it now; None where nothing could, or not by whoever looks."""
        if not (invoice.is_unpaid and can(self.membership, "pay")):
            return None
        held = holdings(invoice.account, at=clock.now())
        enough = held.total_minor >= invoice.outstanding_minor if invoice.order_id else held.total_minor > 0
        return held if enough else None


class InvoiceExport(OrganizationRequired, View):
    """The organization's own invoice lines as a file, written at once; a large one becomes a job."""

    verb = "bills"

    def get(self, request: HttpRequest, shape: str) -> HttpResponseBase:
        if shape not in SHAPES:
            raise Http404
        at = clock.now()
        selection = Selection(at=at, organization_id=self.organization.pk)
        rows = exporting.rows_of(kind="invoice_lines", selection=selection)
        by = {"actor": request.user, "address": visitor.address_of(request), "at": at}
        if rows > settings.EXPORT_ROWS_IN_REQUEST:
            job = exporting.request_export(
                kind="invoice_lines", shape=shape, selection=selection, language=get_language() or "",
                organization=self.organization, rows=rows, **by,
            )  # fmt: skip
            nudge(write_export, job_id=job.pk)
            messages.success(request, _("The export is being written. It appears below when it is ready."))
            return redirect("billing:exports")
        name = f"invoices-{clock.local_date(at, self.organization.zone):%Y%m%d}"
        answer = invoice_lines_download(queries.invoices_of(self.organization), shape=shape, name=name)
        exporting.record_at_once(kind="invoice_lines", shape=shape, rows=rows, organization=self.organization, **by)
        return answer
