"""Search words as people type them, read into what the catalogue knows. Pure."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

# More than anybody types; the rest of a longer text is not looked at.
MOST_WORDS = 8

_NAMES = {
    "昇腾": "ascend", "华为": "huawei", "英伟达": "nvidia", "海光": "hygon", "寒武纪": "cambricon",
    "摩尔线程": "moore threads", "沐曦": "metax",
}  # fmt: skip
# Words for what an offer is, not for what it is called.
_MEANINGS = {
    "裸金属": ("isolation", "bare_metal"), "bare metal": ("isolation", "bare_metal"),
    "虚拟机": ("isolation", "vm"), "虚机": ("isolation", "vm"), "vm": ("isolation", "vm"),
    "容器": ("isolation", "container"), "container": ("isolation", "container"),
    "集群": ("kind", "cluster"), "cluster": ("kind", "cluster"), "整机": ("kind", "server"),
    "whole server": ("kind", "server"),
    "液冷": ("cooling", "liquid"), "liquid": ("cooling", "liquid"), "风冷": ("cooling", "air"),
    "infiniband": ("fabric", "infiniband"), "ib": ("fabric", "infiniband"),
    "rocev2": ("fabric", "rocev2"), "roce": ("fabric", "rocev2"),
    "以太网": ("fabric", "ethernet"), "ethernet": ("fabric", "ethernet"),
    "nvlink": ("link", "nvlink"), "hccs": ("link", "hccs"), "pcie": ("link", "pcie"),
    "国产": ("domestic", "true"), "信创": ("domestic", "true"), "domestic": ("domestic", "true"),
}  # fmt: skip
# Say nothing that would tell one offer from another.
_NOISE = {"gpu", "gpus", "npu", "card", "cards", "rent"}
_NOISE_PARTS = re.compile("显卡|服务器|算力|租赁|租用|出租|卡|租")

_NUMERALS = {"单": 1, "一": 1, "双": 2, "两": 2, "二": 2, "四": 4, "八": 8}
_SIZE = re.compile(
    r"(?<![\w.-])(?P<cards>\d{1,3})\s*(?:卡|张|块|cards?\b|gpus?\b)|(?P<numeral>[单一双两二四八])[卡张块]"
    r"|×\s*(?P<times>\d{1,3})(?!\w)|(?<!\w)(?P<of>\d{1,3})\s*(?:×|x(?=\s|[a-z]))|(?<=\s)x(?P<by>\d{1,3})(?!\w)"
)
_PHRASE = re.compile("|".join(sorted((p for p in _MEANINGS if not p.isascii() or " " in p), key=len, reverse=True)))
_TOKEN = re.compile(r"[a-z0-9.+]+|[^\sa-z0-9.+_,，、;；·/()（）-]+")
_RUN = re.compile(r"\d+|[^\d]+")


@dataclass(frozen=True, slots=True)
class Search:
    """What a search text asks for: patterns that all have to be found in a name, and plain facts of the offer."""

    patterns: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    facts: dict[str, tuple[str, ...]] = field(default_factory=dict)


def read(text: str) -> Search:
    """“昇腾910b 8卡” as the patterns of “ascend” and “910b” and units of eight cards.

    Case, full-width signs, spaces and hyphens inside a name make no difference: “h 100”, “Ｈ１００”, “H-100” are one.
    """
    plain = unicodedata.normalize("NFKC", text).lower().replace("*", "×").replace("\0", "")
    sizes = tuple(dict.fromkeys(_size(found) for found in _SIZE.finditer(plain)))
    plain = _SIZE.sub(" ", plain)
    for name, latin in _NAMES.items():
        plain = plain.replace(name, f" {latin} ")
    phrases = _PHRASE.findall(plain)
    words = _words(_NOISE_PARTS.sub(" ", _PHRASE.sub(" ", plain)))
    facts: dict[str, dict[str, None]] = {}
    for fact, value in (_MEANINGS[word] for word in (*phrases, *words) if word in _MEANINGS):
        facts.setdefault(fact, {})[value] = None
    names = [word for word in words if word not in _MEANINGS and word not in _NOISE]
    return Search(
        tuple(_pattern(word) for word in dict.fromkeys(names[:MOST_WORDS])),
        tuple(size for size in sizes if size),
        {fact: tuple(values) for fact, values in facts.items()},
    )


def _size(found: re.Match[str]) -> int:
    groups = found.groupdict()
    if groups["numeral"]:
        return _NUMERALS[groups["numeral"]]
    return int(groups["cards"] or groups["times"] or groups["of"] or groups["by"])


def _words(plain: str) -> list[str]:
    """Letters and digits together; a lone letter belongs to the number beside it: “h 100” is h100, “910 b” is 910b."""
    words: list[str] = []
    for word in _TOKEN.findall(plain):
        before = words[-1] if words else ""
        lone = len(before) == 1 and before.isascii() and before.isalpha() and word[0].isdigit()
        behind = len(word) == 1 and word.isascii() and word.isalpha() and before[-1:].isdigit()
        if lone or behind:
            words[-1] += word
        else:
            words.append(word)
    return words


def _pattern(word: str) -> str:
    """A regular expression of PostgreSQL for the word: “a10” is not found in A100, “4090” not in 14090."""
    middle = "[ -]?".join(re.escape(run) for run in _RUN.findall(word))
    has_digit = any(letter.isdigit() for letter in word)
    before = r"(?<!\d)" if word[0].isdigit() else r"(?<![a-z])" if has_digit and word[0].isascii() else ""
    behind = r"(?!\d)" if word[-1].isdigit() else ""
    return before + middle + behind
