"""The desk for what is sold and what it is made of."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import Count, F, Q, QuerySet, Sum
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display

from catalog import actions as verbs
from catalog.models import Allocation, Gpu, GpuModel, Host, Image, Offer, Pool, Price, Region, Reservation, Source
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, Rows, bulk, button
from marketplace.lib import clock

HOST_STATES = {"active": "success", "draining": "warning", "offline": "danger"}


@admin.register(Region)
class RegionDesk(Desk):
    """Places. Facts come from the catalogue's files; whether we sell there is decided here."""

    editable = ("enabled", "has_machine_room")
    fieldsets = (
        (None, {"fields": ("code", "name_zh", "name_en", "admin_code", "timezone")}),
        (gettext_lazy("Decided here"), {"fields": ("enabled", "has_machine_room", "is_default")}),
        (gettext_lazy("Where the facts come from"), {"fields": ("basis",)}),
    )
    list_display = ("code", "name_zh", "name_en", "has_machine_room", "enabled", "is_default")
    list_filter = ("enabled", "has_machine_room")
    search_fields = ("code", "name_zh", "name_en")


@admin.register(Source)
class SourceDesk(Desk):
    """Where figures come from."""

    fieldsets = ((None, {"fields": ("key", "url", "what", "grade")}),)
    list_display = ("key", "grade", "what")
    search_fields = ("key", "url", "what")
    ordering = ("key",)


FIGURES = (
    ("memory_gb", "memory_type"), ("memory_bandwidth_gbps", "tdp_watts"), ("bf16_tflops", "measured_bf16_tflops"),
    ("fp16_tflops", "tf32_tflops"), ("fp64_tflops", "fp32_tflops"), ("fp8_tflops", "fp4_tflops"),
    ("int8_tops", "form_factor"), ("interconnect_type", "interconnect_gbps"), ("host_bus", "host_bus_gbps"),
    ("release_year", "max_gpus_per_node"),
)  # fmt: skip


@admin.register(GpuModel)
class GpuModelDesk(Desk):
    """Accelerators with every figure and its source. They come from the catalogue's files and are corrected there."""

    fieldsets = (
        (None, {"fields": (("name", "slug"), ("vendor", "family"), ("architecture", "software_stack"), "aliases")}),
        (gettext_lazy("Sold as"), {"fields": (("rental_class", "domestic"), "quote_only")}),
        (gettext_lazy("Figures"), {"fields": FIGURES}),
        (gettext_lazy("Sources and doubts"), {"fields": ("sourced", "doubts", "notes")}),
    )
    list_display = ("name", "vendor", "family", "memory_gb", "bf16_tflops", "domestic", "quote_only", "doubtful")
    list_filter = ("vendor", "family", "domestic", "quote_only")
    search_fields = ("name", "slug", "aliases")

    @display(description=gettext_lazy("uncertain"), boolean=True)
    def doubtful(self, model: GpuModel) -> bool:
        return bool(model.uncertain)

    @display(description=gettext_lazy("Sources by figure"))
    def sourced(self, model: GpuModel) -> str:
        known = {source.key: source.url for source in Source.objects.all()}
        lines = ((field, self._keys(keys, known)) for field, keys in sorted(model.sources.items()))
        return format_html_join("", "<div>{}: {}</div>", lines) or show.DASH

    def _keys(self, keys: Any, known: dict[str, str]) -> str:
        named = [keys] if isinstance(keys, str) else list(keys)
        return format_html_join(", ", "{}", ((self._key(key, known.get(key, "")),) for key in named))

    def _key(self, key: str, url: str) -> str:
        if not url.startswith(("https://", "http://")):
            return key
        return format_html('<a class="text-link" rel="noopener noreferrer" href="{}">{}</a>', url, key)

    @display(description=gettext_lazy("Uncertain figures and why"))
    def doubts(self, model: GpuModel) -> str:
        return format_html_join("", "<div>{}: {}</div>", sorted(model.uncertain.items())) or show.DASH


@admin.register(Image)
class ImageDesk(Desk):
    """System images. What an image is comes from the catalogue's files; whether it is offered is decided here."""

    editable = ("enabled",)
    fieldsets = (
        (None, {"fields": ("name", "slug", "software_stack", "stack_version", "framework")}),
        (None, {"fields": ("operating_system", "driver_range", "digest", "enabled")}),
    )
    list_display = ("name", "software_stack", "stack_version", "framework", "operating_system", "enabled")
    list_filter = ("software_stack", "enabled")
    search_fields = ("name", "slug", "framework", "digest")


class PriceRows(Rows):
    model = Price
    fields = ("meter", "currency", "per_unit", "valid_from", "valid_to")
    ordering = ("meter", "currency", "-valid_from")
    show_change_link = True

    per_unit = show.rate("rate", gettext_lazy("rate"))


