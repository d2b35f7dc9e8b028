"""Desks for what there is: pools, hosts, cards, and who has or will have them."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import Count, F, Q, QuerySet, Sum
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display

from catalog import actions as verbs
from catalog.models import Allocation, Gpu, Host, Pool, Reservation
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, Rows, bulk, button

HOST_STATES = {"active": "success", "draining": "warning", "offline": "danger"}


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
