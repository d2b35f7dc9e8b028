"""A quote by its link: everybody who has the link may read it, the organization's people may answer it.

What a customer asked for stands at the same link until it has been answered.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.keys import KeyRefused
from accounts.models import Membership
from accounts.permissions import can
from accounts.queries import email_is_verified
from catalog.models import Offer
from marketplace.lib import clock
from marketplace.lib.capitals import in_words
from marketplace.lib.limits import by_bank
from orders import actions, basket, pricing, queries
from orders.basket import Item
from orders.forms import KeysForm
from orders.models import Order, Quote, QuoteLine, Term
from orders.views.follow import follow_up
from orders.views.keys import chosen_keys, refuse_key

PAGE_SIZE = 20


class QuoteView(View):
    """Reads a quote that has been sent. A draft that sales began does not exist for anybody outside the desk."""

    at: datetime
    quote: Quote
    membership: Membership | None

    def dispatch(self, request: HttpRequest, *args: Any, token: str, **options: Any) -> HttpResponse:
        self.at = clock.now()
        self.quote = get_object_or_404(queries.readable_quotes(), token=token)
        self.membership = self._membership()
        response = super().dispatch(request, *args, **options)
        # The address is the key to it: keep it out of shared caches and search engines.
        response["Cache-Control"] = "private, no-store"
        response["X-Robots-Tag"] = "noindex"
        return response

    def get(self, request: HttpRequest) -> HttpResponse:
        if not self.quote.was_sent:
            return self._request()
        if "print" in request.GET:
            return self.page(None, template="orders/quote_print.html")
        return self.page(self.form() if self.may_answer else None)

    def _request(self) -> HttpResponse:
        """What was asked for, without the prices that sales may be working on."""
        context = {
            "quote": self.quote,
            "asked": asked_lines(self.quote),
            "membership": self.membership,
            "replaced": self.quote.status == Quote.Status.SUPERSEDED,
        }
        return render(self.request, "orders/quote_requested.html", context)

    def _membership(self) -> Membership | None:
        """The reader's place in the quote's own organization, whichever one they are working in now."""
        if not self.request.user.is_authenticated or self.quote.organization is None:
            return None
        return self.request.user.memberships.filter(organization=self.quote.organization).first()

    @property
    def is_open(self) -> bool:
        return self.quote.status == Quote.Status.SENT and self.quote.valid_until > self.at

    @property
    def may_answer(self) -> bool:
        return self.is_open and can(self.membership, "order")

    def form(self, data: Any = None) -> KeysForm:
        return KeysForm(data, offered=queries.choices(self.quote.organization))

    def page(
        self,
        form: KeysForm | None,
        *,
        refusal: Exception | None = None,
        status: int = 200,
        template: str = "orders/quote.html",
    ) -> HttpResponse:
        lines = self.quote.lines.all()
        total_minor = sum(line.amount_minor for line in lines)
        listed = [amount_of(line, line.list_rate, self.quote.currency) for line in lines]
        tax_percent = Decimal(settings.TAX_PERCENT)
        context = {
            "quote": self.quote,
            "state": Quote.Status.EXPIRED if self._has_run_out() else Quote.Status(self.quote.status),
            "lines": zip(lines, listed, strict=True),
            "total_minor": total_minor,
            "listed_minor": sum(listed),
            "discount_minor": total_minor - sum(listed),
            "tax_minor": sum(pricing.tax_within(line.amount_minor, tax_percent) for line in lines),
            "tax_percent": tax_percent,
            "hourly": any(line.term == Term.HOUR for line in lines),
            "form": form,
            "refusal": refusal,
            "is_open": self.is_open,
            "membership": self.membership,
            "email_verified": form is None or email_is_verified(self.request.user),
            "hold_minutes": settings.ORDER_HOLD_MINUTES,
            "hold_days": settings.ORDER_HOLD_BANK_DAYS,
            "by_bank": total_minor > 0 and by_bank(total_minor, self.quote.currency),
            "headroom_hours": settings.HEADROOM_HOURS,
            "in_words": in_words(total_minor, self.quote.currency),
            "seller": settings.SELLER,
            "back": reverse("orders:quote", args=[self.quote.token]),
        }
        return render(self.request, template, context, status=status)

    def _has_run_out(self) -> bool:
        return self.quote.status == Quote.Status.SENT and not self.is_open


def asked_lines(quote: Quote) -> list[tuple[Item, Offer | None]]:
    """What the customer asked for, line by line, with the offer where there still is one."""
    items = basket.read(quote.asked).items
    offers = Offer.objects.filter(slug__in={item.slug for item in items}).select_related("gpu_model", "region")
    known = {offer.slug: offer for offer in offers} if items else {}
    return [(item, known.get(item.slug)) for item in items]


def amount_of(line: QuoteLine, rate: Decimal, currency: str) -> int:
    """A quote line's amount in advance at a given rate per card, in minor units."""
    cards = line.quantity * line.offer.cards_per_unit
    return pricing.advance_amount(term=line.term, cards=cards, rate=rate, currency=currency, periods=line.periods).minor


