"""Desks for what is sold and at which price."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display

from catalog import actions as verbs
from catalog.models import ContractPrice, Offer, Price
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, Rows, button
from marketplace.lib import clock
from marketplace.lib.money import format_rate


class PriceRows(Rows):
    model = Price
    fields = ("meter", "currency", "per_unit", "valid_from", "valid_to")
    ordering = ("meter", "currency", "-valid_from")
    show_change_link = True

    per_unit = show.rate("rate", gettext_lazy("rate"))


@admin.register(Offer)
class OfferDesk(Desk):
    """What can be bought. Sizes come from the catalogue's files; whether and how it is sold is decided here."""

    editable = (
        "enabled", "quote_only", "cooling", "isolation", "sla_percent", "response_minutes", "fabric_report",
        "fabric_tested_on",
    )  # fmt: skip
    select = ("gpu_model", "region", "pool")
    fieldsets = (
        (None, {"fields": (("slug", "kind"), ("region", "pool"), ("gpu_model", "cards_per_unit"))}),
        (gettext_lazy("Decided here"), {"fields": editable[:6]}),
        (gettext_lazy("A unit has"), {"fields": ("vcpus", "memory_gb", "disk_gb")}),
        (
            gettext_lazy("Fabric"),
            {"fields": ("fabric", "fabric_gbps", "fabric_basis", "fabric_report", "fabric_tested_on")},
        ),
    )
    inlines = (PriceRows,)
    list_display = ("slug", "model_name", "cards_per_unit", "region", "kind", "pool", "quote_only", "enabled")
    list_filter = ("enabled", "quote_only", "kind", "region", "gpu_model__family")
    search_fields = ("slug", "gpu_model__name", "pool__code")

    @display(description=gettext_lazy("GPU model"), ordering="gpu_model__name")
    def model_name(self, offer: Offer) -> str:
        return offer.gpu_model.name if offer.gpu_model else show.DASH


class PriceForm(forms.ModelForm):
    """A price begins now or later and ends after now; what has been charged by it stays true."""

    def clean_valid_from(self) -> datetime:
        start = self.cleaned_data["valid_from"]
        if start < clock.now():
            raise forms.ValidationError(_("A price cannot begin in the past."))
        return start

    def clean_valid_to(self) -> datetime | None:
        end = self.cleaned_data["valid_to"]
        if end is not None and "valid_to" in self.changed_data and end < clock.now():
            raise forms.ValidationError(_("A price cannot end in the past."))
        return end


class NewRateForm(inputs.DeskForm):
    rate = inputs.decimal(label=gettext_lazy("New rate"), min_value=0, max_digits=20, decimal_places=10)
    valid_from = inputs.instant(label=gettext_lazy("Valid from"))


@admin.register(Price)
class PriceDesk(Desk):
    """Dated prices. One that has started keeps its rate for ever; only its end may move."""

    form = PriceForm
    addable = True
    editable = ("valid_to",)
    buttons = ("replace",)
    refusals = (verbs.CatalogRefused,)
    select = ("offer__gpu_model", "offer__region")
    autocomplete_fields = ("offer",)
    fieldsets = ((None, {"fields": ("offer", "meter", "currency", "rate", "valid_from", "valid_to")}),)
    list_display = ("product", "meter", "currency", "per_unit", "since", "until", "now")
    list_filter = ("meter", "currency", "offer__region", "offer__gpu_model__family")
    search_fields = ("offer__slug", "offer__gpu_model__name")
    date_hierarchy = "valid_from"
    ordering = ("offer__slug", "meter", "currency", "-valid_from")

    per_unit = show.rate("rate", gettext_lazy("rate"))
    since = show.instant("valid_from", gettext_lazy("valid from"))
    until = show.instant("valid_to", gettext_lazy("valid to"))

    @display(description=gettext_lazy("offer"), ordering="offer__slug")
    def product(self, price: Price) -> str:
        return price.offer.slug

    @display(description=gettext_lazy("In force"))
    def now(self, price: Price) -> str:
        at = clock.now()
        if price.valid_from > at:
            return show.label(_("planned"), "info")
        if price.valid_to is not None and price.valid_to <= at:
            return show.label(_("ended"))
        return show.label(_("in force"), "success")

    def get_readonly_fields(self, request: HttpRequest, obj: Price | None = None) -> Any:
        if obj is not None and obj.valid_from > clock.now():
            return ["offer", "meter", "currency"]
        return super().get_readonly_fields(request, obj)

    @button(
        gettext_lazy("New price from a date"),
        form=NewRateForm,
        explain=gettext_lazy(
            "This price ends at that moment and the new one begins. Orders and quotes keep the price they were made at."
        ),
        shown=lambda price: price.valid_to is None or price.valid_to > clock.now(),
    )
    def replace(self, request: HttpRequest, price: Price, *, rate: Decimal, valid_from: datetime) -> str:
        new = verbs.replace_price(price_id=price.pk, rate=rate, valid_from=valid_from, at=clock.now())
        self.log_addition(request, new, f"{price.rate} → {rate}")
        return _("The new price holds from %(at)s.") % {"at": show.moment(valid_from)}


class ContractPriceForm(PriceForm):
    """One target and one kind of price; the database holds both."""

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if "offer" in self.fields and bool(data.get("offer")) == bool(data.get("gpu_model")):
            self.add_error("gpu_model", _("Choose an offer or a GPU model, not both."))
        if "rate" in self.fields and (data.get("rate") is None) == (data.get("discount_percent") is None):
            self.add_error("discount_percent", _("Give a rate or a discount, not both."))
        return data


@admin.register(ContractPrice)
class ContractPriceDesk(Desk):
    """Prices agreed with one organization. One that has started keeps its figures; only its end may move."""

    form = ContractPriceForm
    addable = True
    editable = ("valid_to",)
    select = ("organization", "offer__gpu_model", "offer__region", "gpu_model")
    autocomplete_fields = ("organization", "offer", "gpu_model")
    fieldsets = (
        (None, {"fields": ("organization", ("offer", "gpu_model"), ("meter", "currency"))}),
        (gettext_lazy("Price"), {"fields": (("rate", "discount_percent"), ("valid_from", "valid_to"))}),
    )
    list_display = ("customer", "target", "meter", "currency", "per_unit", "discount_percent", "since", "until")
    list_filter = ("meter", "currency")
    search_fields = ("organization__name", "offer__slug", "gpu_model__name")
    ordering = ("organization__name", "meter", "-valid_from")

    customer = show.link("organization", gettext_lazy("organization"))
    since = show.instant("valid_from", gettext_lazy("valid from"))
    until = show.instant("valid_to", gettext_lazy("valid to"))

    @display(description=gettext_lazy("offer or model"))
    def target(self, price: ContractPrice) -> str:
        return price.offer.slug if price.offer else price.gpu_model.name if price.gpu_model else show.DASH

    @display(description=gettext_lazy("rate"))
    def per_unit(self, price: ContractPrice) -> str:
        return format_rate(price.rate, price.currency) if price.rate is not None else show.DASH
