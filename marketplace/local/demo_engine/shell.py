"""What a person can type on a demo machine: a fixed list of words, answered here. No command of the host runs."""

import json
import shlex
import time
from collections.abc import Callable

from marketplace.local.demo_engine.exporter import is_ascend
from marketplace.local.demo_engine.store import Machine

NOTICE = (
    "*** 演示机器：未连接任何 GPU / NPU，仅用于体验开通流程。 ***\n"
    "*** Demo machine: no GPU or NPU is attached. It only shows how renting works. ***\n"
)
PROMPT_TAIL = ":~# "

Answer = tuple[str, int]


def _memory(card: dict) -> str:
    return f"{card['memory_gb']} GB" if card.get("memory_gb") else "—"


def listing(machine: Machine) -> str:
    """The cards by model, serial and memory, under the words that say they are not here."""
    cards = machine.cards_inside
    lines = [f"分配的卡 / Cards given: {len(cards)}（演示 demo）"]
    lines += [f"  [{at}] {card['model']}  {card['serial']}  {_memory(card)}" for at, card in enumerate(cards)]
    return "\n".join(lines) + "\n"


def motd(machine: Machine) -> str:
    image = machine.image.get("framework") or machine.image.get("slug", "")
    size = f"{machine.vcpus} vCPU, {machine.memory_gb} GB RAM, {machine.disk_gb} GB disk"
    return (
        f"{NOTICE}{machine.hostname}: {image}; {size}\n{listing(machine)}输入 help 查看命令 / Type help for commands.\n"
    )


def _cards(machine: Machine, arguments: list[str]) -> Answer:
    if arguments == ["--json"]:
        return json.dumps({"demo": True, "cards": machine.cards_inside}, ensure_ascii=False) + "\n", 0
    if arguments:
        return "usage: cards [--json]\n", 2
    return NOTICE + listing(machine), 0


def _nvidia_smi(machine: Machine, arguments: list[str]) -> Answer:
    if arguments not in ([], ["-L"]):
        return "演示 demo: only `nvidia-smi -L` is answered here\n", 2
    lines = [
        f"GPU {at}: {card['model']} (UUID: {card['serial']}) [演示 demo]"
        for at, card in enumerate(machine.cards_inside)
    ]
    return NOTICE + "\n".join(lines) + "\n", 0


def _npu_smi(machine: Machine, arguments: list[str]) -> Answer:
    if arguments not in ([], ["info"]):
        return "演示 demo: only `npu-smi info` is answered here\n", 2
    lines = [f"NPU {at}  {card['model']}  {card['serial']} [演示 demo]" for at, card in enumerate(machine.cards_inside)]
    return NOTICE + "\n".join(lines) + "\n", 0


def _uptime(machine: Machine, arguments: list[str]) -> Answer:
    seconds = int(time.time() - (machine.running_since or time.time()))
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    return f"up {days} days, {hours:02}:{minutes:02}:{seconds % 60:02}（演示 demo）\n", 0


def _help(machine: Machine, arguments: list[str]) -> Answer:
    tool = "npu-smi info" if is_ascend(machine) else "nvidia-smi -L"
    return (
        f"{NOTICE}"
        "  cards [--json]   分配的卡 / the cards this machine was given\n"
        f"  {tool:<15}  同上 / the same, as the vendor's tool lists them\n"
        "  hostname, whoami, uptime, help, exit\n"
    ), 0


def _commands(machine: Machine) -> dict[str, Callable[[Machine, list[str]], Answer]]:
    vendor_tool = {"npu-smi": _npu_smi} if is_ascend(machine) else {"nvidia-smi": _nvidia_smi}
    return {
        "cards": _cards,
        "hostname": lambda machine, arguments: (machine.hostname + "\n", 0),
        "whoami": lambda machine, arguments: ("root\n", 0),
        "uptime": _uptime,
        "help": _help,
        "true": lambda machine, arguments: ("", 0),
        **vendor_tool,
    }


def answer(machine: Machine, line: str) -> Answer:
    """(text, exit code) for one typed line. An unknown word gets 127, as from a shell."""
    try:
        words = shlex.split(line)
    except ValueError:
        return "演示 demo: unbalanced quotes\n", 2
    if not words:
        return "", 0
    command = _commands(machine).get(words[0])
    if command is None:
        return f"{words[0][:80]}: 演示机器没有此命令 / not a command of this demo machine (help)\n", 127
    return command(machine, words[1:])
