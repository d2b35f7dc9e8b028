"""What one step does for each status: ask the engine, decide. No database write, no waiting, no transaction.

Each function gets the driver and the rental as it was claimed and returns a Decision; `rentals.reconcile` writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from django.conf import settings

from rentals import rules
from rentals.drivers.base import (
    Accelerator,
    Destroyed,
    Driver,
    Fault,
    ImageSpec,
    MemberSpec,
    MemberState,
    Observed,
    PowerVerb,
    Spec,
)
from rentals.drivers.errors import (
    Ambiguous,
    AuthError,
    DriverError,
    ImageError,
    InvalidSpec,
    NodeLost,
    Quota,
    Transient,
    Unsupported,
)
from rentals.models import Rental

Status = Rental.Status
PROVISIONING = frozenset({Status.CREATING, Status.BOOTING, Status.VERIFYING, Status.STARTING})
# A lost machine in one of these states is there after all.
FOUND = frozenset({MemberState.BOOTING, MemberState.RUNNING, MemberState.STOPPED})
# Asking again changes nothing.
FINAL_ERRORS = (Quota, InvalidSpec, ImageError, Unsupported)


@dataclass(frozen=True, slots=True)
class Decision:
    """Where the rental goes (`to`, empty: it stays), when to look again (None: not by itself), and why it waits."""

    to: str = ""
    wait: int | None = rules.SHORTLY
    reason: str = ""
    observed: Observed | None = None
    is_error: bool = False
    absent: bool = False
    extends_deadline: bool = False


def take(driver: Driver, rental: Rental, at: datetime) -> Decision:
    """One step of a claimed rental. Every DriverError becomes a decision; other exceptions are bugs and propagate."""
    if rental.status in PROVISIONING and rental.deadline_at is not None and at >= rental.deadline_at:
        return give_up(rental, rental.reason if rental.reason == "no_capacity" else "deadline")
    try:
        return HANDLERS[rental.status](driver, rental)
    except DriverError as error:
        return on_error(rental, error)


# --- towards running -------------------------------------------------------------------------------------------------


def _create(driver: Driver, rental: Rental) -> Decision:
    if rental.generation > 1:
        leftover = driver.observe(rental.key)
        if leftover is not None and leftover.generation < rental.generation:
            driver.destroy(rental.key)
            return Decision()
    return Decision(Status.BOOTING, rules.AT_ONCE, observed=driver.ensure(spec_of(rental)))


def _boot(driver: Driver, rental: Rental) -> Decision:
    seen = driver.observe(rental.key)
    if seen is None:
        return missing(rental, "vanished")
    if seen.state is MemberState.RUNNING:
        return Decision(Status.VERIFYING, rules.AT_ONCE, observed=seen)
    if seen.state in {MemberState.FAILED, MemberState.GONE, MemberState.TERMINATING}:
        return give_up(rental, "boot_failed")
    if seen.state is MemberState.STOPPED:
        driver.power(rental.key, PowerVerb.START, members=members_of(rental))
    return Decision(observed=seen)


def _verify(driver: Driver, rental: Rental) -> Decision:
    health = driver.probe(
        rental.key,
        public_keys=rental.public_keys,
        cards=[card for member in members_of(rental) for card in member.cards],
        host_keys=[rental.host_key] if rental.host_key else [],
    )
    if health.ok:
        return Decision(Status.RUNNING, rules.WATCH)
    fault = health.reason or Fault.UNREACHABLE
    if fault is Fault.HOST_KEY_CHANGED:
        return Decision(Status.NEEDS_OPERATOR, None, reason=fault)
    if fault is Fault.CARDS_DIFFER and rental.attempts + 1 >= rules.WRONG_CARDS_BELIEVED:
        return give_up(rental, fault)
    if fault is Fault.NOT_RUNNING:
        # Booting looks again at what the engine says of it and knows what to do about each state.
        return replace(_boot(driver, rental), to="", reason=fault, is_error=True)
    return Decision(wait=rules.back_off(rental.attempts), reason=fault, is_error=True)


def _start(driver: Driver, rental: Rental) -> Decision:
    seen = driver.observe(rental.key)
    if seen is None:
        return missing(rental, "vanished")
    if seen.state is MemberState.STOPPED:
        driver.power(rental.key, PowerVerb.START, members=members_of(rental))
    return Decision(Status.BOOTING, rules.AT_ONCE)


# --- running and stopping --------------------------------------------------------------------------------------------


def _watch(driver: Driver, rental: Rental) -> Decision:
    seen = driver.observe(rental.key)
    if seen is None or seen.state in {MemberState.GONE, MemberState.FAILED, MemberState.TERMINATING}:
        return missing(rental, "vanished")
    if seen.state is MemberState.STOPPED:
        driver.power(rental.key, PowerVerb.START, members=members_of(rental))
        return Decision(wait=rules.SHORTLY, reason="restarting", observed=seen)
    if seen.state is not MemberState.RUNNING:
        return Decision(wait=rules.SHORTLY, reason=rental.reason, observed=seen)
    changed = bool(rental.host_key_fingerprint) and seen.fingerprint != rental.host_key_fingerprint
    return Decision(wait=rules.WATCH, reason=Fault.HOST_KEY_CHANGED if changed else "", observed=seen)


def _stop(driver: Driver, rental: Rental) -> Decision:
    seen = driver.observe(rental.key)
    if seen is None:
        return missing(rental, "vanished")
    if seen.state in {MemberState.STOPPED, MemberState.FAILED}:
        return Decision(Status.SUSPENDED if rental.suspension else Status.STOPPED, None, reason=rental.reason)
    driver.power(rental.key, PowerVerb.STOP)
    return Decision(wait=rules.AT_ONCE, reason=rental.reason)


def _watch_lost(driver: Driver, rental: Rental) -> Decision:
    """A machine that was given up may report again: it runs once it was logged into. One that was stopped or suspended
    is stopped again, whatever it does now, for its cards may be somebody else's."""
    try:
        seen = driver.observe(rental.key)
    except NodeLost:
        return Decision(wait=rules.WATCH)
    if seen is None or seen.state not in FOUND:
        return Decision(wait=rules.LOST)
    if rental.desired == Rental.Desired.STOPPED or rental.suspension:
        return Decision(Status.STOPPING, rules.AT_ONCE, observed=seen)
    if seen.state is MemberState.STOPPED:
        driver.power(rental.key, PowerVerb.START, members=members_of(rental))
    if seen.state is not MemberState.RUNNING:
        return Decision(wait=rules.SHORTLY, observed=seen)
    found = _verify(driver, rental)
    return found if found.to == Status.RUNNING else Decision(wait=rules.WATCH)


