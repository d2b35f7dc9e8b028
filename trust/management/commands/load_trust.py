"""Add the pages of trust that are not there yet."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_datetime

from marketplace.lib import clock
from trust import loading


class Command(BaseCommand):
    help = "Add the pages and blocks of trust/data/pages.json that are missing; nothing that exists is changed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--at", help="instant since which incidents of new regions count as recorded (now)")

    def handle(self, *args: Any, at: str | None, verbosity: int, **options: Any) -> None:
        instant = parse_datetime(at) if at else clock.now()
        if instant is None or instant.tzinfo is None:
            raise CommandError("--at needs a date, a time and a zone, e.g. 2026-12-01T00:00:00+08:00")
        added = loading.load(at=instant)
        for what in added if verbosity > 1 else ():
            self.stdout.write(f"added {what}")
        self.stdout.write(f"pages: {len(added)} added" if added else "pages: no change")
