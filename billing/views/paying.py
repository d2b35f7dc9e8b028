"""Pressing Pay: on to Stripe's page of an invoice."""

from __future__ import annotations

import time
from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.permissions import can
from billing import actions, queries
from billing.actions.pushing import leased
from billing.models import Invoice
from marketplace.lib import clock
from marketplace.lib.money import format_minor
from orders.models import Order

# How long a press on Pay waits for a worker that is opening the invoice already.
WORKER_SECONDS = 5
Status = Invoice.Status


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


class PayFromBalance(OrganizationRequired, View):
    """Pays with gifted credit and the balance. The same people as may pay the bills; nothing is charged anywhere."""

    http_method_names = ["post", "options"]
    verb = "pay"

    def settle(self, request: HttpRequest, invoice: Invoice) -> None:
        try:
            paid = actions.pay_from_wallet(invoice=invoice, at=clock.now(), actor=request.user)
        except (actions.BalanceRefused, actions.PaymentRefused) as refusal:
            messages.error(request, f"{refusal} {refusal.next_step}".strip())
            return
        facts = {"amount": format_minor(paid, invoice.currency), "number": invoice}
        if invoice.status == Status.PAID:
            messages.success(request, _("Invoice %(number)s was paid with %(amount)s from your balance.") % facts)
        else:
            messages.info(request, _("%(amount)s of invoice %(number)s was paid; the rest is still due.") % facts)


class PayInvoiceFromBalance(PayFromBalance):
    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        invoice = get_object_or_404(queries.invoices_of(self.organization), key=key)
        self.settle(request, invoice)
        return redirect("billing:invoice", invoice.key)


class PayOrderFromBalance(PayFromBalance):
    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        order = get_object_or_404(Order, organization=self.organization, key=key)
        invoice = actions.draft_order_invoice(order=order, at=clock.now())
        if invoice is None:
            messages.warning(request, _("This order does not wait for a payment."))
        else:
            self.settle(request, invoice)
        return redirect("orders:detail", order.key)


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
