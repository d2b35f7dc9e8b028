"""Balances at the desk: top-ups, gifted credit and vouchers."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display

from accounts.models import CURRENCY_CHOICES
from billing import actions as verbs
from billing import stripe_gateway
from billing.models import Gift, TopUp, Voucher
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, button
from marketplace.lib import clock
from marketplace.lib.money import minor

TOP_UP_STATES = {"created": "info", "open": "info", "paid": "success", "expired": "warning", "failed": "danger"}


@admin.register(TopUp)
class TopUpDesk(Desk):
    """Money paid in through Stripe. Credited once per payment; asked about until it is over."""

    buttons = ("ask",)
    refusals = (stripe_gateway.GatewayError,)
    select = ("account__organization", "created_by")
    fieldsets = (
        (None, {"fields": (("customer", "state"), ("amount", "is_automatic"), ("created_by", "created", "paid"))}),
        ("Stripe", {"fields": ("stripe_session_id", "payment_intent", "error", ("expires", "next_check"))}),
    )
    list_display = ("created", "customer", "amount", "state", "is_automatic", "payment_intent", "error")
    list_display_links = ("created",)
    list_filter = ("status", "is_automatic", "currency", "created_at")
    search_fields = ("=key", "account__organization__name", "=payment_intent", "=stripe_session_id")
    date_hierarchy = "created_at"
    ordering = ("-created_at", "-pk")

    customer = show.link("account", gettext_lazy("account"))
    state = show.badge("status", gettext_lazy("status"), TOP_UP_STATES)
    amount = show.money("amount_minor", gettext_lazy("amount"))
    created = show.instant("created_at", gettext_lazy("created at"))
    paid = show.instant("paid_at", gettext_lazy("paid at"))
    expires = show.instant("expires_at", gettext_lazy("expires at"))
    next_check = show.instant("next_check_at", gettext_lazy("next check at"))

    @button(gettext_lazy("Ask Stripe"), shown=lambda top_up: top_up.status != TopUp.Status.PAID)
    def ask(self, request: HttpRequest, top_up: TopUp) -> str:
        now = verbs.settle_top_up(top_up_id=top_up.pk, at=clock.now())
        return _("The top-up is “%(state)s”.") % {"state": now.get_status_display()}


@admin.register(Gift)
class GiftDesk(Desk):
    """Credit given for nothing. Granted on the page of a billing account."""

    select = ("account__organization", "granted_by")
    fieldsets = (
        (None, {"fields": (("customer", "reason"), ("amount", "spent"), ("granted_by", "granted"))}),
        (None, {"fields": (("expires", "expired"),)}),
    )
    list_display = ("reason", "customer", "amount", "spent", "granted", "expires", "expired")
    list_filter = ("currency", "granted_at", ("expired_at", admin.EmptyFieldListFilter))
    search_fields = ("reason", "account__organization__name")
    ordering = ("-granted_at", "-pk")

    customer = show.link("account", gettext_lazy("account"))
    amount = show.money("amount_minor", gettext_lazy("amount"))
    spent = show.money("spent_minor", gettext_lazy("spent"))
    granted = show.instant("granted_at", gettext_lazy("granted at"))
    expires = show.instant("expires_at", gettext_lazy("expires at"))
    expired = show.instant("expired_at", gettext_lazy("expired at"))


class BatchForm(forms.ModelForm):
    """A batch of vouchers over the same amount."""

    count = inputs.integer(label=gettext_lazy("how many"), min_value=1, max_value=1000, initial=10)
    amount = inputs.decimal(label=gettext_lazy("amount each"), max_digits=12, decimal_places=2)
    currency = inputs.choice(label=gettext_lazy("currency"), choices=CURRENCY_CHOICES)
    reason = inputs.text(label=gettext_lazy("reason"), max_length=200)
    valid_until = inputs.instant(label=gettext_lazy("valid until"))
    days = inputs.integer(label=gettext_lazy("days the credit lasts"), min_value=1, max_value=3650, initial=365)

    class Meta:
        model = Voucher
        fields = ("currency", "reason", "valid_until", "days")

    def clean_amount(self) -> Decimal:
        amount = self.cleaned_data["amount"]
        if amount <= 0:
            raise forms.ValidationError(_("The amount must be more than zero."))
        return amount

    def clean_valid_until(self) -> datetime:
        until = self.cleaned_data["valid_until"]
        if until <= clock.now():
            raise forms.ValidationError(_("The vouchers would have expired already."))
        return until


@admin.register(Voucher)
class VoucherDesk(Desk):
    """Codes that become gifted credit, once each. Made in batches."""

    addable = True
    refusals = (verbs.VoucherRefused,)
    select = ("gift__account__organization", "created_by")
    fieldsets = (
        (None, {"fields": (("code", "used"), ("amount", "reason"), ("until", "days"), ("created_by", "created"))}),
        (None, {"fields": ("gift_link",)}),
    )
    list_display = ("code", "amount", "reason", "until", "used", "customer")
    list_filter = ("currency", ("gift", admin.EmptyFieldListFilter), "valid_until")
    search_fields = ("code", "reason", "gift__account__organization__name")
    ordering = ("-created_at", "-pk")

    amount = show.money("amount_minor", gettext_lazy("amount"))
    until = show.instant("valid_until", gettext_lazy("valid until"))
    created = show.instant("created_at", gettext_lazy("created at"))
    customer = show.link("gift__account", gettext_lazy("account"))
    gift_link = show.link("gift", gettext_lazy("gifted credit"))

    @display(description=gettext_lazy("status"))
    def used(self, voucher: Voucher) -> str:
        if voucher.gift_id is not None:
            return show.label(_("redeemed"), "success")
        over = voucher.valid_until <= clock.now()
        return show.label(_("expired"), "danger") if over else show.label(_("open"), "info")

    def get_fieldsets(self, request: HttpRequest, obj: Voucher | None = None) -> Any:
        if obj is None:
            fields = (("count", "amount"), ("currency", "reason"), ("valid_until", "days"))
            return ((None, {"fields": fields}),)
        return super().get_fieldsets(request, obj)

    def get_form(self, request: HttpRequest, obj: Voucher | None = None, change: bool = False, **kwargs: Any) -> Any:
        return BatchForm if obj is None else super().get_form(request, obj, change, **kwargs)

    def save_model(self, request: HttpRequest, obj: Voucher, form: Any, change: bool) -> None:
        data = form.cleaned_data
        made = verbs.create_vouchers(
            count=data["count"],
            amount_minor=minor(data["amount"], data["currency"]),
            currency=data["currency"],
            reason=data["reason"],
            valid_until=data["valid_until"],
            days=data["days"],
            at=clock.now(),
            actor=request.user,  # type: ignore[arg-type]
        )
        obj.pk, obj.code = made[0].pk, made[0].code
        request.made_vouchers = len(made)  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: Voucher, post_url_continue: str | None = None) -> HttpResponse:
        told = _("%(count)s vouchers were made.") % {"count": getattr(request, "made_vouchers", 1)}
        self.message_user(request, told, messages.SUCCESS)
        return redirect("admin:billing_voucher_changelist")
