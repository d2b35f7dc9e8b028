"""What Stripe is told to charge: our lines, or groups of them where an invoice is longer than Stripe takes. Pure.

A group's key is a function of the keys of its lines, so that repeating a push repeats the same lines.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from billing.models import InvoiceLine
from marketplace.lib.money import format_rate

_NAMESPACE = uuid.UUID("a54c5f2e-6a52-4e0b-8d0f-3f2d8f6c1b77")


AGREED_SUMS = frozenset(
    {
        InvoiceLine.Kind.RECURRING,
        InvoiceLine.Kind.ONCE,
        InvoiceLine.Kind.TRUE_UP,
        InvoiceLine.Kind.DISCOUNT,
    }
)


@dataclass(frozen=True, slots=True)
class Charge:
    """One line as Stripe shows it: the sum of `lines`, which share a tax rate."""

    lines: tuple[InvoiceLine, ...]

    @property
    def key(self) -> uuid.UUID:
        if len(self.lines) == 1:
            return self.lines[0].key
        return uuid.uuid5(_NAMESPACE, ",".join(str(line.key) for line in self.lines))

    @property
    def amount_minor(self) -> int:
        return sum(line.amount_minor for line in self.lines)

    @property
    def tax_percent(self) -> Decimal:
        return self.lines[0].tax_percent

    @property
    def start(self) -> datetime | None:
        return min((line.period_start for line in self.lines if line.period_start), default=None)

    @property
    def end(self) -> datetime | None:
        return max((line.period_end for line in self.lines if line.period_end), default=None)

    def describe(self, currency: str) -> str:
        """In the language that is active."""
        if len(self.lines) == 1:
            return describe(self.lines[0], currency)
        first = self.lines[0]
        count = len(self.lines)
        what = ngettext("%(count)d line of this invoice", "%(count)d lines of this invoice", count) % {"count": count}
        return f"{first.title} · {first.region} · {what}"


def describe(line: InvoiceLine, currency: str) -> str:
    """Product, place, machine and the arithmetic of one line."""
    return f"{line.title} · {line.region} · {line.resource} · {arithmetic(line, currency)}"


def arithmetic(line: InvoiceLine, currency: str) -> str:
    """How the amount came about, as a person would check it: 2 cards × 731:20:05 h × ¥2.50; what kind of line it is
    where it was agreed as a sum."""
    if line.kind in AGREED_SUMS:
        return str(line.get_kind_display())
    rate = format_rate(line.rate, currency)
    if line.meter == "disk_gb_hour":
        return f"{line.quantity} GB × {_time(line)} × {rate}"
    cards = ngettext("%(count)d card", "%(count)d cards", line.quantity) % {"count": line.quantity}
    if line.meter == "card_hour":
        return f"{cards} × {_time(line)} × {rate}"
    return f"{cards} × {_periods(line)} × {rate}"


def _time(line: InvoiceLine) -> str:
    return _("%(hours)s h") % {"hours": hours(line.seconds)}


def _periods(line: InvoiceLine) -> str:
    count = line.periods
    if line.meter == "month":
        return ngettext("%(count)d month", "%(count)d months", count) % {"count": count}
    return ngettext("%(count)d year", "%(count)d years", count) % {"count": count}


def hours(seconds: int) -> str:
    """Seconds as hours:minutes:seconds, exact, so that the product can be checked (731:20:05)."""
    sign = "−" if seconds < 0 else ""
    minutes, second = divmod(abs(seconds), 60)
    return f"{sign}{minutes // 60}:{minutes % 60:02d}:{second:02d}"


def grouped(lines: Sequence[InvoiceLine], *, most: int) -> list[Charge]:
    """At most `most` charges whose amounts add up to the lines': one for one if they fit, else by order line, else by
    runs of equal length. Lines of different tax rates never share a charge."""
    if len(lines) <= most:
        return [Charge((line,)) for line in lines]
    by_order_line = _groups(lines, lambda line: (line.tax_percent, line.order_line_id, line.meter))
    if len(by_order_line) <= most:
        return by_order_line
    by_rate = _groups(lines, lambda line: line.tax_percent)
    size = -(-len(lines) // max(most - len(by_rate), 1))
    return [
        Charge(tuple(run))
        for group in by_rate
        for run in (group.lines[start : start + size] for start in range(0, len(group.lines), size))
    ]


def _groups(lines: Iterable[InvoiceLine], by: Callable[[InvoiceLine], Any]) -> list[Charge]:
    ordered = sorted(lines, key=lambda line: (by(line), line.position))
    return [Charge(tuple(group)) for _key, group in itertools.groupby(ordered, key=by)]
