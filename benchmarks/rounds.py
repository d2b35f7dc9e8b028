"""Interleaved rounds: on a shared machine only what was measured side by side may be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: what was done per second, and the servers' processor milliseconds for each."""

    rate: float
    cpu_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Medians over the rounds; the ratio is the median of each round's own ratio, ours over the reference."""

    ours: Sample
    reference: Sample
    ratio: float

    @property
    def cpu(self) -> str:
        return f"{self.ours.cpu_ms:.1f} / {self.reference.cpu_ms:.1f}"


Measure = Callable[[], Sample]


def compare(ours: Measure, reference: Measure, *, rounds: int = ROUNDS) -> Comparison:
    """One uncounted round to warm up, then `rounds` in which both sides take turns at going first."""
    ours(), reference()
    pairs = []
    for number in range(rounds):
        if number % 2:
            second, first = reference(), ours()
        else:
            first, second = ours(), reference()
        pairs.append((first, second))
    return Comparison(
        _median([first for first, _second in pairs]),
        _median([second for _first, second in pairs]),
        median(first.rate / second.rate for first, second in pairs),
    )


def _median(samples: list[Sample]) -> Sample:
    return Sample(median(sample.rate for sample in samples), median(sample.cpu_ms for sample in samples))
