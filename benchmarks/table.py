"""The rows a run prints, and when a figure falls short."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

HEADINGS = ("figure", "ours", "reference", "ratio", "target", "verdict", "CPU ms a request", "what else")
WIDTHS = (11, 15, 15, 7, 8, 8, 18, 0)


class Wrong(Exception):
    """What was measured did not do its work, so its speed means nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. It is ok from its target on; where it is `exact`, at its target and nowhere else; where the ratio is
    of times (`at_most`), up to its target."""

    name: str
    ours: str
    reference: str
    ratio: float
    target: float
    cpu: str = ""
    note: str = ""
    exact: bool = False
    at_most: bool = False

    @property
    def ok(self) -> bool:
        if self.exact:
            return self.ratio == self.target
        return self.ratio <= self.target if self.at_most else self.ratio >= self.target

    def cells(self) -> tuple[str, ...]:
        target = f"{'= ' if self.exact else '≤ ' if self.at_most else ''}{self.target:.2f}"
        # Cut, not rounded, and cut upwards where less is better: 0.499 must not be shown as the 0.50 it fell short of.
        ratio = f"{(math.ceil if self.at_most else int)(self.ratio * 1000) / 1000:.3f}"
        verdict = "ok" if self.ok else "short"
        return (self.name, self.ours, self.reference, ratio, target, verdict, self.cpu or "–", self.note)


def failed(name: str, reason: str) -> Row:
    """The row of a figure whose content check failed: short, whatever its speed."""
    return Row(name, "wrong", "–", 0.0, 1.0, note=reason)


def line(cells: Sequence[str]) -> str:
    """The cells in their columns."""
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def summary(rows: Sequence[Row]) -> str:
    """The last line of a run."""
    ok = sum(row.ok for row in rows)
    return f"bench: {ok} ok, {len(rows) - ok} short"