def _destroy(driver: Driver, rental: Rental) -> Decision:
    if rental.failure == "node_lost":
        _fence_if_still_lost(driver, rental)
    if driver.destroy(rental.key) is Destroyed.NOT_YET:
        return Decision(wait=rules.SHORTLY)
    failed = bool(rental.failure) and rental.running_at is None
    return Decision(Status.FAILED if failed else Status.GONE, None)


def _fence_if_still_lost(driver: Driver, rental: Rental) -> None:
    """A node that does not report may still serve its tenant: cut it off before its cards are sold again."""
    try:
        driver.observe(rental.key)
    except NodeLost:
        for member in members_of(rental):
            driver.fence(member.host)


HANDLERS: dict[str, Callable[[Driver, Rental], Decision]] = {
    Status.CREATING: _create,
    Status.BOOTING: _boot,
    Status.VERIFYING: _verify,
    Status.STARTING: _start,
    Status.RUNNING: _watch,
    Status.STOPPING: _stop,
    Status.LOST: _watch_lost,
    Status.DESTROYING: _destroy,
}


# --- trouble ---------------------------------------------------------------------------------------------------------


def on_error(rental: Rental, error: DriverError) -> Decision:
    """What a typed error means in this status. Only an engine's own word ever gives a machine up."""
    at_least = error.retry_after if isinstance(error, Transient) else 1
    wait = Decision(wait=rules.back_off(rental.attempts, at_least), reason=error.code, is_error=True)
    if isinstance(error, AuthError):
        return replace(wait, wait=rules.PAUSED, extends_deadline=True)
    if rental.status in PROVISIONING:
        if isinstance(error, Ambiguous):
            return Decision(Status.NEEDS_OPERATOR, None, reason=error.code)
        if isinstance(error, FINAL_ERRORS):
            return give_up(rental, error.code)
        return wait
    if isinstance(error, NodeLost) and rental.status == Status.RUNNING:
        return missing(rental, error.code)
    return wait


def missing(rental: Rental, code: str) -> Decision:
    """The engine says that the machine is not there. Once may be a hiccup; twice is believed."""
    if rental.absences + 1 < rules.ABSENCES_BELIEVED:
        return Decision(wait=rules.SHORTLY if rental.status != Status.RUNNING else 5, reason=code, absent=True)
    if rental.running_at is None:
        return give_up(rental, code)
    return Decision(Status.LOST, rules.WATCH, reason=code)


def give_up(rental: Rental, code: str) -> Decision:
    """This attempt has failed. A machine that ran before goes back to its disk; a new one is taken down when it is
    billed by the hour, and waits for a person when it is paid for."""
    if rental.running_at is not None:
        return Decision(Status.STOPPING, rules.AT_ONCE, reason=code)
    if not rental.subscription.is_hourly:
        return Decision(Status.NEEDS_OPERATOR, None, reason=code)
    return Decision(Status.DESTROYING, rules.AT_ONCE, reason=code)


# --- what is wanted --------------------------------------------------------------------------------------------------


def members_of(rental: Rental) -> tuple[MemberSpec, ...]:
    return tuple(
        MemberSpec(ordinal=member.ordinal, host=member.host.name, cards=tuple(member.cards))
        for member in rental.members.all()
    )


def spec_of(rental: Rental) -> Spec:
    """The frozen facts of this generation; everything comes from the order line and the members."""
    line = rental.order_line
    offer, image = line.offer, line.image
    model = offer.gpu_model
    if model is None:
        raise InvalidSpec(f"offer {offer.slug} has no GPU model")
    return Spec(
        installation=settings.INSTALLATION,
        rental=rental.key,
        generation=rental.generation,
        kind=offer.kind,
        members=members_of(rental),
        accelerator=Accelerator(
            vendor=model.vendor,
            model=model.name,
            resource_name=rental.pool.resource_name,
            count=line.cards_per_unit,
            memory_gb=model.memory_gb,
        ),
        vcpus=offer.vcpus or 1,
        memory_gb=offer.memory_gb or 1,
        disk_gb=line.disk_gb,
        image=ImageSpec(slug=image.slug, digest=image.digest, framework=image.framework),
        public_keys=tuple(rental.public_keys),
        hostname=rental.name,
    )
