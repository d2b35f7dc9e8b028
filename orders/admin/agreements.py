"""The sales desk for what is agreed apart from orders: volume tiers, commitments, packs, services, and refunds."""

from __future__ import annotations

import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display
from unfold.widgets import UnfoldAdminDecimalFieldWidget, UnfoldAdminIntegerFieldWidget

from accounts.models import Organization, Project
from catalog.models import GpuModel
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, Rows, button
from marketplace.lib import clock, money
from orders import actions as verbs
from orders.models import Commitment, Pack, PackDraw, Service, TermRefund, TermRefundLine, VolumeTier


def default_project(organization: Organization) -> Project:
    return organization.projects.get(is_default=True)


def classes() -> list[tuple[str, str]]:
    """The classes of cards that the catalogue knows."""
    names = GpuModel.objects.order_by("rental_class").values_list("rental_class", flat=True).distinct()
    return [(name, name) for name in names]


class DatedForm(forms.ModelForm):
    """Begins now or later and ends after now; what has been charged by it stays true."""

    def clean_valid_from(self) -> datetime:
        start = self.cleaned_data["valid_from"]
        if start < clock.now():
            raise forms.ValidationError(_("It cannot begin in the past."))
        return start

    def clean_valid_to(self) -> datetime | None:
        end = self.cleaned_data["valid_to"]
        if end is not None and "valid_to" in self.changed_data and end < clock.now():
            raise forms.ValidationError(_("It cannot end in the past."))
        return end


class VolumeTierForm(DatedForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "gpu_class" in self.fields:
            self.fields["gpu_class"] = inputs.choice(label=self.fields["gpu_class"].label, choices=classes())


@admin.register(VolumeTier)
class VolumeTierDesk(Desk):
    """Volume tiers. One that has begun keeps its figures for ever; only its end may move. It counts from the first
    month that begins after it."""

    form = VolumeTierForm
    addable = True
    editable = ("valid_to",)
    select = ("organization",)
    autocomplete_fields = ("organization",)
    fieldsets = (
        (
            None,
            {"fields": ("organization", "gpu_class", "from_card_hours", "discount_percent", "valid_from", "valid_to")},
        ),
    )
    list_display = ("gpu_class", "from_card_hours", "discount_percent", "customer", "since", "until")
    list_filter = ("gpu_class",)
    search_fields = ("organization__name", "gpu_class")
    ordering = ("gpu_class", "from_card_hours", "-valid_from")

    customer = show.link("organization", gettext_lazy("organization"))
    since = show.instant("valid_from", gettext_lazy("valid from"))
    until = show.instant("valid_to", gettext_lazy("valid to"))


class MadeByAnAction(Desk):
    """A desk whose new rows are made by their action, so that everything that goes with them comes too."""

    addable = True

    def save_model(self, request: HttpRequest, obj: Model, form: forms.ModelForm, change: bool) -> None:
        """Saved already where it is new."""
        if change:
            super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: forms.ModelForm, formsets: Any, change: bool) -> None:
        """A new row has nothing beside it yet."""

    def get_inlines(self, request: HttpRequest, obj: Model | None) -> Any:
        return self.inlines if obj else ()

    def response_add(self, request: HttpRequest, obj: Model, post_url_continue: str | None = None) -> HttpResponse:
        self.message_user(request, _("Done: %(what)s.") % {"what": str(obj)})
        return HttpResponseRedirect(show.page_of(obj))


class CommitmentForm(DatedForm):
    amount = forms.DecimalField(
        label=gettext_lazy("A month at least, tax included"),
        min_value=Decimal("0.01"),
        max_digits=14,
        decimal_places=2,
        widget=UnfoldAdminDecimalFieldWidget,
    )

    class Meta:
        model = Commitment
        fields = ("organization", "valid_from", "valid_to")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields.pop("amount", None)


