"""The pages that are measured."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from benchmarks.lighthouse.reports import Targets

OFFER = "rtx-4090-24gb-1x-fuzhou"
COMPARED = (OFFER, "h100-sxm5-80gb-8x-fuzhou", "ascend-910b3-64gb-8x-fuzhou")
QUESTION = {"purpose": "full", "params": "7", "tokens": "1", "deadline": "3"}
PUBLIC = Targets()


@dataclass(frozen=True, slots=True)
class Page:
    """`marker` stands in it when it shows what it is measured for; `member`: whether it is a customer's own."""

    name: str
    path: str
    marker: str
    targets: Targets = PUBLIC
    member: bool = False


PAGES = (
    Page("home", "/", "/gpus/"),
    Page("catalogue", "/gpus/", COMPARED[1], Targets(bytes_below=150_000)),
    Page("offer", f"/gpus/{OFFER}/", f"/order/{OFFER}/"),
    Page("guide", f"/guide/?{urlencode(QUESTION)}", 'id="plan-1"'),
    Page("compare", f"/gpus/compare/?{urlencode([('offer', slug) for slug in COMPARED])}", COMPARED[1]),
    Page("console", "/console/", "/console/rentals/", Targets(seo=None), member=True),
)
