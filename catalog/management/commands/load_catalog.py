"""Bring the catalogue up to the files in catalog/data/."""

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_datetime

from catalog import loading
from marketplace.lib import clock


class Command(BaseCommand):
    help = "Load regions, GPU models, images, pools, hosts, offers and prices from catalog/data/. Safe to repeat."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--at", help="instant from which new rates hold, e.g. 2026-12-01T00:00:00+08:00 (now)")

    def handle(self, *args: Any, at: str | None, verbosity: int, **options: Any) -> None:
        instant = parse_datetime(at) if at else clock.now()
        if instant is None or instant.tzinfo is None:
            raise CommandError("--at needs a date, a time and a zone, e.g. 2026-12-01T00:00:00+08:00")
        report = loading.load(at=instant)
        for change in report.changes:
            if change.what == "changed" or verbosity > 1:
                self.stdout.write(f"{change.what} {change.kind} {change.key}: {', '.join(change.fields)}".rstrip(": "))
        counts = Counter((change.what, change.kind) for change in report.changes)
        summary = ", ".join(f"{number} {kind} {what}" for (what, kind), number in counts.items())
        self.stdout.write(f"catalogue: {summary or 'no change'}")
