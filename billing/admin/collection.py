"""Around the invoices: payments, what Stripe told us, billing accounts and the numbers."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display

from billing import actions as verbs
from billing import events, ledger
from billing.models import BillingAccount, Book, Invoice, NumberSeries, Payment, StripeEvent
from billing.remarks import remark_code
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, bulk, button
from marketplace.lib import clock
from marketplace.lib.money import format_minor, minor
from marketplace.lib.refusals import Refusal


@admin.register(Payment)
class PaymentDesk(Desk):
    """Money that arrived. Recorded once per reference, never edited."""

    select = ("invoice__organization", "recorded_by")
    fieldsets = ((None, {"fields": ("bill", "customer", "method", "reference", "amount", "received", "recorded_by")}),)
    list_display = ("reference", "method", "amount", "bill", "customer", "received", "recorded_by")
    list_filter = ("method", "currency", "received_at")
    search_fields = ("reference", "invoice__number", "invoice__organization__name")
    date_hierarchy = "received_at"
    ordering = ("-received_at", "-pk")

    bill = show.link("invoice", gettext_lazy("invoice"))
    customer = show.link("invoice__organization", gettext_lazy("organization"))
    amount = show.money("amount_minor", gettext_lazy("amount"))
    received = show.instant("received_at", gettext_lazy("received at"))


class NotApplied(Refusal):
    """The event still waits; what went wrong stands on it."""

    def __init__(self, event: StripeEvent) -> None:
        facts = {"event": event, "error": event.error}
        super().__init__(message=_("%(event)s could not be applied: %(error)s") % facts)


@admin.register(StripeEvent)
class StripeEventDesk(Desk):
    """What Stripe told us, stored before anything is done with it. A sweep applies it and keeps what went wrong."""

    buttons = ("apply_again",)
    actions = (bulk("apply_again", gettext_lazy("Apply the chosen ones again")),)
    refusals = (NotApplied,)
    fieldsets = (
        (None, {"fields": (("stripe_id", "type"), ("object_id", "state"))}),
        (None, {"fields": (("received", "processed"), ("attempts", "next_attempt"), "error")}),
        (gettext_lazy("payload"), {"fields": ("content",), "classes": ("collapse",)}),
    )
    list_display = ("stripe_id", "type", "object_id", "state", "received", "processed", "attempts", "error")
    list_filter = ("type", ("processed_at", admin.EmptyFieldListFilter), ("error", admin.EmptyFieldListFilter))
    search_fields = ("=stripe_id", "=object_id", "type", "error")
    date_hierarchy = "received_at"
    ordering = ("-received_at", "-pk")

    received = show.instant("received_at", gettext_lazy("received at"))
    processed = show.instant("processed_at", gettext_lazy("processed at"))
    next_attempt = show.instant("next_attempt_at", gettext_lazy("next attempt at"))

    @display(description=gettext_lazy("status"), ordering="processed_at")
    def state(self, event: StripeEvent) -> str:
        if event.processed_at is not None:
            return show.label(_("applied"), "success")
        return show.label(_("failing"), "danger") if event.error else show.label(_("waiting"), "info")

    @display(description=gettext_lazy("payload"))
    def content(self, event: StripeEvent) -> str:
        text = json.dumps(event.payload, ensure_ascii=False, indent=2, sort_keys=True)
        return format_html('<pre class="desk-text">{}</pre>', text)

    @button(gettext_lazy("Apply again"), shown=lambda event: event.processed_at is None)
    def apply_again(self, request: HttpRequest, event: StripeEvent) -> str:
        if not events.apply_again(event_id=event.pk, at=clock.now()):
            event.refresh_from_db()
            raise NotApplied(event)
        return _("%(event)s is applied.") % {"event": event}


class GiftForm(inputs.DeskForm):
    amount = inputs.decimal(label=gettext_lazy("Amount"), max_digits=12, decimal_places=2, min_value=Decimal("0.01"))
    reason = inputs.text(
        label=gettext_lazy("What for"), max_length=200, help_text=gettext_lazy("The customer reads this.")
    )
    expires_at = inputs.instant(label=gettext_lazy("expires at"), required=False)
    # Two presses of one form are one gift.
    request_key = forms.CharField(widget=forms.HiddenInput, max_length=64)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial.setdefault("request_key", str(uuid4()))


@admin.register(BillingAccount)
class BillingAccountDesk(Desk):
    """How customers are billed, and what they hold with us."""

    buttons = ("gift",)
    refusals = (verbs.GiftRefused,)
    select = ("organization",)
    fieldsets = (
        (None, {"fields": ("customer", "email", "stripe_customer_id", "elsewhere")}),
        (gettext_lazy("Balance"), {"fields": (("wallet", "gifts"), "remark")}),
    )
    list_display = ("customer", "email", "stripe_customer_id")
    list_display_links = ("email",)
    search_fields = ("organization__name", "email", "=stripe_customer_id")
    ordering = ("organization__name",)

    customer = show.link("organization", gettext_lazy("organization"))

    @display(description=gettext_lazy("Lists"))
    def elsewhere(self, account: BillingAccount) -> str:
        return show.list_of(Invoice, Invoice._meta.verbose_name_plural, organization__id__exact=account.organization_id)

    @display(description=gettext_lazy("balance"))
    def wallet(self, account: BillingAccount) -> str:
        return format_minor(ledger.balance(account, Book.WALLET), account.organization.currency)

    @display(description=gettext_lazy("gifted credit"))
    def gifts(self, account: BillingAccount) -> str:
        return format_minor(ledger.balance(account, Book.GIFT), account.organization.currency)

    @display(description=gettext_lazy("remark code"))
    def remark(self, account: BillingAccount) -> str:
        return remark_code(account)

    @button(
        gettext_lazy("Gift credit"),
        form=GiftForm,
        explain=gettext_lazy("Spent before the balance, not refundable and on no fapiao."),
    )
    def gift(
        self,
        request: HttpRequest,
        account: BillingAccount,
        *,
        amount: Decimal,
        reason: str,
        expires_at: datetime | None,
        request_key: str,
    ) -> str:
        currency = account.organization.currency
        given = verbs.grant_gift(
            organization=account.organization,
            amount_minor=minor(amount, currency),
            reason=reason,
            request_key=request_key,
            at=clock.now(),
            expires_at=expires_at,
            actor=request.user,  # type: ignore[arg-type]
        )
        return _("%(amount)s was given.") % {"amount": format_minor(given.amount_minor, currency)}


@admin.register(NumberSeries)
class NumberSeriesDesk(Desk):
    """The next number of each series. Taken by the transaction that issues, so that no gap can form."""

    fieldsets = ((None, {"fields": ("series", "year", "next_number")}),)
    list_display = ("series", "year", "next_number")
    list_filter = ("series",)
    ordering = ("-year", "series")
