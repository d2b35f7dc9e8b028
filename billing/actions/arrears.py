"""What happens when a prepaid balance is below zero, by the clock and every step once.

Machines by the hour run on for some hours and are billed; then they are suspended and their data kept for days, with
notices; then it is deleted by a job of two steps, each of which reads the balance anew under the locks that a payment
takes. A payment at any time settles it: suspended machines go on by themselves, with the same subscriptions.

Locks, in this order: credit line, arrears, order, host and cards, rental, billing account.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.models import CreditLine, Notification
from accounts.notices import notify
from billing.actions.credit import refresh_credit
from billing.arrears import deletes_at, is_held, kept_until, open_arrears, suspends_at
from billing.models import Arrears, ArrearsStep, BillingAccount
from marketplace.lib import clock
from marketplace.lib.money import format_minor
from orders.models import Term
from rentals import actions as rentals
from rentals.models import Rental

logger = logging.getLogger(__name__)
Status, Kind, Mode = Arrears.Status, Notification.Kind, BillingAccount.Mode
Suspension = Rental.Suspension


class IllegalMove(Exception):
    """A move that the transition table does not have: a bug, never a customer's mistake."""


class _Settled(Exception):
    """The balance was settled while a machine was about to be deleted; nothing of it stands."""


def enforce_arrears(*, at: datetime) -> int:
    """Take every step that is due at `at`: of accounts, then of their machines; how many changed.

    Safe to repeat, in parallel and after being killed: each account and each machine is a transaction of its own that
    reads the balance anew, and one that fails holds up no other.
    """
    changed = sum(_attempt(take_step, at, organization_id=one) for one in _concerned(at))
    changed += sum(_attempt(_suspend, at, rental_id=one) for one in _to_suspend(at))
    changed += sum(_attempt(_delete, at, rental_id=one) for one in _to_delete(at))
    changed += sum(_attempt(_resume, at, rental_id=one) for one in _to_resume())
    return changed


def _attempt(act: Callable[..., bool], at: datetime, **which: int) -> int:
    try:
        return int(act(at=at, **which))
    except (rentals.RentalRefused, _Settled):
        # It is on its way somewhere, or no cards could be locked: the next sweep asks again.
        return 0
    except Exception:
        logger.exception("arrears of %s cannot be enforced", which)
        return 0


# --- accounts --------------------------------------------------------------------------------------------------------
def _concerned(at: datetime) -> Sequence[int]:
    """Organizations whose balance is below zero as last written down, or that have arrears."""
    below = Q(mode=Mode.WALLET, organization__credit_line__available_minor__lt=0)
    accounts = BillingAccount.objects.annotate(in_arrears=Exists(open_arrears().filter(account=OuterRef("pk"))))
    found = accounts.filter(below | Q(in_arrears=True)).order_by("pk")
    return list(found.values_list("organization_id", flat=True))


@transaction.atomic
def take_step(*, organization_id: int, at: datetime) -> bool:
    """Read the balance anew and take the one step that is due for this organization; whether there was one."""
    balance = _balance(organization_id, at)
    account = BillingAccount.objects.select_related("organization").get(organization_id=organization_id)
    arrears = open_arrears().select_for_update(no_key=True).filter(account=account).first()
    if arrears is None:
        return balance < 0 and account.mode == Mode.WALLET and _begin(account, balance, at)
    # One organization's figures for its words; the row that was locked stands for itself.
    arrears.account = account
    if balance >= 0 or account.mode != Mode.WALLET:
        return _clear(arrears, balance, at)
    if is_held(arrears, at):
        return False
    return _DUE[Status(arrears.status)](arrears, balance, at)


def _balance(organization_id: int, at: datetime) -> int:
    """What is available in minor units, worked out now, under the locks of the credit line and the account."""
    line = CreditLine.objects.select_for_update(no_key=True).get(organization_id=organization_id)
    refresh_credit(organization_id=organization_id, at=at)
    line.refresh_from_db(fields=["available_minor"])
    return line.available_minor


def _begin(account: BillingAccount, balance: int, at: datetime) -> bool:
    # The credit line is locked: nobody else begins one now.
    arrears = Arrears.objects.create(account=account, opened_at=at)
    _note(arrears, Status.OPEN, balance, at)
    _tell(
        arrears,
        Kind.ARREARS_BEGUN,
        balance,
        at,
        hours=settings.ARREARS_GRACE_HOURS,
        date=_read(arrears, suspends_at(arrears)),
    )
    return True


def _run_out(arrears: Arrears, balance: int, at: datetime) -> bool:
    if at < suspends_at(arrears):
        return False
    _move(arrears, Status.SUSPENDED, balance, at, suspended_at=at)
    kept = kept_until(arrears)
    days = settings.ARREARS_RETENTION_DAYS
    _tell(arrears, Kind.ARREARS_SUSPENDED, balance, at, days=days, date=_read(arrears, kept) if kept else "")
    return True


