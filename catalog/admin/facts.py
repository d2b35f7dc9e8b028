"""Desks for places, accelerators, their sources and images."""

from typing import Any

from django.contrib import admin
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy
from unfold.decorators import display

from catalog.models import GpuModel, Image, Region, Source
from marketplace.desk import show
from marketplace.desk.base import Desk


@admin.register(Region)
class RegionDesk(Desk):
    """Places. Facts come from the catalogue's files; whether we sell there and what is said of data, decided here."""

    editable = (
        "enabled", "has_machine_room", "data_stays_zh", "data_stays_en", "crossing", "crossing_zh", "crossing_en",
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": ("code", "name_zh", "name_en", "admin_code", "timezone")}),
        (gettext_lazy("Decided here"), {"fields": ("enabled", "has_machine_room", "is_default")}),
        (
            gettext_lazy("Where data stays"),
            {"fields": ("data_stays_zh", "data_stays_en", "crossing", "crossing_zh", "crossing_en")},
        ),
        (gettext_lazy("Where the facts come from"), {"fields": ("basis",)}),
    )
    list_display = ("code", "name_zh", "name_en", "crossing", "has_machine_room", "enabled", "is_default")
    list_filter = ("enabled", "has_machine_room", "crossing")
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
