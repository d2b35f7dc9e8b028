"""Waiting for a sold-out offer: joining, leaving, and being told in turn.

Nothing is reserved for whoever waits. But a free unit is announced to one of them at a time: it is somebody's turn for
`settings.WAITLIST_TURN_MINUTES`, and only what is still free afterwards is announced to the next.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_lazy as _

from accounts.models import Membership, Notification, Organization, User
from accounts.notices import notify
from catalog.inventory import RESERVED
from catalog.models import Host, Offer, Waitlist
from catalog.queries import free_units
from marketplace.lib.refusals import Refusal

logger = logging.getLogger(__name__)

# Units that one entry may wait for.
MOST_UNITS = 100

OPEN = Q(notified_at__isnull=True, left_at__isnull=True)
_ON_SALE = Q(offer__enabled=True, offer__region__enabled=True, offer__quote_only=False)
# Any constant will do; it keeps these locks apart from others of the database.
_SWEEP_LOCK = 7_203_442


class WaitlistRefused(Refusal):
    """Nobody can wait for this; nothing has changed."""

    code = "waitlist_refused"


class NothingToWaitFor(WaitlistRefused):
    """The offer is not sold from stock."""

    code = "not_for_sale"
    message = _("This offer has no waitlist.")
    next_step = _("Please ask our sales.")


class FreeNow(WaitlistRefused):
    """What was to be waited for is free."""

    code = "free_now"
    message = _("As many units are free right now.")
    next_step = _("You can order them at once.")


# --- verbs -----------------------------------------------------------------------------------------------------------
@transaction.atomic
def join(*, offer: Offer, organization: Organization, user: User, units: int, at: datetime) -> Waitlist:
    """Wait for this many units; the organization's open entry of the offer.

    Joining again keeps the place and the entry, whoever of the organization does it, and takes the new number of units.
    Raises NothingToWaitFor, or FreeNow where so many units can be ordered at once.
    """
    if not 1 <= units <= MOST_UNITS:
        raise WaitlistRefused("bad_units", _("Choose between 1 and %(most)d units.") % {"most": MOST_UNITS})
    if not (offer.enabled and offer.pool_id and offer.region.enabled) or offer.quote_only:
        raise NothingToWaitFor
    if free_units(offer.pool_id, offer.cards_per_unit, at=at) >= units:
        raise FreeNow
    entry, is_new = Waitlist.objects.get_or_create(
        offer=offer,
        organization=organization,
        notified_at=None,
        left_at=None,
        defaults={"user": user, "units": units, "created_at": at},
    )
    if not is_new and entry.units != units:
        Waitlist.objects.filter(OPEN, pk=entry.pk).update(units=units)
        entry.units = units
    return entry


def leave(*, key: UUID, organization: Organization, at: datetime) -> bool:
    """Wait no more; whether the entry was still open. Repeating it changes nothing."""
    return bool(Waitlist.objects.filter(OPEN, key=key, organization=organization).update(left_at=at))


def notify_waitlist(*, at: datetime) -> int:
    """Tell those for whom enough is free now, earliest first; how many were told.

    Safe to repeat, in parallel and to be killed: an entry is told and closed in one transaction, and each pool has one
    sweep at a time. Whoever wants more than is free is passed over and keeps the place.
    """
    pools = Waitlist.objects.filter(OPEN, _ON_SALE).order_by("offer__pool").values_list("offer__pool", flat=True)
    told = 0
    for pool_id in list(pools.distinct()):
        try:
            told += _tell_of(pool_id, at)
        except Exception:
            # One broken pool must not keep the others waiting; the next sweep tries it again.
            logger.exception("the waitlist of pool %s could not be told", pool_id)
    return told


# --- questions -------------------------------------------------------------------------------------------------------
def entries_of(organization: Organization, offer_id: int, *, at: datetime) -> list[Waitlist]:
    """The organization's open entry of an offer with its `ahead` (entries before it), else the one whose turn it is."""
    before = (
        Waitlist.objects.filter(OPEN, offer=OuterRef("offer"))
        .filter(Q(created_at__lt=OuterRef("created_at")) | Q(created_at=OuterRef("created_at"), pk__lt=OuterRef("pk")))
        .order_by()
        .values("offer")
        .annotate(entries=Count("pk"))
    )
    return list(
        Waitlist.objects.filter(OPEN | Q(notified_at__gt=at - turn()), offer=offer_id, organization=organization)
        .annotate(ahead=Coalesce(Subquery(before.values("entries")), 0))
        .order_by(F("notified_at").desc(nulls_first=True))[:1]
    )


