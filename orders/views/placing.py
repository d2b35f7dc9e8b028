"""The order form: the full price of a choice before it is bought."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.keys import KeyRefused
from accounts.models import SshKey
from accounts.permissions import can
from accounts.queries import email_is_verified
from catalog.queries import current_prices, free_units
from marketplace.lib import clock
from marketplace.lib.limits import by_bank
from marketplace.lib.nudge import nudge
from orders import actions, pricing, queries, tasks
from orders.forms import OrderForm, fresh_request_key, mark_of, rate_text
from orders.models import Order, Term
from orders.views.follow import follow_up
from orders.views.keys import order_with_keys, refuse_key


class NewOrderView(OrganizationRequired, View):
    """The full price of a choice, with its arithmetic, and the button that orders it."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        self._load(slug)
        return self._page(self._form(initial=self._wanted(request)))

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        self._load(slug)
        form = self._form(request.POST)
        if "update" in request.POST:
            form.keep_only_price_errors()
            return self._priced(form) if request.headers.get("HX-Request") else self._page(form)
        if not can(self.membership, "order"):
            raise PermissionDenied
        if self.switched or not form.is_valid():
            return self._page(form, status=409 if self.switched else 422)
        if not form.was_seen:
            return self._page(form, unseen=True)
        try:
            order = self._place(form)
        except actions.OrderRefused as refusal:
            return self._refused(form, refusal)
        except KeyRefused as refusal:
            refuse_key(form, refusal)
            return self._page(form, status=422)
        return redirect("orders:detail", order.key)

    # --- placing -----------------------------------------------------------------------------------------------------
    def _place(self, form: OrderForm) -> Order:
        if form.cleaned_data["new_key"]:
            order = order_with_keys(
                form, self.request, self.organization, self.at, lambda keys: self._ordered(form, keys)
            )
        else:
            order = self._ordered(form, form.cleaned_data["ssh_keys"])
        follow_up(order)
        return order

    def _ordered(self, form: OrderForm, keys: Sequence[SshKey]) -> Order:
        data = form.cleaned_data
        return actions.place_order(
            organization=self.organization,
            project=form.chosen_project,
            actor=self.request.user,
            request_key=data["request_key"],
            offer=self.offer,
            quantity=data["quantity"],
            term=data["term"],
            periods=data["periods"],
            image=data["image"],
            ssh_keys=keys,
            seen_rate=data["seen_rate"],
            at=self.at,
        )

    def _refused(self, form: OrderForm, refusal: actions.OrderRefused) -> HttpResponse:
        if isinstance(refusal, actions.RequestKeyReused):
            form.renew(request_key=fresh_request_key())
        elif isinstance(refusal, actions.BadChoice) and refusal.field in form.fields:
            form.add_error(refusal.field, refusal.message)
            return self._page(form, status=422)
        elif isinstance(refusal, actions.SoldOut):
            # Holds that nobody pays may be what is in the way.
            nudge(tasks.expire_holds)
        return self._page(form, refusal=refusal, status=409)

    # --- showing -----------------------------------------------------------------------------------------------------
    def _load(self, slug: str) -> None:
        self.at = clock.now()
        self.offered = queries.choices(self.organization, slug)
        if self.offered.offer is None:
            raise Http404
        self.offer = self.offered.offer

    def _form(self, data: Any = None, initial: dict[str, Any] | None = None) -> OrderForm:
        return OrderForm(data, initial=initial, offered=self.offered)

    @staticmethod
    def _wanted(request: HttpRequest) -> dict[str, Any]:
        """What the link asked for (?term=month&quantity=2); nonsense is dropped."""
        wanted: dict[str, Any] = {}
        if request.GET.get("term") in Term.values:
            wanted["term"] = request.GET["term"]
        for name, most in (("quantity", actions.MAX_UNITS), ("periods", 36)):
            text = request.GET.get(name, "")
            if text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= most:
                wanted[name] = int(text[:4])
        return wanted

    def _page(self, form: OrderForm, *, status: int = 200, **more: Any) -> HttpResponse:
        refusal = more.get("refusal")
        context = {
            **self._panel(form),
            **more,
            "switched": self.switched,
            "may_order": can(self.membership, "order"),
            "email_verified": email_is_verified(self.request.user),
            "alternatives": queries.alternatives(self.offer) if isinstance(refusal, actions.SoldOut) else [],
        }
        return render(self.request, "orders/new.html", context, status=status)

    def _priced(self, form: OrderForm) -> HttpResponse:
        return render(self.request, "orders/_price.html", self._panel(form))

    def _panel(self, form: OrderForm) -> dict[str, Any]:
        """The price of the form's choices as it is now. Terms without a price leave the form."""
        currency = self.organization.currency
        prices = current_prices([self.offer.pk], currency, self.at, organization_id=self.organization.pk)[self.offer.pk]
        terms = [term for term in Term.values if pricing.METER_OF_TERM[term] in prices]
        if terms:
            form.offer_terms(terms)
        choice = form.choice
        price = prices.get(pricing.METER_OF_TERM[choice["term"]]) if choice else None
        context = {"form": form, "offer": self.offer, "terms": terms, "free": self._free(), **self._rules()}
        if price is None:
            return context
        disk = prices.get("disk_gb_hour")
        shown = pricing.breakdown(
            **choice,
            cards_per_unit=self.offer.cards_per_unit,
            rate=price.rate,
            currency=currency,
            tax_percent=Decimal(settings.TAX_PERCENT),
            disk_gb=self.offer.disk_gb or 0,
            disk_rate=disk.rate if disk else Decimal(0),
            headroom_hours=settings.HEADROOM_HOURS,
        )
        return context | {
            "price": shown,
            "by_bank": not shown.is_hourly and by_bank(shown.total_minor, shown.currency),
            "seen_rate": rate_text(price.rate),
            "seen_choice": mark_of(**choice),
            "headroom": self.organization.credit_line.headroom_minor,
            "last_day": self._last_day(choice),
        }

    def _free(self) -> int:
        return free_units(self.offer.pool_id, self.offer.cards_per_unit)

    def _rules(self) -> dict[str, Any]:
        return {
            "hold_minutes": settings.ORDER_HOLD_MINUTES,
            "hold_days": settings.ORDER_HOLD_BANK_DAYS,
            "headroom_hours": settings.HEADROOM_HOURS,
            "tax_percent": Decimal(settings.TAX_PERCENT),
            "retention_days": settings.STOPPED_RETENTION_DAYS,
        }

    def _last_day(self, choice: dict[str, Any]) -> datetime | None:
        """The last second of a term that would start now."""
        if choice["term"] == Term.HOUR:
            return None
        _anchor, ends_at = pricing.term_end(
            started_at=self.at, term=choice["term"], periods=choice["periods"], zone=self.organization.zone
        )
        return ends_at - timedelta(seconds=1)
