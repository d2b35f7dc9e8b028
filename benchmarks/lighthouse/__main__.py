"""`python -m benchmarks.lighthouse [--only NAME]`: a table of the pages; exit status 1 when a target is missed.

RUNS in the environment is how often each page is loaded (5); the median counts.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from benchmarks.lighthouse import pages, reports, tool
from benchmarks.machine import PRODUCT, Machine
from benchmarks.table import Wrong
from marketplace.local.preflight import Problem

HEADINGS = ("page", "performance", "accessibility", "best practices", "SEO", "LCP ms", "CLS", "kB", "other hosts")
WIDTHS = (10, 11, 13, 14, 3, 6, 5, 5, 0)
# As many threads as the product is served with: a browser opens connections ahead of need.
THREADS = 4
# A run in which Chromium's trace was lost is repeated, a page that never gives a report is not.
ATTEMPTS = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lighthouse", description=__doc__)
    parser.add_argument("--only", choices=[page.name for page in pages.PAGES], help="measure this page alone")
    only = parser.parse_args().only
    # A polite end goes the same way as Ctrl-C: servers stopped, folder gone.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        missed = _measure([page for page in pages.PAGES if only in {None, page.name}], _runs())
    except (Problem, Wrong, tool.Failed) as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    for line in missed:
        print(line)
    print(f"lighthouse: {len(missed)} missed" if missed else "lighthouse: every target reached")
    return 1 if missed else 0


def cells(name: str, figures: reports.Figures) -> tuple[str, ...]:
    """A page's row of the table."""
    scores = (figures.performance, figures.accessibility, figures.best_practices, figures.seo)
    return (
        name,
        *(f"{score:g}" for score in scores),
        f"{figures.lcp:.0f}",
        f"{figures.cls:.3f}",
        f"{figures.bytes / 1000:.1f}",
        ", ".join(figures.strange_hosts) or "none",
    )


def line(of: tuple[str, ...]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(of, WIDTHS, strict=True)).rstrip()


def _runs() -> int:
    text = os.environ.get("RUNS") or "5"
    if not text.isdigit() or not int(text):
        raise Problem(f"RUNS must be a number from 1 on, not {text}.")
    return int(text)


def _measure(wanted: list[pages.Page], runs: int) -> list[str]:
    """Print a row for each page and return every missed target."""
    lighthouse = tool.Lighthouse()
    missed = []
    with Machine() as machine:
        from django.core.management import call_command  # noqa: PLC0415 - needs the Django that the machine sets up

        from benchmarks.lighthouse import customer  # noqa: PLC0415

        with (machine.folder / "trust.log").open("w") as log:
            call_command("load_trust", stdout=log)
        headers = {"Cookie": customer.cookie()}
        web = machine.web(PRODUCT, threads=THREADS)
        print(line(HEADINGS), flush=True)
        for page in wanted:
            own = headers if page.member else {}
            _check(web.url + page.path, own, page.marker)
            figures = reports.middle([_run(lighthouse, web.url + page.path, machine.folder, own) for _ in range(runs)])
            print(line(cells(page.name, figures)), flush=True)
            missed += [f"{page.name}: {what}" for what in page.targets.missed(figures)]
            missed += [f"{page.name}: {fault}" for fault in figures.faults if page.targets.seo is not None]
    return missed


def _check(url: str, headers: Mapping[str, str], marker: str) -> None:
    """Raise Wrong where the page is not the one that is meant, such as a login page instead of the console."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, headers=dict(headers)), timeout=30) as answer:
        if answer.url != url or marker not in answer.read().decode():
            raise Wrong(f"{url} does not show {marker}")


def _run(lighthouse: tool.Lighthouse, url: str, folder: Path, headers: Mapping[str, str]) -> reports.Figures:
    for attempt in range(ATTEMPTS):
        try:
            return reports.read(lighthouse.report(url, folder / "lighthouse.json", headers))
        except (reports.Unusable, tool.Failed) as failure:
            if attempt + 1 == ATTEMPTS:
                raise tool.Failed(f"{url}: {failure}") from None
    raise AssertionError


if __name__ == "__main__":
    sys.exit(main())
