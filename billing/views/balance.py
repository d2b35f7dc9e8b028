"""The balance: what an organization holds with us, what moved it, and paying something in."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.permissions import can
from billing import actions, stripe_gateway
from billing.actions.gifts import spendable
from billing.actions.wallet import Holdings, holdings
from billing.forms import TopUpForm, VoucherForm
from billing.models import TopUp
from billing.movements import movements, postings_of
from marketplace.lib import clock, throttle
from marketplace.lib.refusals import Refusal
from rentals.queries import burn_per_hour

PAGE_SIZE = 20
HOUR = 3600
# What lasts longer is of no interest to the hour.
LONG = 24 * 365


class MoneyPage(OrganizationRequired, View):
    """Seen by whoever sees the bills; posted to by whoever pays them, for the organization the form was opened for."""

    verb = "bills"

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        known = request.user.is_authenticated and request.membership
        if request.method == "POST" and known and not can(request.membership, "pay"):
            raise PermissionDenied
        return super().dispatch(request, *args, **kwargs)


class Balance(MoneyPage):
    """What there is, how long it lasts, and every movement."""

    http_method_names = ["get", "head", "options"]

    def get(self, request: HttpRequest) -> HttpResponse:
        at = clock.now()
        account = actions.account_of(organization=self.organization)
        held = holdings(account, at=at)
        page = Paginator(postings_of(account), PAGE_SIZE).get_page(request.GET.get("page"))
        burn = burn_per_hour(self.organization.pk)
        context = {
            "account": account,
            "held": held,
            "currency": self.organization.currency,
            "burn": burn,
            "lasts_until": lasts_until(held, burn.minor, at),
            "gifts": list(spendable(account, at=at)),
            "page": page,
            "movements": movements(page.object_list),
            "waiting": account.top_ups.filter(status=TopUp.Status.OPEN, is_automatic=False, expires_at__gt=at).first(),
            "may_pay": can(self.membership, "pay"),
        }
        return render(request, "billing/balance.html", context)


def lasts_until(held: Holdings, burn_minor: int, at: datetime) -> datetime | None:
    """Until when what there is lasts at the present burn per hour; None while nothing burns or for more than a year."""
    if burn_minor <= 0 or held.total_minor > LONG * burn_minor:
        return None
    return at + timedelta(seconds=held.total_minor * HOUR // burn_minor)


class TopUpPage(MoneyPage):
    """Choose an amount, then on to Stripe's page. Never charges anything itself."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return self._page(TopUpForm(currency=self.organization.currency))

    def post(self, request: HttpRequest) -> HttpResponse:
        form = TopUpForm(request.POST, currency=self.organization.currency)
        if self.switched:
            return self._page(form, status=409)
        if not form.is_valid():
            return self._page(form, status=422)
        at = clock.now()
        try:
            top_up = actions.begin_top_up(
                organization=self.organization,
                amount_minor=form.cleaned_data["amount"],
                request_key=str(form.cleaned_data["request_key"]),
                at=at,
                actor=request.user,
            )
            done = reverse("billing:top_up_done", args=[top_up.key])
            top_up = actions.open_top_up(
                top_up_id=top_up.pk,
                success_url=settings.SITE_URL + done,
                cancel_url=settings.SITE_URL + reverse("billing:balance"),
                at=at,
            )
        except actions.TopUpRefused as refusal:
            form.add_error("amount", str(refusal))
            return self._page(form, status=422)
        except stripe_gateway.GatewayError:
            form.add_error(
                None,
                _("The payment service cannot be reached right now. Nothing was charged; press the button again."),
            )
            return self._page(form, status=503)
        if top_up.status == TopUp.Status.OPEN and top_up.checkout_url:
            return HttpResponseRedirect(top_up.checkout_url)
        return redirect("billing:top_up_done", top_up.key)

    def _page(self, form: TopUpForm, status: int = 200) -> HttpResponse:
        context = {
            "form": form,
            "currency": self.organization.currency,
            "may_pay": can(self.membership, "pay"),
            "switched": self.switched,
        }
        return render(self.request, "billing/balance_top_up.html", context, status=status)


class TopUpDone(MoneyPage):
    """Where Stripe sends the customer back: asks what became of the payment, and again while it is under way."""

    http_method_names = ["get", "head", "options"]

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        top_up = get_object_or_404(TopUp, account__organization=self.organization, key=key)
        unreachable = False
        if top_up.status != TopUp.Status.PAID:
            try:
                top_up = actions.settle_top_up(top_up_id=top_up.pk, at=clock.now(), impatient=True)
            except stripe_gateway.GatewayError:
                unreachable = True
        context = {"top_up": top_up, "unreachable": unreachable, "may_pay": can(self.membership, "pay")}
        return render(request, "billing/balance_top_up_done.html", context)


class VoucherPage(MoneyPage):
    """Turn a code into gifted credit. Wrong ones are counted: nobody shall guess."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return self._page(VoucherForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        form = VoucherForm(request.POST)
        if self.switched:
            return self._page(form, status=409)
        if not form.is_valid():
            return self._page(form, status=422)
        at = clock.now()
        if not throttle.allows(
            "voucher", str(self.organization.key), most=settings.VOUCHER_TRIES_PER_HOUR, seconds=HOUR, at=at
        ):
            form.add_error("code", _("Too many codes were tried within the hour. Try again later."))
            return self._page(form, status=429)
        try:
            gift = actions.redeem_voucher(
                organization=self.organization, code=form.cleaned_data["code"], at=at, actor=request.user
            )
        except Refusal as refusal:
            form.add_error("code", str(refusal))
            return self._page(form, status=422)
        messages.success(request, _("The voucher was redeemed: %(reason)s.") % {"reason": gift.reason})
        return redirect("billing:balance")

    def _page(self, form: VoucherForm, status: int = 200) -> HttpResponse:
        context = {"form": form, "may_pay": can(self.membership, "pay"), "switched": self.switched}
        return render(self.request, "billing/balance_voucher.html", context, status=status)