def _keep(arrears: Arrears, balance: int, at: datetime) -> bool:
    """Tell again on the days of the settings; a late sweep tells of the last of them and deletes that much later."""
    suspended_at, retention = arrears.suspended_at, settings.ARREARS_RETENTION_DAYS
    if suspended_at is None:
        raise ValueError(f"{arrears.pk}: suspended at no time")
    days = [day for day in settings.ARREARS_NOTICE_DAYS if day < retention]
    passed = [day for day in days if suspended_at + timedelta(days=day) <= at]
    if passed:
        told, is_new = _step(arrears, f"kept_{passed[-1]}", balance, at)
        if is_new:
            left = timedelta(days=retention - passed[-1])
            _tell(arrears, Kind.ARREARS_KEPT, balance, at, days=left.days, date=_read(arrears, told.at + left))
            return True
    last = told.at - timedelta(days=days[-1]) if passed and passed[-1] == days[-1] else suspended_at
    if at < max(suspended_at, last) + timedelta(days=retention):
        return False
    _move(arrears, Status.RELEASING, balance, at, releasing_at=at)
    return True


def _finish(arrears: Arrears, balance: int, at: datetime) -> bool:
    """Every machine that was marked is being deleted or gone."""
    if deletes_at(arrears) > at or _suspended_of(arrears.account.organization_id).exists():
        return False
    _move(arrears, Status.RELEASED, balance, at, released_at=at)
    _tell(arrears, Kind.ARREARS_RELEASED, balance, at, always=_has(arrears, Kind.ARREARS_SUSPENDED))
    return True


def _wait(arrears: Arrears, balance: int, at: datetime) -> bool:
    return False


_DUE: dict[str, Callable[[Arrears, int, datetime], bool]] = {
    Status.OPEN: _run_out,
    Status.SUSPENDED: _keep,
    Status.RELEASING: _finish,
    Status.RELEASED: _wait,
}


def _clear(arrears: Arrears, balance: int, at: datetime) -> bool:
    now = {Status.OPEN: "in_time", Status.RELEASED: "released"}.get(Status(arrears.status), "resumed")
    _move(arrears, Status.CLEARED, balance, at, cleared_at=at)
    _tell(arrears, Kind.ARREARS_CLEARED, balance, at, now=now, always=_has(arrears, Kind.ARREARS_BEGUN))
    return True


def _move(arrears: Arrears, to: str, balance: int, at: datetime, **changes: Any) -> None:
    """The only code that writes Arrears.status; the caller holds the row's lock."""
    if to not in Arrears.NEXT.get(arrears.status, set()):
        raise IllegalMove(f"{arrears}: {arrears.status} → {to}")
    arrears.status = to
    for name, value in changes.items():
        setattr(arrears, name, value)
    arrears.save(update_fields=["status", *changes])
    _note(arrears, to, balance, at)


def _note(arrears: Arrears, step: str, balance: int, at: datetime) -> None:
    ArrearsStep.objects.create(arrears=arrears, step=step, balance_minor=balance, at=at)


def _step(arrears: Arrears, step: str, balance: int, at: datetime) -> tuple[ArrearsStep, bool]:
    return ArrearsStep.objects.get_or_create(arrears=arrears, step=step, defaults={"balance_minor": balance, "at": at})


def _tell(
    arrears: Arrears, kind: Notification.Kind, balance: int, at: datetime, *, always: bool = False, **figures: str | int
) -> None:
    """Tell of a step, with what is missing. Where there is no machine by the hour nothing happens that needs telling,
    unless of something that was told to begin."""
    organization = arrears.account.organization
    if not always and not _machines_of(organization.pk).exists():
        return
    notify(
        organization=organization,
        kind=kind,
        fact=f"{_fact(arrears)}:{figures['days']}" if kind == Kind.ARREARS_KEPT else _fact(arrears),
        params={"amount": format_minor(max(-balance, 0), organization.currency), **figures},
        page="billing:balance",
        page_args=[],
        at=at,
    )


def _fact(arrears: Arrears) -> str:
    return f"arrears:{arrears.pk}"


def _has(arrears: Arrears, kind: Notification.Kind) -> bool:
    organization = arrears.account.organization
    return Notification.objects.filter(organization=organization, kind=kind, fact=_fact(arrears)).exists()


def _read(arrears: Arrears, moment: datetime) -> str:
    return clock.read(moment, arrears.account.organization.zone)


