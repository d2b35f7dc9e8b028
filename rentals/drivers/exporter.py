"""What the vendors' exporters say of each card, from their Prometheus text. Pure: no network, no clock.

NVIDIA's dcgm-exporter and Huawei's NPU-Exporter are read; names and units are theirs. A series that is missing, not a
number or out of its range is not published: None, never zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from prometheus_client.parser import text_string_to_metric_families

from rentals.drivers.base import CardReading

# Above any memory in MiB, temperature or power; DCGM marks what it does not know with numbers of this size.
BEYOND_BELIEF = 1 << 40
HUNDRED = Decimal(100)


class NotAnExporter(ValueError):
    """The text is not in the Prometheus format."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """Which labels name a card, in order of preference, and what its series mean.

    Where several series or several processes' copies of one say how busy a card is, the highest counts: a card on
    which one container works is not idle.
    """

    prefix: str
    serial: tuple[str, ...]
    index: str
    busy: tuple[str, ...]
    busy_as_ratio: tuple[str, ...]
    memory: Callable[[Mapping[str, Decimal]], tuple[Decimal | None, Decimal | None]]
    temperature: str
    power: str


def cards(text: str) -> tuple[CardReading, ...]:
    """Every card that the exporter reports, in order of its index. Raises NotAnExporter."""
    readings = [
        _reading(vendor, serial, index, values)
        for vendor in VENDORS
        for (serial, index), values in _by_card(vendor, text).items()
    ]
    return tuple(sorted(readings, key=lambda one: (one.index is None, one.index or 0, one.serial)))


def _by_card(vendor: Vendor, text: str) -> dict[tuple[str, int | None], dict[str, Decimal]]:
    found: dict[tuple[str, int | None], dict[str, Decimal]] = defaultdict(dict)
    for name, labels, value in _series(text):
        if not name.startswith(vendor.prefix):
            continue
        serial = next((labels[label] for label in vendor.serial if labels.get(label)), "")
        index = int(labels[vendor.index]) if labels.get(vendor.index, "").isdecimal() else None
        if serial or index is not None:
            values = found[serial, index]
            values[name] = max(value, values.get(name, value))
    return found


def _series(text: str) -> Iterator[tuple[str, dict[str, str], Decimal]]:
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                value = Decimal(str(sample.value))
                if value.is_finite() and 0 <= value < BEYOND_BELIEF:
                    yield sample.name, sample.labels, value
    except (ValueError, IndexError, KeyError) as error:
        raise NotAnExporter(str(error)[:200]) from None


def _reading(vendor: Vendor, serial: str, index: int | None, values: Mapping[str, Decimal]) -> CardReading:
    shares = [values[name] for name in vendor.busy if name in values]
    shares += [values[name] * HUNDRED for name in vendor.busy_as_ratio if name in values]
    believed = [share for share in shares if share <= HUNDRED]
    used, total = vendor.memory(values)
    return CardReading(
        serial=serial,
        index=index,
        busy=max(believed, default=None),
        memory_used=_whole(used),
        memory_total=_whole(total),
        temperature=_whole(values.get(vendor.temperature)),
        power=values.get(vendor.power),
    )


def _whole(value: Decimal | None) -> int | None:
    return None if value is None else int(value)


def _dcgm_memory(values: Mapping[str, Decimal]) -> tuple[Decimal | None, Decimal | None]:
    """Total is published by newer exporters only; else it is used, free and what the driver keeps for itself."""
    used, free = values.get("DCGM_FI_DEV_FB_USED"), values.get("DCGM_FI_DEV_FB_FREE")
    total = values.get("DCGM_FI_DEV_FB_TOTAL")
    if total is None and used is not None and free is not None:
        total = used + free + values.get("DCGM_FI_DEV_FB_RESERVED", Decimal(0))
    return used, total


def _npu_memory(values: Mapping[str, Decimal]) -> tuple[Decimal | None, Decimal | None]:
    """HBM where the chip has it (910 series), else DDR (310P); never one's used beside the other's total."""
    for kind in ("hbm_", ""):
        total = values.get(f"npu_chip_info_{kind}total_memory")
        if total:
            return values.get(f"npu_chip_info_{kind}used_memory"), total
    return None, None


VENDORS = (
    Vendor(
        prefix="DCGM_",
        serial=("DCGM_FI_DEV_SERIAL", "UUID"),
        index="gpu",
        busy=("DCGM_FI_DEV_GPU_UTIL",),
        busy_as_ratio=("DCGM_FI_PROF_GR_ENGINE_ACTIVE",),
        memory=_dcgm_memory,
        temperature="DCGM_FI_DEV_GPU_TEMP",
        power="DCGM_FI_DEV_POWER_USAGE",
    ),
    Vendor(
        prefix="npu_chip_info_",
        serial=("vdie_id",),
        index="id",
        busy=("npu_chip_info_utilization", "npu_chip_info_overall_utilization", "npu_chip_info_vector_utilization"),
        busy_as_ratio=(),
        memory=_npu_memory,
        temperature="npu_chip_info_temperature",
        power="npu_chip_info_power",
    ),
)
