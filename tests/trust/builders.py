"""Rows of the status page for tests: everything at instants that the test names in Shanghai's time."""

from datetime import datetime
from itertools import count
from zoneinfo import ZoneInfo

from catalog.models import Region
from trust import actions
from trust.models import Block, Incident, IncidentUpdate, Maintenance, Page, Watch

SHANGHAI = ZoneInfo("Asia/Shanghai")
_numbers = count(1)


def local(text: str) -> datetime:
    """2026-11-30 08:00 on the clocks of Shanghai."""
    return datetime.fromisoformat(text).replace(tzinfo=SHANGHAI)


NOON = local("2026-11-30 12:00")


def region(code: str = "", *, since: str | None = "2026-01-01", **fields) -> Region:
    """A region that is on, its incidents recorded since a day; None: not recorded."""
    number = next(_numbers)
    defaults = {"name_zh": f"城市 {number}", "name_en": f"City {number}", "timezone": "Asia/Shanghai"}
    made = Region.objects.create(code=code or f"cn-t{number}", **defaults | fields)
    if since is not None:
        Watch.objects.create(region=made, since=since)
    return made


def incident(
    *regions: Region, start: str, end: str | None = None, impact: str = "outage", at: datetime = NOON, **fields
) -> Incident:
    """An incident through its actions; resolved where it has an end."""
    number = next(_numbers)
    texts = {"title_zh": f"故障 {number}", "title_en": f"Incident {number}", "body_zh": "排查中", "body_en": "Looking"}
    made = actions.open_incident(
        regions=regions or [region()], impact=impact, started_at=local(start), actor=None, at=at, **texts | fields
    )
    if end is not None:
        made = actions.resolve_incident(
            incident_id=made.pk, ended_at=local(end), body_zh="已恢复", body_en="Back", actor=None, at=at
        )
    return made


def maintenance(*regions: Region, start: str, end: str, **fields) -> Maintenance:
    number = next(_numbers)
    texts = {"title_zh": f"维护 {number}", "title_en": f"Work {number}", "body_zh": "升级交换机", "body_en": "Switches"}
    made = Maintenance.objects.create(starts_at=local(start), ends_at=local(end), announced_at=NOON, **texts | fields)
    made.regions.set(regions or [region()])
    return made


def page(slug: str = "about", **fields) -> Page:
    texts = {"title_zh": "标题", "title_en": "Title", "lead_zh": "导语", "lead_en": "Introduction", "updated_at": NOON}
    return Page.objects.create(slug=slug, **texts | fields)


def block(of: Page, **fields) -> Block:
    number = next(_numbers)
    texts = {
        "heading_zh": f"小节 {number}", "heading_en": f"Section {number}", "body_zh": "正文", "body_en": "Text",
    }  # fmt: skip
    return Block.objects.create(page=of, **texts | fields)


def words() -> set[str]:
    """Every text of every row, in both languages: what a test of one language takes away before it looks."""
    found: set[str] = set()
    for model in (Page, Block, Incident, IncidentUpdate, Maintenance):
        fields = [field.name for field in model._meta.concrete_fields if field.name.endswith(("_zh", "_en"))]
        for row in model._default_manager.values_list(*fields):
            found |= {line for text in row for line in text.splitlines() if line}
    return found