# --- machines --------------------------------------------------------------------------------------------------------
def _machines_of(organization_id: int) -> QuerySet[Rental]:
    """Machines by the hour that are not over."""
    hourly = Rental.objects.filter(organization_id=organization_id, subscription__term=Term.HOUR)
    return hourly.exclude(status__in=[*Rental.OVER, Rental.Status.DESTROYING])


def _suspended_of(organization_id: int) -> QuerySet[Rental]:
    return _machines_of(organization_id).filter(suspension=Suspension.ARREARS)


def _arrears_of_rental(*statuses: str) -> QuerySet[Arrears]:
    return Arrears.objects.filter(account__organization=OuterRef("organization"), status__in=statuses)


def _to_suspend(at: datetime) -> Sequence[int]:
    """Machines by the hour that run or are stopped though their organization's are suspended: also one that was just
    coming up, or that our staff let go on."""
    not_held = Q(held_until__isnull=True) | Q(held_until__lte=at)
    arrears = _arrears_of_rental(Status.SUSPENDED, Status.RELEASING).filter(not_held)
    found = Rental.objects.filter(
        Exists(arrears),
        subscription__term=Term.HOUR,
        subscription__ended_at__isnull=True,
        suspension=Suspension.NONE,
        status__in=rentals.SUSPENDABLE,
    )
    return list(found.order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def _suspend(*, rental_id: int, at: datetime) -> bool:
    """The arrears are read again under their lock: a payment that settled them meanwhile wins."""
    organization_id = Rental.objects.values_list("organization_id", flat=True).get(pk=rental_id)
    if _locked(organization_id, Status.SUSPENDED, Status.RELEASING) is None:
        return False
    rentals.suspend(rental_id=rental_id, reason=Suspension.ARREARS, actor=None, at=at)
    return True


def _locked(organization_id: int, *statuses: str) -> Arrears | None:
    found = Arrears.objects.filter(account__organization=organization_id, status__in=statuses)
    return found.select_for_update(no_key=True).first()


def _to_delete(at: datetime) -> Sequence[int]:
    """Suspended machines whose days are over, of arrears that were marked long enough ago. One that was suspended
    later than the others is kept as many days."""
    marked = at - timedelta(minutes=settings.ARREARS_RELEASE_MINUTES)
    not_held = Q(held_until__isnull=True) | Q(held_until__lte=at)
    arrears = _arrears_of_rental(Status.RELEASING).filter(not_held, releasing_at__lte=marked)
    found = Rental.objects.filter(
        Exists(arrears),
        suspension=Suspension.ARREARS,
        status=Rental.Status.SUSPENDED,
        suspended_at__lte=at - timedelta(days=settings.ARREARS_RETENTION_DAYS),
    )
    return list(found.order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def _delete(*, rental_id: int, at: datetime) -> bool:
    """Delete one machine with its data, unless the balance was settled: as last written down, and, before this commits,
    worked out anew under the account's lock, which every payment takes."""
    organization_id = Rental.objects.values_list("organization_id", flat=True).get(pk=rental_id)
    line = CreditLine.objects.select_for_update(no_key=True).get(organization_id=organization_id)
    if line.available_minor >= 0 or _locked(organization_id, Status.RELEASING) is None:
        return False
    rental = Rental.objects.get(pk=rental_id)
    if rental.suspension != Suspension.ARREARS or rental.status != Rental.Status.SUSPENDED:
        return False
    rentals.request_terminate(rental_id=rental_id, actor=None, at=at, why="arrears_unpaid")
    if _balance(organization_id, at) >= 0:
        raise _Settled
    return True


def _to_resume() -> Sequence[int]:
    """Machines that are suspended for arrears which are settled."""
    found = Rental.objects.filter(
        ~Exists(_arrears_of_rental(Status.SUSPENDED, Status.RELEASING)),
        suspension=Suspension.ARREARS,
        status=Rental.Status.SUSPENDED,
    )
    return list(found.order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def _resume(*, rental_id: int, at: datetime) -> bool:
    organization_id = Rental.objects.values_list("organization_id", flat=True).get(pk=rental_id)
    CreditLine.objects.select_for_update(no_key=True).get(organization_id=organization_id)
    if _locked(organization_id, Status.SUSPENDED, Status.RELEASING) is not None:
        return False
    rentals.resume(rental_id=rental_id, actor=None, at=at)
    return True


# --- people ----------------------------------------------------------------------------------------------------------
@transaction.atomic
def hold_arrears(*, arrears_id: int, days: int, at: datetime) -> Arrears:
    """Finance agreed on something: for `days` from `at` on nothing is suspended or deleted. Zero ends a hold."""
    arrears = Arrears.objects.select_for_update(no_key=True).get(pk=arrears_id)
    arrears.held_until = at + timedelta(days=days) if days else None
    arrears.save(update_fields=["held_until"])
    return arrears
