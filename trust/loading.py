"""The pages as they come with the software: what is missing is added, what is there belongs to those who edit it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from django.db import connection, transaction

from catalog.models import Region
from marketplace.lib import clock
from trust.models import Block, Page, Watch
from trust.uptime import ZONE

PAGES = Path(__file__).parent / "data" / "pages.json"

# Any constant will do; two loads at once would otherwise both find a row missing.
_LOAD_LOCK = 7_203_442


def load(*, at: datetime, file: Path = PAGES) -> list[str]:
    """Add the pages, blocks and regions on record that are missing; what was added, by name.

    A row that exists is never written, whoever wrote it. Incidents of a region count as recorded from the local day of
    `at` on; an earlier beginning is for people to state.
    """
    added = []
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOAD_LOCK])
        for slug, content in json.loads(file.read_text(encoding="utf-8"))["pages"].items():
            added += _add_page(slug, content, at)
        added += _add_watches(at)
    return added


def _add_page(slug: str, content: dict, at: datetime) -> list[str]:
    texts = {name: value for name, value in content.items() if name != "blocks"}
    page, is_new = Page.objects.get_or_create(slug=slug, defaults=texts | {"updated_at": at})
    known = set(page.blocks.values_list("key", flat=True))
    fresh = [
        Block(page=page, position=number * 10, **block)
        for number, block in enumerate(content["blocks"], start=1)
        if block["key"] not in known
    ]
    Block.objects.bulk_create(fresh)
    return [*([f"page {slug}"] if is_new else []), *(f"block {slug}/{block.key}" for block in fresh)]


def _add_watches(at: datetime) -> list[str]:
    fresh = [
        Watch(region=region, since=clock.local_date(at, ZONE))
        for region in Region.objects.filter(enabled=True, watch__isnull=True)
    ]
    Watch.objects.bulk_create(fresh)
    return [f"region {watch.region.code}" for watch in fresh]