class AnswerQuoteView(QuoteView):
    """What accepting and declining share: signed in, a member of the quote's organization, allowed to order."""

    http_method_names = ["post", "options"]

    def post(self, request: HttpRequest) -> HttpResponse:
        if not request.user.is_authenticated:
            return redirect(f"{reverse(settings.LOGIN_URL)}?next={reverse('orders:quote', args=[self.quote.token])}")
        if self.membership is None or not self.quote.was_sent:
            raise Http404
        if not can(self.membership, "order"):
            raise PermissionDenied
        return self.answer()

    def answer(self) -> HttpResponse:
        raise NotImplementedError


class AcceptQuoteView(AnswerQuoteView):
    def answer(self) -> HttpResponse:
        form = self.form(self.request.POST)
        if self.quote.order:
            return redirect("orders:detail", self.quote.order.key)
        if not form.is_valid():
            return self.page(form, status=422)
        try:
            order = self._accepted(form)
        except KeyRefused as refusal:
            self.quote.refresh_from_db(fields=["order"])
            if self.quote.order:  # the second of a double click found the first one's key
                return redirect("orders:detail", self.quote.order.key)
            refuse_key(form, refusal)
            return self.page(form, status=422)
        except (actions.OrderRefused, actions.QuoteRefused) as refusal:
            return self.page(form if self.may_answer else None, refusal=refusal, status=409)
        return redirect("orders:detail", order.key)

    def _accepted(self, form: KeysForm) -> Order:
        with transaction.atomic():
            order = actions.accept_quote(
                quote_id=self.quote.pk,
                project=form.chosen_project,
                ssh_keys=chosen_keys(form, self.request, self.quote.organization, self.at),
                actor=self.request.user,
                at=self.at,
            )
        follow_up(order)
        return order


class DeclineQuoteView(AnswerQuoteView):
    def answer(self) -> HttpResponse:
        try:
            actions.decline_quote(quote_id=self.quote.pk, actor=self.request.user, at=self.at)
        except actions.QuoteRefused as refusal:
            messages.error(self.request, str(refusal))
        else:
            messages.success(self.request, _("You declined this quote."))
        return redirect("orders:quote", self.quote.token)


class QuoteListView(OrganizationRequired, View):
    """The organization's quotes and what it asked for, newest first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        page = Paginator(queries.quotes_of(self.organization), PAGE_SIZE).get_page(request.GET.get("page"))
        at = clock.now()
        rows = [
            {
                "quote": quote,
                "state": state_of(quote, at),
                "total_minor": sum(line.amount_minor for line in quote.lines.all()) if quote.was_sent else None,
                "count": len(quote.lines.all()) if quote.was_sent else len(quote.asked),
            }
            for quote in page.object_list
        ]
        return render(request, "orders/quotes.html", {"page": page, "rows": rows})


def state_of(quote: Quote, at: datetime) -> str:
    """The state as a customer sees it: a request is not a draft, and a date that has passed is expired at once."""
    if not quote.was_sent:
        return "replaced" if quote.status == Quote.Status.SUPERSEDED else "requested"
    if quote.status == Quote.Status.SENT and quote.valid_until <= at:
        return str(Quote.Status.EXPIRED)
    return str(quote.status)
