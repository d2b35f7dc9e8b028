"""What a rental's page says of its cards: the last reading, and the last hour minute by minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from rentals import queries
from rentals.models import Rental, Utilisation, UtilisationSample

Text = str | Promise
Status = Rental.Status
HOUR_MINUTES = 60


@dataclass(frozen=True, slots=True)
class Now:
    """The last reading, `seconds` old; without one, `why`. `shows` names what at least one card publishes."""

    reading: Utilisation | None
    seconds: int
    why: Text
    shows: frozenset[str]

    @property
    def cards(self) -> list[dict[str, Any]]:
        return self.reading.cards if self.reading else []


def now(rental: Rental, *, at: datetime) -> Now:
    """What its cards do, or why nobody knows. Needs `pool` loaded."""
    reading = queries.latest_utilisation([rental.pk], at=at).get(rental.pk)
    if reading is None or reading.read_at is None:
        return Now(None, 0, _silence(rental), frozenset())
    shows = {name for card in reading.cards for name, value in card.items() if value is not None}
    return Now(reading, int((at - reading.read_at).total_seconds()), "", frozenset(shows))


def _silence(rental: Rental) -> Text:
    if rental.status != Status.RUNNING:
        return _("Shown while the machine runs.")
    if Utilisation.objects.filter(rental=rental, read_at__isnull=False).exists():
        return _("The exporter does not answer at the moment. That does not count as idle.")
    return _("No reading yet. The first one comes within a minute or two of the start.")


@dataclass(frozen=True, slots=True)
class Minute:
    """One minute of the hour, by the organization's clock; None where nothing was read."""

    clock: str
    busy: Decimal | None = None
    busiest: Decimal | None = None
    memory: Decimal | None = None


def last_hour(rental: Rental, *, at: datetime) -> list[Minute]:
    """The minutes up to `at` of the last 60, from the first that was read on; empty where none was. One query.

    Needs `subscription__organization` loaded.
    """
    this_minute = at.replace(second=0, microsecond=0)
    since = this_minute - timedelta(minutes=HOUR_MINUTES - 1)
    read = {
        sample.at.replace(second=0, microsecond=0): sample
        for sample in UtilisationSample.objects.filter(rental=rental, at__gte=since, at__lte=at)
    }
    if not read:
        return []
    zone = ZoneInfo(rental.subscription.organization.zone)
    minutes = (since + timedelta(minutes=number) for number in range(HOUR_MINUTES))
    first = min(read)
    return [_minute(one.astimezone(zone).strftime("%H:%M"), read.get(one)) for one in minutes if one >= first]


def _minute(clock: str, sample: UtilisationSample | None) -> Minute:
    return Minute(clock, sample.busy, sample.busiest, sample.memory) if sample else Minute(clock)
