"""Reading Lighthouse's reports, and judging a page by the median of its runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any
from urllib.parse import urlsplit

LOCAL_SCHEMES = {"data", "blob", "about"}


class Unusable(Exception):
    """A report without figures: the run failed."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one run, or the medians of several. Scores are 0–100, times milliseconds, `bytes` are as transferred."""

    performance: float
    accessibility: float
    best_practices: float
    seo: float
    lcp: float
    cls: float
    bytes: float
    strange_hosts: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Targets:
    """What a page must reach. `most_bytes` and `seo` are None where nothing is asked."""

    performance: float = 98
    accessibility: float = 100
    best_practices: float = 100
    seo: float | None = 100
    lcp_below: float = 1000
    cls: float = 0
    bytes_below: float | None = None

    def missed(self, figures: Figures) -> list[str]:
        """Each missed target with the value that misses it; empty where all are reached."""
        found = []
        for name in ("performance", "accessibility", "best_practices", "seo"):
            value, least = getattr(figures, name), getattr(self, name)
            if least is not None and value < least:
                found.append(f"{name.replace('_', ' ')} {value:g}, not {least:g}")
        if figures.lcp >= self.lcp_below:
            found.append(f"LCP {figures.lcp:.0f} ms, not below {self.lcp_below:.0f}")
        if figures.cls > self.cls:
            found.append(f"CLS {figures.cls:.3f}, not {self.cls:g}")
        if self.bytes_below is not None and figures.bytes >= self.bytes_below:
            found.append(f"{figures.bytes / 1000:.1f} kB, not below {self.bytes_below / 1000:.0f}")
        if figures.strange_hosts:
            found.append(f"requests to {', '.join(figures.strange_hosts)}")
        return found


def read(report: Mapping[str, Any]) -> Figures:
    """The figures of one report (Lighthouse's JSON). Raises Unusable where the run failed or a score is missing."""
    if error := report.get("runtimeError"):
        raise Unusable(error["message"])
    audits = report["audits"]
    requests = audits["network-requests"].get("details", {}).get("items")
    scores = [report["categories"][name]["score"] for name in ("performance", "accessibility", "best-practices", "seo")]
    if None in scores or not requests:
        raise Unusable("a score is missing")
    return Figures(
        *(round(100 * score) for score in scores),
        lcp=audits["largest-contentful-paint"]["numericValue"],
        cls=audits["cumulative-layout-shift"]["numericValue"],
        bytes=audits["total-byte-weight"]["numericValue"],
        strange_hosts=_strange_hosts(report["finalDisplayedUrl"], [one["url"] for one in requests]),
        faults=_faults(report),
    )


def middle(runs: Sequence[Figures]) -> Figures:
    """The median of each figure; a strange host or a fault counts if any run saw it."""
    numbers = {
        one.name: median(getattr(run, one.name) for run in runs) for one in fields(Figures) if one.type == "float"
    }
    return Figures(
        **numbers,
        strange_hosts=tuple(sorted({host for run in runs for host in run.strange_hosts})),
        faults=tuple(dict.fromkeys(fault for run in runs for fault in run.faults)),
    )


def _strange_hosts(page: str, urls: Sequence[str]) -> tuple[str, ...]:
    addresses = [urlsplit(url) for url in urls]
    hosts = {one.netloc for one in addresses if one.scheme not in LOCAL_SCHEMES}
    return tuple(sorted(hosts - {urlsplit(page).netloc}))


def _faults(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Audits that cost points in the three categories that are right or wrong, by their titles."""
    return tuple(
        report["audits"][reference["id"]]["title"]
        for name in ("accessibility", "best-practices", "seo")
        for reference in report["categories"][name]["auditRefs"]
        if reference["weight"] and (report["audits"][reference["id"]]["score"] or 0) < 1
        and report["audits"][reference["id"]]["scoreDisplayMode"] not in {"notApplicable", "manual", "informative"}
    )  # fmt: skip
