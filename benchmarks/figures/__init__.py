"""The figures by name, in the order in which they run. Needs a configured Django."""

from collections.abc import Callable

from benchmarks.figures import catalogue, exports, fresh, grown, metering, months, offer_page, order, rush
from benchmarks.machine import Machine
from benchmarks.table import Row

FIGURES: dict[str, Callable[[Machine], Row]] = {
    "catalogue": catalogue.measure,
    "unasked": catalogue.measure_unasked,
    "offer": offer_page.measure,
    "grown": grown.measure,
    "fresh": fresh.measure,
    "order": order.measure,
    "rush": rush.measure,
    "metering": metering.measure,
    "months": months.measure,
    "months×10": months.measure_growth,
    "csv": exports.measure_csv,
    "xlsx": exports.measure_xlsx,
}
