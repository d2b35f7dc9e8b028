"""Ordering a basket: its lines come with the address, the page asks for images and keys and says what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.keys import KeyRefused
from accounts.models import SshKey
from accounts.permissions import can
from accounts.queries import email_is_verified
from catalog.models import Image
from marketplace.lib import clock
from marketplace.lib.limits import by_bank
from marketplace.lib.nudge import nudge
from orders import actions, basket, pricing, queries, tasks
from orders.calculation import Line
from orders.forms import BasketOrderForm, fresh_request_key
from orders.models import Order, Term
from orders.views.calculator import basket_context
from orders.views.follow import follow_up
from orders.views.keys import order_with_keys, refuse_key


class OrderBasketView(OrganizationRequired, View):
    """One order of everything in the basket that has a price."""

    def get(self, request: HttpRequest) -> HttpResponse:
        self._load(request.GET.getlist("item"))
        return self._page(self._form())

    def post(self, request: HttpRequest) -> HttpResponse:
        self._load(request.POST.getlist("item"))
        form = self._form(request.POST)
        if not can(self.membership, "order"):
            raise PermissionDenied
        if self.switched or not self.lines or not form.is_valid():
            return self._page(form, status=409 if self.switched else 422)
        try:
            order = order_with_keys(
                form, self.request, self.organization, self.at, lambda keys: self._ordered(form, keys)
            )
        except actions.OrderRefused as refusal:
            return self._refused(form, refusal)
        except KeyRefused as refusal:
            refuse_key(form, refusal)
            return self._page(form, status=422)
        follow_up(order)
        return redirect("orders:detail", order.key)

    # --- placing -----------------------------------------------------------------------------------------------------
    def _ordered(self, form: BasketOrderForm, keys: Sequence[SshKey]) -> Order:
        data = form.cleaned_data
        wanted = [
            actions.Wanted(
                offer=line.offer,
                image=data[f"image-{number}"],
                quantity=line.item.quantity,
                term=line.item.term,
                periods=line.item.periods,
                seen_rate=data[f"seen-{number}"],
            )
            for number, line in enumerate(self.lines)
        ]
        return actions.place_basket(
            organization=self.organization,
            project=form.chosen_project,
            actor=self.request.user,
            request_key=data["request_key"],
            wanted=wanted,
            ssh_keys=keys,
            at=self.at,
        )

    def _refused(self, form: BasketOrderForm, refusal: actions.OrderRefused) -> HttpResponse:
        if isinstance(refusal, actions.RequestKeyReused):
            form.renew(self.lines, request_key=fresh_request_key())
        elif isinstance(refusal, actions.PriceChanged):
            form.renew(self.lines)
        elif isinstance(refusal, actions.SoldOut):
            # Holds that nobody pays may be what is in the way.
            nudge(tasks.expire_holds)
        return self._page(form, refusal=refusal, status=409)

    # --- showing -----------------------------------------------------------------------------------------------------
    def _load(self, texts: Sequence[str]) -> None:
        self.at = clock.now()
        read = basket.read(texts)
        offers = {offer.slug: offer for offer in queries.offers_on_sale()}
        self.told = basket_context(self.request, read, read.items, offers)
        self.lines: list[Line] = [line for line in self.told["lines"] if line.orderable]

    def _form(self, data: Any = None) -> BasketOrderForm:
        stacks = {line.offer.gpu_model.software_stack for line in self.lines if line.offer.gpu_model}
        images = list(Image.objects.filter(enabled=True, software_stack__in=stacks).order_by("name", "pk"))
        offered = replace(queries.choices(self.organization), images=images)
        return BasketOrderForm(data, offered=offered, lines=self.lines)

    def _page(
        self, form: BasketOrderForm, *, refusal: actions.OrderRefused | None = None, status: int = 200
    ) -> HttpResponse:
        position = refusal.position if refusal else None
        prices = [self._breakdown(line) for line in self.lines]
        sold_out = isinstance(refusal, actions.SoldOut) and position is not None
        context = {
            **self.told,
            "form": form,
            "switched": self.switched,
            "refusal": refusal,
            "alternatives": queries.alternatives(self.lines[position].offer) if sold_out else [],
            "rows": [
                {
                    "line": line,
                    "price": price,
                    "image": form[f"image-{number}"],
                    "seen": form[f"seen-{number}"],
                    "refusal": refusal if position == number else None,
                }
                for number, (line, price) in enumerate(zip(self.lines, prices, strict=True))
            ],
            "left_out": [line for line in self.told["lines"] if not line.orderable],
            "may_order": can(self.membership, "order"),
            "email_verified": email_is_verified(self.request.user),
            **self._sums(prices),
        }
        return render(self.request, "orders/basket.html", context, status=status)

    def _breakdown(self, line: Line) -> pricing.Breakdown:
        return pricing.breakdown(
            term=line.item.term,
            quantity=line.item.quantity,
            cards_per_unit=line.offer.cards_per_unit,
            periods=line.item.periods,
            rate=line.rate or Decimal(0),
            currency=self.organization.currency,
            tax_percent=self.told["tax_percent"],
            disk_gb=line.offer.disk_gb or 0,
            disk_rate=line.rates.get("disk", Decimal(0)),
            headroom_hours=settings.HEADROOM_HOURS,
        )

    def _sums(self, prices: Sequence[pricing.Breakdown]) -> dict[str, Any]:
        terms = [price for price in prices if not price.is_hourly]
        advance = sum(price.total_minor for price in terms)
        hourly = [line.item for line in self.lines if line.item.term == Term.HOUR]
        return {
            "advance_minor": advance,
            "advance_tax_minor": sum(price.tax_minor for price in terms),
            "per_hour_minor": sum(price.total_minor for price in prices if price.is_hourly),
            "needed_minor": sum(price.headroom_minor for price in prices),
            "headroom": self.organization.credit_line.headroom_minor,
            "hourly_query": basket.query(hourly),
            "terms_query": basket.query([line.item for line in self.lines if line.item.term != Term.HOUR]),
            "mixed": bool(hourly) and bool(terms),
            "by_bank": bool(advance) and by_bank(advance, self.organization.currency),
            "hold_minutes": settings.ORDER_HOLD_MINUTES,
            "hold_days": settings.ORDER_HOLD_BANK_DAYS,
            "headroom_hours": settings.HEADROOM_HOURS,
            "retention_days": settings.STOPPED_RETENTION_DAYS,
        }
