"""What the public pages ask of the database; each question is one statement."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, F, OuterRef, Q, QuerySet
from django.db.models.functions import JSONObject

from catalog.models import Offer, Region
from marketplace.lib.spoken import either
from trust.models import Block, Incident, IncidentUpdate, Maintenance, Page, Watch

# Entries of the feed.
FEED_ENTRIES = 30


class Place(NamedTuple):
    """A region that is on, and what is stated of the data in it; empty where nothing is."""

    id: int
    name: str
    has_machine_room: bool
    recorded_since: date | None
    data_stays: str
    crossing: str


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


class Section(NamedTuple):
    """A block of a page; its figure, unit, label and source are empty where it states none."""

    id: int
    heading: str
    body: str
    figure: str
    unit: str
    label: str
    source: str


class WrittenPage(NamedTuple):
    """A page as it is read."""

    title: str
    lead: str
    notice: str
    blocks: tuple[Section, ...]

    @property
    def facts(self) -> list[Section]:
        """The blocks that state a figure."""
        return [block for block in self.blocks if block.figure]


BLOCK_TEXTS = [f"{name}_{language}" for name in Section._fields[1:] for language in ("zh", "en")]


class Promise(NamedTuple):
    """What offers of a kind state of themselves, and how many state just that. None: they state nothing."""

    kind: str
    sla_percent: Decimal | None
    response_minutes: int | None
    offers: int


def places() -> list[Place]:
    """Regions that are on, with the day their incidents are recorded since."""
    rows = Region.objects.filter(enabled=True).annotate(recorded_since=F("watch__since"))
    return [
        Place(row.pk, row.name, row.has_machine_room, row.recorded_since, row.data_stays, _crossing(row))
        for row in rows
    ]


def incidents(*, since: datetime) -> list[Trouble]:
    """Incidents that last or ended after `since`, the newest first, in the reader's language."""
    return [_trouble(row) for row in _incidents().filter(Q(ended_at__isnull=True) | Q(ended_at__gt=since))]


def recorded_since() -> datetime:
    """The start of the first day whose incidents are recorded; of 1970 where no region is watched."""
    first = Watch.objects.order_by("since").values_list("since", flat=True).first()
    return datetime.combine(first or date(1970, 1, 1), time(), UTC)


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


def page(slug: str) -> WrittenPage | None:
    """A page with its published blocks in order, in the reader's language; None where nobody has written it yet."""
    texts = {name: name for name in BLOCK_TEXTS}
    published = Block.objects.filter(page=OuterRef("pk"), published=True).order_by("position", "pk")
    blocks = ArraySubquery(published.values(block=JSONObject(pk="pk", **texts)))
    row = Page.objects.filter(slug=slug).annotate(published=blocks).first()
    return row and WrittenPage(row.title, row.lead, row.notice, tuple(_section(one) for one in row.published))


def promises() -> list[Promise]:
    """What the offers on sale state, by kind; the best promise first."""
    rows = (
        Offer.objects.on_sale()
        .values("kind", "sla_percent", "response_minutes")
        .annotate(offers=Count("pk"))
        .order_by("kind", F("sla_percent").desc(nulls_last=True), F("response_minutes").asc(nulls_last=True))
    )
    return [Promise(**row) for row in rows]


def _crossing(region: Region) -> str:
    """What is stated of data crossing the border; empty where nothing is."""
    return region.crossing_words or (str(region.get_crossing_display()) if region.crossing else "")


def _incidents() -> QuerySet[Incident]:
    regions = Incident.regions.through.objects.filter(incident=OuterRef("pk")).values("region_id")
    updates = (
        IncidentUpdate.objects.filter(incident=OuterRef("pk"))
        .order_by("-at", "-pk")
        .values(told=JSONObject(status="status", zh="body_zh", en="body_en", at="at"))
    )
    return Incident.objects.annotate(region_ids=ArraySubquery(regions), told=ArraySubquery(updates))


def _section(block: dict[str, Any]) -> Section:
    return Section(block["pk"], *(either(block[f"{name}_zh"], block[f"{name}_en"]) for name in Section._fields[1:]))


def _trouble(row: Incident) -> Trouble:
    return Trouble(
        row.pk,
        row.title,
        row.impact,
        row.status,
        row.started_at,
        row.ended_at,
        frozenset(row.region_ids),
        tuple(Told(one["status"], either(one["zh"], one["en"]), datetime.fromisoformat(one["at"])) for one in row.told),
    )
