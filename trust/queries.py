"""What the public pages ask of the database; each question is one statement."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, F, OuterRef, Prefetch, Q
from django.db.models.functions import JSONObject

from catalog.models import Offer, Region
from trust.models import Block, Incident, IncidentUpdate, Maintenance, Page, in_language

# Entries of the feed.
FEED_ENTRIES = 30


class Place(NamedTuple):
    """A region that is on."""

    id: int
    name: str
    has_machine_room: bool
    recorded_since: date | None


class Told(NamedTuple):
    """One update of an incident."""

    status: str
    body: str
    at: datetime


class Trouble(NamedTuple):
    """An incident with everything a page shows of it, its updates the newest first."""

    id: int
    title: str
    impact: str
    status: str
    started_at: datetime
    ended_at: datetime | None
    regions: frozenset[int]
    updates: tuple[Told, ...]


class Work(NamedTuple):
    """Maintenance that is not over."""

    id: int
    title: str
    body: str
    starts_at: datetime
    ends_at: datetime
    announced_at: datetime
    cancelled: bool
    regions: frozenset[int]


class Promise(NamedTuple):
    """What offers of a kind state of themselves, and how many state just that. None: they state nothing."""

    kind: str
    sla_percent: Decimal | None
    response_minutes: int | None
    offers: int


def places() -> list[Place]:
    """Regions that are on, with the day their incidents are recorded since."""
    rows = Region.objects.filter(enabled=True).annotate(recorded_since=F("watch__since"))
    return [Place(row.pk, row.name, row.has_machine_room, row.recorded_since) for row in rows]


def incidents(*, since: datetime) -> list[Trouble]:
    """Incidents that last or ended after `since`, the newest first, in the reader's language."""
    return [_trouble(row) for row in _incidents().filter(Q(ended_at__isnull=True) | Q(ended_at__gt=since))]


def latest_incidents() -> list[Trouble]:
    """The newest incidents, for the feed."""
    return [_trouble(row) for row in _incidents()[:FEED_ENTRIES]]


def maintenance(*, at: datetime) -> list[Work]:
    """Maintenance whose window is not over, the next first, in the reader's language."""
    regions = Maintenance.regions.through.objects.filter(maintenance=OuterRef("pk")).values("region_id")
    rows = Maintenance.objects.filter(ends_at__gt=at).annotate(region_ids=ArraySubquery(regions)).order_by("starts_at")
    return [
        Work(
            row.pk,
            row.title,
            row.body,
            row.starts_at,
            row.ends_at,
            row.announced_at,
            row.cancelled_at is not None,
            frozenset(row.region_ids),
        )
        for row in rows
    ]


def page(slug: str) -> tuple[Page | None, list[Block]]:
    """A page, if it is there yet, and its published blocks in order: two statements."""
    published = Prefetch("blocks", Block.objects.filter(published=True).order_by("position", "pk"))
    found = Page.objects.filter(slug=slug).prefetch_related(published).first()
    return found, list(found.blocks.all()) if found else []


def promises() -> list[Promise]:
    """What the offers on sale state, by kind; the best promise first."""
    rows = (
        Offer.objects.on_sale()
        .values("kind", "sla_percent", "response_minutes")
        .annotate(offers=Count("pk"))
        .order_by("kind", F("sla_percent").desc(nulls_last=True), F("response_minutes").asc(nulls_last=True))
    )
    return [Promise(**row) for row in rows]


def _incidents():
    regions = Incident.regions.through.objects.filter(incident=OuterRef("pk")).values("region_id")
    updates = (
        IncidentUpdate.objects.filter(incident=OuterRef("pk"))
        .order_by("-at", "-pk")
        .values(told=JSONObject(status="status", zh="body_zh", en="body_en", at="at"))
    )
    return Incident.objects.annotate(region_ids=ArraySubquery(regions), told=ArraySubquery(updates))


def _trouble(row: Incident) -> Trouble:
    return Trouble(
        row.pk,
        row.title,
        row.impact,
        row.status,
        row.started_at,
        row.ended_at,
        frozenset(row.region_ids),
        tuple(
            Told(one["status"], in_language(one["zh"], one["en"]), datetime.fromisoformat(one["at"]))
            for one in row.told
        ),
    )
