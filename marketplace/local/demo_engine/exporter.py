"""What the cards do, as their vendor's exporter would print it: dcgm-exporter's series, or NPU-Exporter's for Ascend.

No card is here to be measured, so the figures follow from what does happen: every shell or command that is open on the
machine counts as a quarter of each card and some of its memory; with none they are zero. Temperature and power, of
which nothing is known, are not published. Every series says demo="true".
"""

from collections.abc import Iterator
from typing import Any

from marketplace.local.demo_engine.store import Machine

BUSY_A_SESSION = 25  # percent
MIB_A_SESSION = 2048


def text(machine: Machine, *, sessions: int) -> str:
    """The exporter's whole answer for one machine."""
    series = _npu if is_ascend(machine) else _dcgm
    return "".join(series(machine, min(100, BUSY_A_SESSION * sessions), MIB_A_SESSION * sessions))


def is_ascend(machine: Machine) -> bool:
    return machine.vendor.lower() in {"huawei", "ascend"}


def _dcgm(machine: Machine, busy: int, used: int) -> Iterator[str]:
    def labels(at: int, card: dict[str, Any]) -> dict[str, str]:
        return {
            "gpu": str(at), "UUID": card["serial"], "device": f"nvidia{at}", "modelName": card["model"],
            "Hostname": machine.hostname, "demo": "true",
        }  # fmt: skip

    cards = [(labels(at, card), card) for at, card in enumerate(machine.cards_inside)]
    total = {card["serial"]: (card["memory_gb"] or 0) * 1024 for _labels, card in cards}
    yield from _gauge("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", [(own, busy) for own, _ in cards])
    sizes = [(own, total[card["serial"]]) for own, card in cards if total[card["serial"]]]
    yield from _gauge(
        "DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", [(own, min(used, size)) for own, size in sizes]
    )
    yield from _gauge(
        "DCGM_FI_DEV_FB_FREE",
        "Framebuffer memory free (in MiB).",
        [(own, size - min(used, size)) for own, size in sizes],
    )


def _npu(machine: Machine, busy: int, used: int) -> Iterator[str]:
    def labels(at: int, card: dict[str, Any]) -> dict[str, str]:
        return {
            "container_name": "", "id": str(at), "model_name": card["model"], "namespace": "", "pod_name": "",
            "vdie_id": card["serial"], "demo": "true",
        }  # fmt: skip

    cards = [(labels(at, card), (card["memory_gb"] or 0) * 1024) for at, card in enumerate(machine.cards_inside)]
    yield from _gauge("npu_chip_info_utilization", "the ai core utilization", [(own, busy) for own, _ in cards])
    sizes = [(own, size) for own, size in cards if size]
    yield from _gauge("npu_chip_info_hbm_total_memory", "the npu hbm total memory", sizes)
    yield from _gauge(
        "npu_chip_info_hbm_used_memory", "the npu hbm used memory", [(own, min(used, size)) for own, size in sizes]
    )


def _gauge(name: str, meaning: str, values: list[tuple[dict[str, str], int]]) -> Iterator[str]:
    yield f"# HELP {name} {meaning}\n# TYPE {name} gauge\n"
    for labels, value in values:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{{{inside}}} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
