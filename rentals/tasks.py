"""The sweeps and steps of rentals. The table is the queue; a lost message costs one beat."""

import logging

from celery import shared_task
from kombu.exceptions import OperationalError

from marketplace.lib import clock
from rentals import actions, delivery, metering, orphans, reconcile, utilisation

logger = logging.getLogger(__name__)

# A successor that is wanted later than this waits for the sweep.
NUDGE_WITHIN_SECONDS = 5


@shared_task(name="rentals.open_rentals")
def open_rentals() -> None:
    """Make the rentals of confirmed orders and take their first steps."""
    for rental_id in actions.open_rentals(at=clock.now()):
        _send(rental_id, 0)


@shared_task(name="rentals.convert")
def convert() -> None:
    """Put paid terms in place of the hour."""
    actions.convert_rentals(at=clock.now())


@shared_task(name="rentals.step_due")
def step_due() -> None:
    """Find rentals whose next step is due, whatever was lost on the way, and give each to a worker."""
    for rental_id in reconcile.due(at=clock.now()):
        _send(rental_id, 0)


@shared_task(name="rentals.step")
def step(*, rental_id: int) -> None:
    """One step of one rental; the next one is asked for when it is wanted soon."""
    taken = reconcile.step(rental_id=rental_id, at=clock.now())
    if taken is not None and taken.wait is not None and taken.wait <= NUDGE_WITHIN_SECONDS:
        _send(rental_id, taken.wait)


def _send(rental_id: int, wait: int) -> None:
    # A little late rather than a little early: a step before its time does nothing and costs a beat.
    countdown = wait + 0.05 if wait else None
    try:
        step.apply_async(kwargs={"rental_id": rental_id}, countdown=countdown, retry=False)
    except OperationalError:
        logger.warning("broker unreachable; rental %s waits for its sweep", rental_id)


@shared_task(name="rentals.cut_windows")
def cut_windows() -> None:
    """Cut running meters at local midnights."""
    metering.cut_windows(at=clock.now())


@shared_task(name="rentals.enforce_terms")
def enforce_terms() -> None:
    """Stop what has expired, release what was kept long enough."""
    actions.enforce_terms(at=clock.now())


@shared_task(name="rentals.tell_of_ending_terms")
def tell_of_ending_terms() -> None:
    """Tell of terms that end in 7, 3 or 1 days."""
    actions.tell_of_ending_terms(at=clock.now())


@shared_task(name="rentals.sample_utilisation")
def sample_utilisation() -> None:
    """Read how busy running machines are, each once a minute; forget what was kept long enough."""
    utilisation.sample_utilisation(at=clock.now())
    utilisation.prune(at=clock.now())


@shared_task(name="rentals.enforce_auto_stop")
def enforce_auto_stop() -> None:
    """Stop what its customer's rules say."""
    for rental_id in actions.enforce_auto_stop(at=clock.now()):
        _send(rental_id, 0)


@shared_task(name="rentals.compare_orphans")
def compare_orphans() -> None:
    """Compare the engines' machines with the rentals, both ways."""
    orphans.compare_orphans(at=clock.now())


@shared_task(name="rentals.measure_delivery")
def measure_delivery() -> None:
    """Write down how fast machines were delivered and faults answered."""
    delivery.measure_delivery(at=clock.now())