@admin.register(Offer)
class OfferDesk(Desk):
    """What can be bought. Sizes come from the catalogue's files; whether and how it is sold is decided here."""

    editable = ("enabled", "quote_only", "cooling", "isolation", "sla_percent", "response_minutes")
    select = ("gpu_model", "region", "pool")
    fieldsets = (
        (None, {"fields": (("slug", "kind"), ("region", "pool"), ("gpu_model", "cards_per_unit"))}),
        (gettext_lazy("Decided here"), {"fields": editable}),
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


class HostRows(Rows):
    model = Host
    fields = ("name", "status_label", "cards_total", "cards_free", "fabric_group")
    show_change_link = True

    status_label = show.badge("state", gettext_lazy("state"), HOST_STATES)


@admin.register(Pool)
class PoolDesk(Desk):
    """Hosts behind one engine. Pausing stops selling and engine calls; what runs goes on."""

    editable = ("paused_reason",)
    select = ("region", "gpu_model")
    fieldsets = (
        (None, {"fields": ("code", "region", "gpu_model", "stock")}),
        (gettext_lazy("Pausing"), {"fields": ("paused_reason",)}),
        (gettext_lazy("Engine"), {"fields": ("driver", "endpoint", "credential_ref", "resource_name")}),
    )
    inlines = (HostRows,)
    # Whoever names an engine's address and secret decides where that secret is sent.
    for_superusers = frozenset({"driver", "endpoint", "credential_ref", "resource_name"})
    list_display = ("code", "region", "gpu_model", "hosts_count", "total", "free", "sold", "paused")
    list_filter = ("region", "driver", "gpu_model__family")
    search_fields = ("code", "gpu_model__name", "paused_reason")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Pool]:
        active = Q(hosts__state=Host.State.ACTIVE)
        return (
            super()
            .get_queryset(request)
            .annotate(
                host_count=Count("hosts"),
                cards=Sum("hosts__cards_total", default=0),
                free_cards=Sum("hosts__cards_free", filter=active, default=0),
            )
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Pool | None = None) -> Any:
        fields = super().get_readonly_fields(request, obj)
        return [name for name in fields if not (request.user.is_superuser and name in self.for_superusers)]

    @display(description=gettext_lazy("hosts"), ordering="host_count")
    def hosts_count(self, pool: Pool) -> int:
        return pool.host_count

    @display(description=gettext_lazy("cards"), ordering="cards")
    def total(self, pool: Pool) -> int:
        return pool.cards

    @display(description=gettext_lazy("free cards"), ordering="free_cards")
    def free(self, pool: Pool) -> int:
        return pool.free_cards

    @display(description=gettext_lazy("not free"), ordering=F("cards") - F("free_cards"))
    def sold(self, pool: Pool) -> int:
        return pool.cards - pool.free_cards

    @display(description=gettext_lazy("paused because"), ordering="paused_reason")
    def paused(self, pool: Pool) -> str:
        return pool.paused_reason or show.DASH

    @display(description=gettext_lazy("Stock"))
    def stock(self, pool: Pool) -> str:
        return _("%(free)d of %(total)d cards are free on active hosts.") % {
            "free": pool.free_cards,
            "total": pool.cards,
        }


class CardRows(Rows):
    model = Gpu
    fields = ("slot", "serial", "holder", "healthy")
    show_change_link = True


@admin.register(Host)
class HostDesk(Desk):
    """Machines. Counters move with claims; the state is changed by the buttons."""

    buttons = ("activate", "drain", "take_offline")
    actions = (
        bulk("activate", gettext_lazy("Sell again")),
        bulk("drain", gettext_lazy("Drain")),
        bulk("take_offline", gettext_lazy("Take offline")),
    )
    select = ("pool__region",)
    fieldsets = (
        (None, {"fields": (("name", "pool"), ("status_label", "fabric_group"), ("cards_total", "cards_free"))}),
        (gettext_lazy("What belongs to it"), {"fields": ("elsewhere",)}),
    )
    inlines = (CardRows,)
    list_display = ("name", "pool", "status_label", "cards_total", "cards_free", "fabric_group")
    list_filter = ("state", "pool__region", "pool")
    search_fields = ("name", "pool__code", "fabric_group", "gpus__serial")

    status_label = show.badge("state", gettext_lazy("state"), HOST_STATES)

    @display(description=gettext_lazy("Lists"))
    def elsewhere(self, host: Host) -> str:
        return show.list_of(Allocation, Allocation._meta.verbose_name_plural, gpu__host__id__exact=host.pk)

    @button(gettext_lazy("Sell again"), shown=lambda host: host.state != Host.State.ACTIVE)
    def activate(self, request: HttpRequest, host: Host) -> str:
        return self._set(host, Host.State.ACTIVE)

    @button(
        gettext_lazy("Drain"),
        explain=gettext_lazy("Nothing new is placed on this host; what runs on it goes on."),
        shown=lambda host: host.state != Host.State.DRAINING,
    )
    def drain(self, request: HttpRequest, host: Host) -> str:
        return self._set(host, Host.State.DRAINING)

    @button(
        gettext_lazy("Take offline"),
        explain=gettext_lazy("The host is not sold and counts as out of order. Rentals on it are not ended by this."),
        shown=lambda host: host.state != Host.State.OFFLINE,
        danger=True,
    )
    def take_offline(self, request: HttpRequest, host: Host) -> str:
        return self._set(host, Host.State.OFFLINE)

    def _set(self, host: Host, state: str) -> str:
        now = verbs.set_host_state(host_id=host.pk, state=state)
        return _("%(host)s is %(state)s now.") % {"host": now.name, "state": now.get_state_display()}


