"""The figures by name, in the order in which they run. Needs a configured Django."""

from collections.abc import Callable

from benchmarks.figures import catalogue, metering, order, rush
from benchmarks.machine import Machine
from benchmarks.table import Row

FIGURES: dict[str, Callable[[Machine], Row]] = {
    "catalogue": catalogue.measure,
    "order": order.measure,
    "rush": rush.measure,
    "metering": metering.measure,
}
