"""`python -m benchmarks [--only NAME]`: a table of ratios; exit status 1 when any falls short."""

from __future__ import annotations

import argparse
import signal
import sys

from benchmarks import table
from benchmarks.machine import Machine
from marketplace.local.preflight import Problem

NAMES = (
    "catalogue",
    "unasked",
    "offer",
    "grown",
    "fresh",
    "order",
    "rush",
    "metering",
    "months",
    "months×10",
    "csv",
    "xlsx",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=NAMES, help="measure this figure alone")
    only = parser.parse_args().only
    # A polite end goes the same way as Ctrl-C: servers stopped, folder gone.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        rows = _measure([only] if only else list(NAMES))
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    print(table.summary(rows))
    return 0 if all(row.ok for row in rows) else 1


def _measure(names: list[str]) -> list[table.Row]:
    rows = []
    with Machine() as machine:
        from benchmarks.figures import FIGURES  # noqa: PLC0415 - models need the Django that the machine sets up

        print(table.line(table.HEADINGS), flush=True)
        for name in names:
            try:
                row = FIGURES[name](machine)
            except table.Wrong as wrong:
                row = table.failed(name, str(wrong))
            print(table.line(row.cells()), flush=True)
            rows.append(row)
    return rows


if __name__ == "__main__":
    sys.exit(main())
