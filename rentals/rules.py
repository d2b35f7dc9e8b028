"""How long the reconciler waits: deadlines by kind, back-off, the pace of looking. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from catalog.models import Offer

# How long a machine may take from its first call until it was logged into.
DEADLINES = {
    Offer.Kind.GPU: timedelta(minutes=5),
    Offer.Kind.SERVER: timedelta(minutes=60),
    Offer.Kind.CLUSTER: timedelta(minutes=20),
}
# Seconds until the next look.
AT_ONCE = 0
SHORTLY = 1
WATCH = 60
PAUSED = 30
LOST = 600
LONGEST_BACK_OFF = 30

# How often in a row the engine must say "no such machine" (or "node lost") before it is believed.
ABSENCES_BELIEVED = 2
# Wrong cards inside may be a driver that is still loading.
WRONG_CARDS_BELIEVED = 3
# Attempts after which an unfinished stop or delete is worth waking somebody.
ATTEMPTS_BEFORE_ALARM = 20


def lease() -> timedelta:
    """A step's hold on its rental: longer than a driver's calls with their timeouts, short after a killed worker."""
    return timedelta(seconds=settings.RENTALS_LEASE_SECONDS)


def deadline_after(kind: str, at: datetime) -> datetime:
    return at + DEADLINES.get(Offer.Kind(kind), DEADLINES[Offer.Kind.GPU])


def back_off(attempts: int, at_least: int = 1) -> int:
    """Seconds to wait after that many failed attempts in a row: 1, 2, 4 … 30."""
    return max(at_least, min(2 ** min(attempts, 5), LONGEST_BACK_OFF))
