"""Paying by bank: the company's account, the code to state, slips sent in, and whether they were matched."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.permissions import can
from billing import actions
from billing.actions.transfers import SLIP_KINDS, SLIP_MOST_BYTES
from billing.forms import SlipForm
from billing.models import ReceivingAccount, TaxProfile, TransferSlip
from billing.remarks import remark_code
from billing.views.balance import PAGE_SIZE, MoneyPage
from marketplace.lib import clock


class Transfer(MoneyPage):
    """Bank details with the organization's own remark code; a slip may be sent in for finance."""

    def get(self, request: HttpRequest) -> HttpResponse:
        profile = TaxProfile.objects.filter(organization=self.organization).first()
        today = clock.local_date(clock.now(), self.organization.zone)
        first = {"payer": profile.title if profile else self.organization.name, "sent_on": today}
        return self._page(SlipForm(initial=first, currency=self.organization.currency))

    def post(self, request: HttpRequest) -> HttpResponse:
        form = SlipForm(request.POST, request.FILES, currency=self.organization.currency)
        if self.switched:
            return self._page(form, status=409)
        if not form.is_valid():
            return self._page(form, status=422)
        data = form.cleaned_data
        try:
            actions.submit_slip(
                organization=self.organization,
                amount_minor=data["amount"],
                payer=data["payer"],
                sent_on=data["sent_on"],
                # One byte more than is allowed is enough to know.
                content=data["file"].read(SLIP_MOST_BYTES + 1),
                at=clock.now(),
                actor=request.user,
            )
        except actions.SlipRefused as refusal:
            form.add_error(refusal.field or None, str(refusal))
            return self._page(form, status=422)
        messages.success(request, _("The slip has arrived. We credit your balance when the money is on our account."))
        return redirect("billing:transfer")

    def _page(self, form: SlipForm, status: int = 200) -> HttpResponse:
        account = actions.account_of(organization=self.organization)
        slips = Paginator(account.slips.all(), PAGE_SIZE).get_page(self.request.GET.get("page"))
        context = {
            "form": form,
            "currency": self.organization.currency,
            "code": remark_code(account),
            "accounts": ReceivingAccount.objects.filter(currency=self.organization.currency, is_shown=True),
            "slips": slips,
            "may_pay": can(self.membership, "pay"),
            "switched": self.switched,
        }
        return render(self.request, "billing/balance_transfer.html", context, status=status)


class SlipFile(OrganizationRequired, View):
    """A slip of the organization's own as it was sent in, as a download: nothing in it is shown by our pages."""

    verb = "bills"

    def get(self, request: HttpRequest, key: UUID) -> FileResponse:
        return slip_download(get_object_or_404(TransferSlip, account__organization=self.organization, key=key))


def slip_download(slip: TransferSlip) -> FileResponse:
    """The stored file under a name of ours."""
    extension = slip.file.name.rpartition(".")[2]
    media = dict(SLIP_KINDS.values()).get(extension, "application/octet-stream")
    try:
        content = slip.file.open("rb")
    except FileNotFoundError:
        raise Http404 from None
    name = f"slip-{slip.sent_on:%Y%m%d}-{str(slip.key)[:8]}.{extension}"
    answer = FileResponse(content, as_attachment=True, filename=name, content_type=media)
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
