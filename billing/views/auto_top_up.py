"""Automatic top-up: the saved card, the mark below which it is charged, and how much."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.permissions import can
from billing import actions, stripe_gateway
from billing.actions import autotopup
from billing.forms import AutoTopUpForm
from billing.models import BillingAccount
from billing.views.balance import MoneyPage
from marketplace.lib import clock
from marketplace.lib.money import major
from marketplace.lib.refusals import Refusal


class AutoTopUp(MoneyPage):
    """Sets the rule, or switches it off."""

    def get(self, request: HttpRequest) -> HttpResponse:
        account = actions.account_of(organization=self.organization)
        if session_id := request.GET.get("session"):
            self._look_at(session_id)
            return redirect("billing:auto_top_up")
        return self._page(self._form(account), account)

    def _look_at(self, session_id: str) -> None:
        """The customer comes back from the page of the card: no need to wait for the webhook."""
        try:
            session = stripe_gateway.retrieve_checkout(session_id=session_id)
            kept = autotopup.record_card(session=session)
        except stripe_gateway.GatewayError:
            kept = False
        if kept:
            messages.success(self.request, _("Your card is saved."))
        else:
            messages.info(self.request, _("The card is not confirmed yet; look again in a minute."))

    def _form(self, account: BillingAccount, data: Any = None) -> AutoTopUpForm:
        currency, initial = self.organization.currency, {}
        if account.auto_top_up_below_minor is not None and account.auto_top_up_minor is not None:
            initial = {
                "below": major(account.auto_top_up_below_minor, currency),
                "amount": major(account.auto_top_up_minor, currency),
            }
        return AutoTopUpForm(data, currency=currency, initial=initial)

    def post(self, request: HttpRequest) -> HttpResponse:
        account = actions.account_of(organization=self.organization)
        form = self._form(account, request.POST)
        if self.switched:
            return self._page(form, account, status=409)
        if "off" in request.POST:
            autotopup.switch_auto_top_up_off(organization=self.organization)
            messages.success(request, _("Automatic top-up is off."))
            return redirect("billing:auto_top_up")
        if not form.is_valid():
            return self._page(form, account, status=422)
        try:
            autotopup.set_auto_top_up(
                organization=self.organization,
                below_minor=form.cleaned_data["below"],
                amount_minor=form.cleaned_data["amount"],
            )
        except Refusal as refusal:
            form.add_error(refusal.field if refusal.field in form.fields else None, str(refusal))
            return self._page(form, account, status=422)
        messages.success(request, _("Automatic top-up is on."))
        return redirect("billing:auto_top_up")

    def _page(self, form: AutoTopUpForm, account: BillingAccount, status: int = 200) -> HttpResponse:
        context = {
            "form": form,
            "account": account,
            "currency": self.organization.currency,
            "is_on": account.auto_top_up_minor is not None,
            "may_pay": can(self.membership, "pay"),
            "switched": self.switched,
        }
        return render(self.request, "billing/balance_auto.html", context, status=status)


class SaveCard(MoneyPage):
    """On to Stripe's page where a card is left."""

    http_method_names = ["post", "options"]
    verb = "pay"

    def post(self, request: HttpRequest) -> HttpResponse:
        page = settings.SITE_URL + reverse("billing:auto_top_up")
        try:
            url = autotopup.begin_card_setup(
                organization=self.organization,
                setup_key=uuid4(),
                success_url=page + "?session={CHECKOUT_SESSION_ID}",
                cancel_url=page,
                at=clock.now(),
            )
        except stripe_gateway.GatewayError as problem:
            messages.error(request, str(problem.message))
            return redirect("billing:auto_top_up")
        return HttpResponseRedirect(url)


class RemoveCard(MoneyPage):
    """Forgets the card."""

    http_method_names = ["post", "options"]
    verb = "pay"

    def post(self, request: HttpRequest) -> HttpResponse:
        # Ours is gone in any case, so nobody charges it any more.
        with suppress(stripe_gateway.GatewayError):
            autotopup.remove_card(organization=self.organization)
        messages.success(request, _("Your card is removed and automatic top-up is off."))
        return redirect("billing:auto_top_up")