@admin.register(Commitment)
class CommitmentDesk(Desk):
    """Minimum commitments. One that has begun keeps its amount; only its end may move."""

    form = CommitmentForm
    addable = True
    editable = ("valid_to",)
    select = ("organization",)
    autocomplete_fields = ("organization",)
    add_fieldsets = ((None, {"fields": ("organization", "amount", "valid_from", "valid_to")}),)
    fieldsets = (
        (None, {"fields": (("customer", "monthly"), ("tax_percent", "tax_code"), ("valid_from", "valid_to"))}),
    )
    list_display = ("customer", "monthly", "since", "until")
    search_fields = ("organization__name",)
    ordering = ("-valid_from",)

    customer = show.link("organization", gettext_lazy("organization"))
    monthly = show.money("amount_minor", gettext_lazy("a month at least"))
    since = show.instant("valid_from", gettext_lazy("valid from"))
    until = show.instant("valid_to", gettext_lazy("valid to"))

    def save_model(self, request: HttpRequest, obj: Commitment, form: forms.ModelForm, change: bool) -> None:
        if not change:
            obj.currency = obj.organization.currency
            obj.amount_minor = money.minor(form.cleaned_data["amount"], obj.currency)
            obj.tax_percent, obj.tax_code = Decimal(settings.TAX_PERCENT), settings.TAX_CODE
        super().save_model(request, obj, form, change)


class PackForm(forms.ModelForm):
    card_hours = forms.IntegerField(
        label=gettext_lazy("Card-hours"), min_value=1, max_value=100_000_000, widget=UnfoldAdminIntegerFieldWidget
    )
    price = forms.DecimalField(
        label=gettext_lazy("Price, tax included"),
        min_value=Decimal("0.01"),
        max_digits=14,
        decimal_places=2,
        widget=UnfoldAdminDecimalFieldWidget,
    )

    class Meta:
        model = Pack
        fields = ("organization", "gpu_class", "months")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "gpu_class" in self.fields:
            self.fields["gpu_class"] = inputs.choice(label=self.fields["gpu_class"].label, choices=classes())


class PackDrawRows(Rows):
    model = PackDraw
    fields = ("when", "fact", "card_seconds")
    verbose_name_plural = gettext_lazy("What was drawn")

    when = show.instant("at", gettext_lazy("When"))


@admin.register(Pack)
class PackDesk(MadeByAnAction):
    """Packs of card-hours: sold as an order that is paid in advance, drawn from by the monthly invoices."""

    form = PackForm
    select = ("organization", "order")
    autocomplete_fields = ("organization",)
    add_fieldsets = ((None, {"fields": ("organization", "gpu_class", "card_hours", "price", "months")}),)
    fieldsets = (
        (
            None,
            {"fields": (("customer", "order_link"), ("gpu_class", "hours", "left"), ("amount", "since", "until"))},
        ),
    )
    inlines = (PackDrawRows,)
    list_display = ("customer", "gpu_class", "hours", "left", "amount", "since", "until", "order_link")
    list_filter = ("gpu_class",)
    search_fields = ("organization__name",)
    ordering = ("-pk",)

    customer = show.link("organization", gettext_lazy("organization"))
    order_link = show.link("order", gettext_lazy("order"))
    amount = show.money("price_minor", gettext_lazy("price"), currency="order__currency")
    since = show.instant("starts_at", gettext_lazy("valid from"))
    until = show.instant("expires_at", gettext_lazy("expires at"))

    @display(description=gettext_lazy("card-hours"))
    def hours(self, pack: Pack) -> str:
        return f"{pack.card_hours:,}"

    @display(description=gettext_lazy("card-hours left"))
    def left(self, pack: Pack) -> str:
        return f"{Decimal(pack.left_seconds) / 3600:,.2f}"

    def save_form(self, request: HttpRequest, form: forms.ModelForm, change: bool) -> Pack:
        organization: Organization = form.cleaned_data["organization"]
        order = verbs.sell_pack(
            organization=organization,
            project=default_project(organization),
            actor=request.user,
            request_key=uuid.uuid4().hex,
            gpu_class=form.cleaned_data["gpu_class"],
            card_hours=form.cleaned_data["card_hours"],
            price_minor=money.minor(form.cleaned_data["price"], organization.currency),
            months=form.cleaned_data["months"],
            at=clock.now(),
        )
        return order.pack


class ServiceForm(forms.ModelForm):
    class Meta:
        model = Service
        fields = (
            "organization", "quote", "title_zh", "title_en", "interval", "quantity", "rate", "tax_percent", "tax_code",
            "starts_on", "ends_on",
        )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        organization, quote = data.get("organization"), data.get("quote")
        if organization and quote and quote.organization_id != organization.pk:
            self.add_error("quote", _("This quote is another organization's."))
        start, end = data.get("starts_on"), data.get("ends_on")
        if end and (data.get("interval") == Service.Interval.ONCE or (start and end <= start)):
            self.add_error("ends_on", _("Only what recurs has an end, and that after its first day."))
        return data


