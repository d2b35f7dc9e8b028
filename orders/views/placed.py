"""The list of an organization's orders, one order, and giving up an unpaid one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.permissions import can
from billing.actions.wallet import Holdings, covering
from billing.tasks import settle_expiring
from marketplace.lib import clock
from marketplace.lib.nudge import nudge
from orders import actions, pricing, queries
from orders.models import Order, OrderLine
from rentals.models import Rental

PAGE_SIZE = 20
PREPARED = frozenset({"draft", "issued", "pushing"})
UNPAID = PREPARED | {"open"}


class OrderListView(OrganizationRequired, View):
    """The organization's orders, newest first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        page = Paginator(queries.orders_of(self.organization), PAGE_SIZE).get_page(request.GET.get("page"))
        return render(request, "orders/list.html", {"page": page, "orders": page.object_list})


class OrderView(OrganizationRequired, View):
    """One order: where it stands, what was agreed, what to do next. The state part refreshes itself."""

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        order = get_object_or_404(queries.orders_of(self.organization), key=key)
        context = self._context(order)
        part = request.headers.get("HX-Target") == "order-state"
        return render(request, "orders/_state.html" if part else "orders/detail.html", context)

    def _context(self, order: Order) -> dict[str, Any]:
        units = [unit for line in order.lines.all() for unit in line.units]
        going_on = [line.continues_id for line in order.lines.all() if line.continues_id]
        invoice = order.invoices.exclude(status="void").first()
        return {
            "order": order,
            "tax_minor": sum(pricing.tax_within(line.amount_minor, line.tax_percent) for line in order.lines.all()),
            "lines": [(line, line_breakdown(line, order.currency)) for line in order.lines.all()],
            "invoice": invoice,
            "rentals": Rental.objects.filter(
                Q(key__in=units) | Q(subscription__in=going_on) | Q(subscription__order_line__order=order)
            ).order_by("pk"),
            "events": order.events.select_related("actor"),
            "payable": order.status == Order.Status.AWAITING_PAYMENT and (invoice is None or invoice.status in UNPAID),
            "waiting": self._waits(order, invoice),
            "may_order": can(self.membership, "order"),
            "may_see_bills": can(self.membership, "bills"),
            # Who ordered may also pay for it: the page of the invoice is where money is managed.
            "may_pay": can(self.membership, "pay") or can(self.membership, "order"),
            "held": self._held(order),
        }

    def _held(self, order: Order) -> Holdings | None:
        """What pays the whole order now, for those who may pay the bills."""
        if order.status != Order.Status.AWAITING_PAYMENT or not can(self.membership, "pay"):
            return None
        return covering(organization=self.organization, amount_minor=order.total_minor, at=clock.now())

    @staticmethod
    def _waits(order: Order, invoice: Any) -> bool:
        """Whether the next move is ours and the page should look again by itself."""
        if order.status == Order.Status.AWAITING_PAYMENT:
            return invoice is None or invoice.status in PREPARED | {"paid"}
        return order.status in {Order.Status.EXPIRING, Order.Status.CONFIRMED, Order.Status.PROVISIONING}


def line_breakdown(line: OrderLine, currency: str) -> pricing.Breakdown:
    """The arithmetic of an order's or a quote's line from its frozen figures."""
    return pricing.breakdown(
        term=line.term,
        quantity=line.quantity,
        cards_per_unit=line.cards_per_unit,
        periods=line.periods,
        rate=line.rate,
        currency=currency,
        tax_percent=line.tax_percent,
        disk_gb=line.disk_gb,
        disk_rate=line.disk_rate,
        headroom_hours=settings.HEADROOM_HOURS,
    )


class CancelOrderView(OrganizationRequired, View):
    """Ask, then give up an unpaid order."""

    verb = "order"

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        return render(request, "orders/cancel.html", {"order": self._order(key)})

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        order = self._order(key)
        try:
            actions.cancel_order(order_id=order.pk, actor=request.user, at=clock.now())
        except actions.IllegalMove as refusal:
            messages.error(request, str(refusal))
        else:
            nudge(settle_expiring)
            messages.success(request, _("The order is being cancelled; its cards are released in a moment."))
        return redirect("orders:detail", order.key)

    def _order(self, key: UUID) -> Order:
        return get_object_or_404(queries.orders_of(self.organization), key=key)
