"""Asking for a quote: members and visitors alike; what they ask for is a draft that sales sees at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allauth.account.adapter import get_adapter
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.models import Organization
from marketplace.lib import clock, throttle, visitor
from orders import actions, basket, queries
from orders.forms import QuoteRequestForm
from orders.models import Quote
from orders.views.calculator import basket_context

HOUR = 3600
LONGEST_NOTE = 2000


class RequestQuoteView(View):
    """A basket, or a need in words, for sales to price. The answer comes to whoever asked."""

    def get(self, request: HttpRequest) -> HttpResponse:
        self._load(request.GET.getlist("item"))
        initial: dict[str, Any] = {"note": request.GET.get("note", "")[:LONGEST_NOTE]}
        if request.GET.get("need") in Quote.Need.values:
            initial["need"] = request.GET["need"]
        return self._page(self._form(initial=initial))

    def post(self, request: HttpRequest) -> HttpResponse:
        self._load(request.POST.getlist("item"))
        form = self._form(request.POST)
        if not form.is_valid():
            return self._page(form, status=422)
        at = clock.now()
        key = form.request_key
        # Sending the same form again is no new request, so it is not counted either.
        earlier = Quote.objects.filter(request_key=key).first()
        if earlier is None and not throttle.allows(
            "quote-request", self._asker(), most=settings.QUOTE_REQUESTS_PER_HOUR, seconds=HOUR, at=at
        ):
            form.add_error(
                None,
                _(
                    "Many requests have come from here within the hour. Send it again later, or call us; nothing you"
                    " typed is lost."
                ),
            )
            return self._page(form, status=429)
        data = form.cleaned_data
        try:
            quote = earlier or actions.request_quote(
                organization=self.organization,
                actor=request.user if request.user.is_authenticated else None,
                contact=self._contact(data),
                currency=visitor.currency_of(request),
                need=data["need"],
                note=data["note"],
                items=form.items,
                request_key=key,
                at=at,
            )
        except actions.QuoteRefused as refusal:
            form.add_error(None, refusal.message)
            return self._page(form, status=422)
        return redirect("orders:quote", quote.token)

    @property
    def organization(self) -> Organization | None:
        """The organization of a member; somebody without one asks as a visitor does."""
        return self.request.membership.organization if self.request.membership else None

    def _contact(self, data: dict[str, Any]) -> actions.Contact:
        if self.organization:
            user = self.request.user
            return actions.Contact(user.get_full_name(), self.organization.name, user.email, data["phone"])
        return actions.Contact(data["name"], data["company"], data["email"], data["phone"])

    def _asker(self) -> str:
        return (
            f"organization:{self.organization.pk}" if self.organization else get_adapter().get_client_ip(self.request)
        )

    def _load(self, texts: Sequence[str]) -> None:
        read = basket.read(texts)
        offers = {offer.slug: offer for offer in queries.offers_on_sale()} if read.items else {}
        self.told = basket_context(self.request, read, read.items, offers)

    def _form(self, data: Any = None, initial: dict[str, Any] | None = None) -> QuoteRequestForm:
        items = [line.item for line in self.told["lines"]]
        return QuoteRequestForm(data, initial=initial, items=items, known=bool(self.organization))

    def _page(self, form: QuoteRequestForm, *, status: int = 200) -> HttpResponse:
        context = {**self.told, "form": form, "organization": self.organization}
        return render(self.request, "orders/request_quote.html", context, status=status)