class EndServiceForm(inputs.DeskForm):
    ends_on = forms.DateField(
        label=gettext_lazy("First day without it"),
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )


@admin.register(Service)
class ServiceDesk(MadeByAnAction):
    """Services that are charged once, monthly or yearly, each period in advance. Only the end may change."""

    form = ServiceForm
    buttons = ("end",)
    refusals = (verbs.AgreementRefused,)
    select = ("organization", "project", "quote")
    autocomplete_fields = ("organization", "quote")
    add_fieldsets = (
        (None, {"fields": ("organization", "quote", ("title_zh", "title_en"))}),
        (
            gettext_lazy("Price"),
            {"fields": (("interval", "quantity", "rate"), ("tax_percent", "tax_code"), ("starts_on", "ends_on"))},
        ),
    )
    fieldsets = (
        (None, {"fields": (("customer", "project"), ("title_zh", "title_en"), ("quote_link", "created_by"))}),
        (
            gettext_lazy("Price"),
            {"fields": (("interval", "quantity", "each"), ("tax_percent", "tax_code"), ("starts_on", "ends_on"))},
        ),
    )
    list_display = ("title_zh", "customer", "interval", "quantity", "each", "starts_on", "ends_on")
    list_filter = ("interval", "starts_on")
    search_fields = ("organization__name", "title_zh", "title_en")
    ordering = ("-starts_on", "-pk")

    customer = show.link("organization", gettext_lazy("organization"))
    quote_link = show.link("quote", gettext_lazy("quote"))
    each = show.rate("rate", gettext_lazy("unit price"))

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        usual = {"tax_percent": settings.TAX_PERCENT, "tax_code": settings.TAX_CODE, "quantity": 1}
        return {**usual, **super().get_changeform_initial_data(request)}

    def save_form(self, request: HttpRequest, form: forms.ModelForm, change: bool) -> Service:
        data = form.cleaned_data
        return verbs.add_service(
            project=default_project(data["organization"]), actor=request.user, at=clock.now(), **data
        )

    @button(
        gettext_lazy("End the service"),
        form=EndServiceForm,
        explain=gettext_lazy(
            "What has begun is charged whole. Of a period that begins later, the part until that day is charged."
        ),
        shown=lambda service: service.interval != Service.Interval.ONCE and service.ends_on is None,
    )
    def end(self, request: HttpRequest, service: Service, *, ends_on: date) -> str:
        verbs.end_service(service_id=service.pk, ends_on=ends_on, at=clock.now())
        return _("It is charged until the day before %(day)s.") % {"day": ends_on.isoformat()}


class TermRefundLineRows(Rows):
    model = TermRefundLine
    fields = ("order_link", "paid", "back", "credited")
    select = ("order_line__order", "refund")
    verbose_name_plural = gettext_lazy("Of which order")

    order_link = show.link("order_line__order", gettext_lazy("order"))
    paid = show.money("paid_minor", gettext_lazy("paid in advance"), currency="refund__currency")
    back = show.money("amount_minor", gettext_lazy("paid back"), currency="refund__currency")
    credited = show.instant("credited_at", gettext_lazy("credited at"))


@admin.register(TermRefund)
class TermRefundDesk(Desk):
    """Terms that ended early and what is paid back of them, by which rule. Credit notes are billing's."""

    select = ("organization", "actor")
    fieldsets = ((None, {"fields": (("customer", "by_rule"), ("paid", "back"), ("when", "actor"))}),)
    inlines = (TermRefundLineRows,)
    list_display = ("customer", "by_rule", "paid", "back", "when", "actor")
    list_filter = ("rule",)
    search_fields = ("organization__name",)
    ordering = ("-at", "-pk")

    customer = show.link("organization", gettext_lazy("organization"))
    by_rule = show.plain("rule", gettext_lazy("rule"))
    paid = show.money("paid_minor", gettext_lazy("paid in advance"))
    back = show.money("amount_minor", gettext_lazy("paid back"))
    when = show.instant("at", gettext_lazy("ended at"))
