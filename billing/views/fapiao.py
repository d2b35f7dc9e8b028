"""The customer's side of fapiao: asking for one on the invoice's page, taking a request back, the file."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.access import OrganizationRequired
from billing import actions, queries
from billing.actions.fapiao import STANDING
from billing.fapiao import NothingToInvoice
from billing.models import Fapiao, Invoice, TaxProfile
from marketplace.lib import clock

MEDIA = {"pdf": "application/pdf", "ofd": "application/ofd"}


def fapiao_of(invoice: Invoice) -> dict[str, Any]:
    """What the invoice's page says of its fapiao: those there are, newest first, and whether one may be asked for."""
    there = list(invoice.fapiao.order_by("-requested_at", "-pk"))
    waits = any(one.status in {Fapiao.Status.REQUESTED, *STANDING} for one in there)
    billed = invoice.currency == "CNY" and invoice.status not in {Invoice.Status.DRAFT, Invoice.Status.VOID}
    profile = TaxProfile.objects.filter(organization_id=invoice.organization_id).first()
    return {
        "rows": there,
        "may_ask": billed and not waits,
        "profile": profile,
        "kinds": [kind for kind in Fapiao.Kind if _fits(kind, profile)],
        "shown": billed or there,
    }


def _fits(kind: Fapiao.Kind, profile: TaxProfile | None) -> bool:
    return kind == Fapiao.Kind.ORDINARY or bool(profile and profile.kind == TaxProfile.Kind.COMPANY)


class RequestFapiao(OrganizationRequired, View):
    """Ask for the fapiao of one invoice."""

    verb = "pay"
    http_method_names = ("post", "options")

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        invoice = get_object_or_404(queries.invoices_of(self.organization), key=key)
        try:
            actions.request_fapiao(
                invoice=invoice, kind=request.POST.get("kind", ""), actor=request.user, at=clock.now()
            )
        except (actions.FapiaoRefused, NothingToInvoice) as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, _("The fapiao was asked for. We tell you when it is issued."))
        return redirect("billing:invoice", invoice.key)


class WithdrawFapiao(OrganizationRequired, View):
    """Take a request back that was not answered yet."""

    verb = "pay"
    http_method_names = ("post", "options")

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        fapiao = get_object_or_404(Fapiao, invoice__organization=self.organization, key=key)
        try:
            actions.withdraw_fapiao(fapiao=fapiao, actor=request.user, at=clock.now())
        except actions.FapiaoRefused as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, _("The request was withdrawn."))
        return redirect("billing:invoice", fapiao.invoice.key)


class FapiaoFile(OrganizationRequired, View):
    """The tax bureau's file of a fapiao of the organization."""

    verb = "bills"

    def get(self, request: HttpRequest, key: UUID) -> FileResponse:
        return fapiao_download(get_object_or_404(Fapiao, invoice__organization=self.organization, key=key))


def fapiao_download(fapiao: Fapiao) -> FileResponse:
    """The stored file under the number of the fapiao. Raises Http404 where there is none."""
    if not fapiao.file:
        raise Http404
    ending = fapiao.file.name.rpartition(".")[2]
    try:
        content = fapiao.file.open("rb")
    except FileNotFoundError:
        raise Http404 from None
    name = f"fapiao-{fapiao.number}.{ending}"
    answer = FileResponse(
        content, as_attachment=True, filename=name, content_type=MEDIA.get(ending, "application/octet-stream")
    )
    answer["Cache-Control"] = "private, no-store"
    return answer