@admin.register(Gpu)
class GpuDesk(Desk):
    """Cards. A card that is out of order is not sold; whoever holds it keeps it."""

    buttons = ("mark_broken", "mark_healthy")
    actions = (bulk("mark_broken", gettext_lazy("Out of order")), bulk("mark_healthy", gettext_lazy("In order again")))
    select = ("host__pool",)
    fieldsets = ((None, {"fields": ("serial", "host", "slot", "healthy", "holder")}),)
    list_display = ("serial", "host", "pool", "slot", "healthy", "taken", "holder")
    list_filter = ("healthy", ("holder", admin.EmptyFieldListFilter), "host__pool")
    search_fields = ("serial", "host__name", "=holder")

    @display(description=gettext_lazy("pool"), ordering="host__pool__code")
    def pool(self, gpu: Gpu) -> str:
        return gpu.host.pool.code

    @display(description=gettext_lazy("taken"), boolean=True)
    def taken(self, gpu: Gpu) -> bool:
        return gpu.holder is not None

    @button(
        gettext_lazy("Out of order"),
        explain=gettext_lazy("The card is taken out of sale. A rental that holds it keeps it."),
        shown=lambda gpu: gpu.healthy,
    )
    def mark_broken(self, request: HttpRequest, gpu: Gpu) -> str:
        verbs.set_card_health(gpu_id=gpu.pk, healthy=False)
        return _("The card %(serial)s is out of sale.") % {"serial": gpu.serial}

    @button(gettext_lazy("In order again"), shown=lambda gpu: not gpu.healthy)
    def mark_healthy(self, request: HttpRequest, gpu: Gpu) -> str:
        verbs.set_card_health(gpu_id=gpu.pk, healthy=True)
        return _("The card %(serial)s is for sale again.") % {"serial": gpu.serial}


@admin.register(Allocation)
class AllocationDesk(Desk):
    """Who had which card when. History, written by claims and releases alone."""

    select = ("gpu__host",)
    fieldsets = ((None, {"fields": ("gpu", "held", "holder")}),)
    list_display = ("gpu", "host", "held", "holder")
    list_filter = ("gpu__host__pool",)
    search_fields = ("gpu__serial", "gpu__host__name", "=holder")
    ordering = ("-pk",)

    held = show.period("period", gettext_lazy("period"))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup == "gpu__host__id__exact" or super().lookup_allowed(lookup, value, request)

    @display(description=gettext_lazy("host"), ordering="gpu__host__name")
    def host(self, allocation: Allocation) -> str:
        return allocation.gpu.host.name


class ReservationForm(forms.ModelForm):
    """The promised time as two moments."""

    starts = inputs.instant(label=gettext_lazy("From (inclusive)"))
    ends = inputs.instant(label=gettext_lazy("To (exclusive)"))

    class Meta:
        model = Reservation
        fields = ("pool", "cards", "note")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            for name, at in (("starts", self.instance.period.lower), ("ends", self.instance.period.upper)):
                self.initial.setdefault(name, at and timezone.localtime(at))

    def clean(self) -> dict[str, Any]:
        values = super().clean()
        starts, ends = values.get("starts"), values.get("ends")
        if starts and ends and ends <= starts:
            self.add_error("ends", _("The end has to be after the start."))
        elif starts and ends:
            self.instance.period = DateTimeTZRange(starts, ends)
        return values


@admin.register(Reservation)
class ReservationDesk(Desk):
    """Cards promised for later. A sale that would break a promise is refused."""

    form = ReservationForm
    addable = True
    editable = ("cards", "starts", "ends", "note")
    select = ("pool",)
    fieldsets = ((None, {"fields": ("pool", "cards", ("starts", "ends"), "note")}),)
    list_display = ("pool", "cards", "promised", "note")
    list_filter = ("pool",)
    search_fields = ("pool__code", "note")
    ordering = ("-pk",)

    promised = show.period("period", gettext_lazy("period"))
