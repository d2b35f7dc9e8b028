"""Machines and rentals compared both ways, so that neither is forgotten.

A machine that no rental accounts for is reported when it is seen, and powered off when a second pass sees it again;
only a person deletes it. A rental whose machine the engine does not list twice in a row is lost.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from catalog.models import Pool
from rentals import engines, metering, rules
from rentals.actions import locked, move_rental
from rentals.drivers.base import Driver, MemberState, Observed, PowerVerb
from rentals.drivers.errors import DriverError
from rentals.models import Orphan, Rental

logger = logging.getLogger(__name__)
Status = Rental.Status

# An order's own create may be under way while we look; two passes must be this far apart.
BETWEEN_PASSES = timedelta(minutes=5)
# Rentals in these states have a machine, or something is wrong.
HAVE_MACHINES = (Status.RUNNING, Status.STOPPED, Status.SUSPENDED)


def compare_orphans(*, at: datetime) -> list[Orphan]:
    """Compare every engine with the rentals of its pools; the orphans that are open now.

    An engine that does not answer, or not wholly, is left out: silence says nothing about a machine.
    """
    for pools in _pools_by_engine():
        try:
            with engines.driver_of(pools[0]) as driver:
                _compare(driver, pools, at)
        except DriverError as error:
            logger.warning("engine of pool %s not compared: %s", pools[0].code, error.code)
    return list(Orphan.objects.filter(resolved_at__isnull=True))


def _pools_by_engine() -> Iterable[Sequence[Pool]]:
    shared: dict[tuple[str, str, str], list[Pool]] = defaultdict(list)
    for pool in Pool.objects.filter(paused_reason="").order_by("pk"):
        shared[pool.driver, pool.endpoint, pool.credential_ref].append(pool)
    return shared.values()


def _compare(driver: Driver, pools: Sequence[Pool], at: datetime) -> None:
    # Rentals first: whatever has a machine now must be in the list that is fetched afterwards.
    expected = dict(Rental.objects.filter(pool__in=pools, status__in=HAVE_MACHINES).values_list("key", "pk"))
    listed = list(driver.list_owned(settings.INSTALLATION))
    present = {machine.rental for machine in listed}
    Rental.objects.filter(key__in=present, status__in=HAVE_MACHINES, absences__gt=0).update(absences=0)
    for key, rental_id in expected.items():
        if key not in present:
            miss(rental_id=rental_id, at=at)
    # And again after the list, so that a rental made meanwhile accounts for its machine.
    known = dict(
        Rental.objects.filter(key__in=present).exclude(status__in=Rental.OVER).values_list("key", "generation")
    )
    strangers = [m for m in listed if m.state is not MemberState.TERMINATING and known.get(m.rental) != m.generation]
    for machine in strangers:
        _report(driver, pools[0], machine, at, alone=machine.rental not in known)
    still = {(machine.rental, machine.generation) for machine in strangers}
    for orphan in Orphan.objects.filter(pool__in=pools, resolved_at__isnull=True):
        if (orphan.rental_key, orphan.generation) not in still:
            Orphan.objects.filter(pk=orphan.pk).update(resolved_at=at)


def _report(driver: Driver, pool: Pool, machine: Observed, at: datetime, *, alone: bool) -> None:
    """`alone`: no rental has this machine's key, so that powering it off can hit nobody's machine."""
    orphan, is_new = Orphan.objects.get_or_create(
        rental_key=machine.rental,
        generation=machine.generation,
        resolved_at=None,
        defaults={
            "pool": pool,
            "names": ", ".join(member.name for member in machine.members)[:400],
            "first_seen_at": at,
            "last_seen_at": at,
        },
    )
    if is_new:
        logger.warning("machine without a rental: %s", orphan.names)
        return
    Orphan.objects.filter(pk=orphan.pk).update(last_seen_at=at)
    if alone and orphan.quarantined_at is None and at - orphan.first_seen_at >= BETWEEN_PASSES:
        driver.power(machine.rental, PowerVerb.STOP)
        Orphan.objects.filter(pk=orphan.pk).update(quarantined_at=at)
        logger.error("machine without a rental powered off: %s", orphan.names)


@transaction.atomic
def miss(*, rental_id: int, at: datetime) -> None:
    """The engine's list lacks this rental's machine. The second time in a row it is lost and its meter ends."""
    rental = locked(rental_id)
    if rental.status not in HAVE_MACHINES:
        return
    rental.absences += 1
    rental.save(update_fields=["absences"])
    if rental.absences < rules.ABSENCES_BELIEVED:
        return
    metering.close_meter(rental=rental, at=at)
    again = at + timedelta(seconds=rules.LOST)
    move_rental(rental=rental, to=Status.LOST, at=at, outcome="vanished", failure="vanished", next_step_at=again)
    logger.error("rental %s is lost: the engine does not list it", rental.name)
