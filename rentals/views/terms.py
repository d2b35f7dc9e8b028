"""More time for a machine: extend its term, put a term in place of the hour, let the term renew itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from billing.tasks import draft_order_invoices
from catalog.queries import current_prices
from marketplace.lib import clock
from marketplace.lib.limits import by_bank
from marketplace.lib.nudge import nudge
from orders import actions as orders
from orders import pricing
from orders.models import Order, Term
from orders.queries import unsettled_order_of
from rentals.forms import MoreTimeForm, mark_of
from rentals.models import Rental
from rentals.presentation import last_second
from rentals.views.machine import OneRental, can_convert, can_extend, can_restore

Status = Rental.Status


class MoreTime(OneRental):
    """The price of more time before it is bought, and the button that orders it. Works without scripts."""

    verb = "order"
    name: str
    act: Callable[..., Order]

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        rental = self.rental(key)
        return self._page(rental, self._form(rental))

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        rental = self.rental(key)
        form = self._form(rental, request.POST)
        if "update" in request.POST:
            part = "rentals/_more_price.html" if request.headers.get("HX-Request") else "rentals/more_time.html"
            return self._page(rental, form, template=part)
        if not form.is_valid():
            return self._page(rental, form, status=422)
        if not form.was_seen:
            return self._page(rental, form, unseen=True)
        data = form.cleaned_data
        try:
            order = self.act(
                subscription_id=rental.subscription_id,
                actor=request.user,
                request_key=data["request_key"],
                term=data["term"],
                periods=data["periods"],
                seen_rate=data["seen_rate"],
                at=clock.now(),
            )
        except orders.OrderRefused as refusal:
            return self._page(self.rental(key), form, refusal=refusal, status=409)
        nudge(draft_order_invoices)
        return redirect("orders:detail", order.key)

    def possible(self, rental: Rental, at: datetime) -> bool:
        raise NotImplementedError

    def _form(self, rental: Rental, data: Any = None) -> MoreTimeForm:
        self.at = clock.now()
        offer = rental.order_line.offer
        self.prices = current_prices(
            [offer.pk], rental.subscription.currency, self.at, organization_id=self.organization.pk
        )[offer.pk]
        terms = [(term.value, term.label) for term in (Term.MONTH, Term.YEAR) if term.value in self.prices]
        wanted = self.request.GET.get("term")
        initial = {"term": wanted} if wanted in dict(terms) else {}
        return MoreTimeForm(data, terms=terms, initial=initial)

    def _page(
        self,
        rental: Rental,
        form: MoreTimeForm,
        *,
        status: int = 200,
        template: str = "rentals/more_time.html",
        **more: Any,
    ) -> HttpResponse:
        context = {
            **more,
            "rental": rental,
            "form": form,
            "name": self.name,
            "hourly": rental.subscription.is_hourly,
            "possible": self.possible(rental, self.at) and bool(form.fields["term"].choices),
            "waiting": unsettled_order_of(rental.subscription),
            "ends_at": last_second(rental),
            **self._priced(rental, form),
        }
        return render(self.request, template, context, status=status)

    def _priced(self, rental: Rental, form: MoreTimeForm) -> dict[str, Any]:
        choice = form.choice
        if choice is None or choice[0] not in self.prices:
            return {}
        (term, periods), subscription = choice, rental.subscription
        if periods > orders.MAX_PERIODS[Term(term)]:
            form.add_error("periods", _("Choose between 1 and %(most)d.") % {"most": orders.MAX_PERIODS[Term(term)]})
            return {}
        rate = self.prices[term].rate
        shown = pricing.breakdown(
            term=term,
            quantity=1,
            cards_per_unit=subscription.cards,
            periods=periods,
            rate=rate,
            currency=subscription.currency,
            tax_percent=Decimal(settings.TAX_PERCENT),
        )
        _start, end = orders.span(subscription, term=term, periods=periods, start=self.at)
        return {
            "price": shown,
            "new_end": end - timedelta(seconds=1),
            "by_bank": by_bank(shown.total_minor, shown.currency),
            "hold_minutes": settings.ORDER_HOLD_MINUTES,
            "hold_days": settings.ORDER_HOLD_BANK_DAYS,
            "tax_percent": Decimal(settings.TAX_PERCENT),
            "seen_rate": f"{rate:f}",
            "seen_choice": mark_of(term, periods),
        }


class Extend(MoreTime):
    """More time for a term that runs."""

    name = "extend"
    act = staticmethod(orders.extend_term)

    def possible(self, rental: Rental, at: datetime) -> bool:
        return can_extend(rental, at)


class Convert(MoreTime):
    """A term in place of the hour."""

    name = "convert"
    act = staticmethod(orders.convert_to_term)

    def possible(self, rental: Rental, at: datetime) -> bool:
        return can_convert(rental)


class Restore(MoreTime):
    """A new term for a machine that is kept after its last one."""

    name = "restore"
    act = staticmethod(orders.convert_to_term)

    def possible(self, rental: Rental, at: datetime) -> bool:
        return can_restore(rental, at)


class AutoRenew(OneRental):
    """Whether the term is extended by itself, from the balance."""

    verb = "order"
    http_method_names = ("post",)

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        rental = self.rental(key)
        on = request.POST.get("on") == "1"
        try:
            orders.set_auto_renew(subscription_id=rental.subscription_id, on=on)
        except orders.NotRunning as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, _("The term renews itself.") if on else _("The term no longer renews itself."))
        return redirect("rentals:detail", key)