def turn() -> timedelta:
    """How long what was announced to one is announced to nobody else."""
    return timedelta(minutes=settings.WAITLIST_TURN_MINUTES)


# --- the sweep of one pool -------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Room:
    """Free cards by host as they are handed out in thought; `cards` is what reservations leave of them together."""

    hosts: list[int]
    cards: int

    def take(self, units: int, cards_per_unit: int) -> bool:
        """Put so many units on hosts, the fullest that fits first, as a claim would; all or none."""
        hosts = sorted(self.hosts)
        if units * cards_per_unit > self.cards:
            return False
        for _unit in range(units):
            fitting = next((place for place, free in enumerate(hosts) if free >= cards_per_unit), None)
            if fitting is None:
                return False
            hosts[fitting] -= cards_per_unit
            hosts.sort()
        self.hosts, self.cards = hosts, self.cards - units * cards_per_unit
        return True


@transaction.atomic
def _tell_of(pool_id: int, at: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", [_SWEEP_LOCK, pool_id])
        if not cursor.fetchone()[0]:
            return 0  # another worker is at it
    of_pool = Waitlist.objects.filter(offer__pool=pool_id)
    room = _room(pool_id, at)
    for entry in of_pool.filter(notified_at__gt=at - turn()).select_related("offer").order_by("notified_at", "pk"):
        # Where it fits no more, the cards are gone already, to them or to others.
        room.take(entry.units, entry.offer.cards_per_unit)
    waiting = _locked(of_pool.filter(OPEN, _ON_SALE))
    members = _members(waiting)
    lucky = [entry for entry in waiting if room.take(entry.units, entry.offer.cards_per_unit)]
    for entry in lucky:
        entry.notified_at = at
        entry.save(update_fields=["notified_at"])
        notify(
            organization=entry.organization,
            kind=Notification.Kind.WAITLIST_FREE,
            fact=f"waitlist:{entry.key}",
            params={"offer": entry.offer.title},
            page="catalog:offer",
            page_args=[entry.offer.slug],
            at=at,
            # Whoever asked may have left the organization since; then the others should know.
            user=entry.user if (entry.organization_id, entry.user_id) in members else None,
        )
    return len(lucky)


def _locked(entries: QuerySet[Waitlist]) -> list[Waitlist]:
    """In order of joining. Locked, so that nobody is told who leaves at this moment."""
    return list(
        entries.select_related("offer__gpu_model", "organization", "user")
        .select_for_update(of=("self",), no_key=True)
        .order_by("created_at", "pk")
    )


def _members(entries: Iterable[Waitlist]) -> set[tuple[int, int | None]]:
    """Organization and person of each entry whose person is still a member."""
    organizations = {entry.organization_id for entry in entries}
    people = {entry.user_id for entry in entries if entry.user_id}
    return set(
        Membership.objects.filter(organization__in=organizations, user__in=people, user__is_active=True).values_list(
            "organization", "user"
        )
    )


def _room(pool_id: int, at: datetime) -> _Room:
    hosts = Host.objects.filter(pool=pool_id, pool__paused_reason="", state=Host.State.ACTIVE)
    free = list(hosts.values_list("cards_free", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {RESERVED.format(pool='%(pool)s', at='%(at)s', until='NULL')}",
            {"pool": pool_id, "at": at},
        )
        (reserved,) = cursor.fetchone()
    return _Room(free, sum(free) - int(reserved))
