"""The papers as downloads."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import get_language
from django.views.generic import View

from accounts.access import OrganizationRequired
from billing import queries
from billing.paper import Unprintable, invoice_pdf
from billing.paper.pieces import LANGUAGES


def as_download(pdf: bytes, name: str) -> HttpResponse:
    """A PDF to be saved under `name`.pdf, kept by no cache."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.pdf"', "Cache-Control": "private, no-store"}
    return HttpResponse(pdf, content_type="application/pdf", headers=headers)


def reading_language() -> str:
    """The reader's language where papers are made in it, else the first."""
    language = get_language() or ""
    return language if language in LANGUAGES else LANGUAGES[0]


class InvoicePdf(OrganizationRequired, View):
    """An invoice of the organization as a PDF."""

    verb = "bills"

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        invoice = get_object_or_404(queries.invoices_of(self.organization).select_related("account"), key=key)
        try:
            pdf = invoice_pdf(invoice, language=reading_language())
        except Unprintable as refusal:
            messages.error(request, f"{refusal} {refusal.next_step}")
            return redirect("billing:invoice", invoice.key)
        return as_download(pdf, invoice.number)
