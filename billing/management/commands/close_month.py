"""`manage.py close_month 2026-11`: lock a month's books; without a month, say which is next."""

from argparse import ArgumentParser
from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from billing import actions
from marketplace.lib import clock
from marketplace.lib.money import format_minor


class Command(BaseCommand):
    help = "Lock the books of a month that ended: later facts of it count in the first open one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("month", nargs="?", help="like 2026-11; left out, the next one to close is named")

    def handle(self, *args: Any, month: str | None, **options: Any) -> None:
        if month is None:
            following = actions.next_to_close()
            self.stdout.write(f"Next to close: {following:%Y-%m}" if following else "Nothing is booked yet.")
            return
        try:
            closed = actions.close_month(month=date.fromisoformat(f"{month}-01"), at=clock.now())
        except (ValueError, actions.CloseRefused) as problem:
            raise CommandError(str(problem)) from problem
        for currency, books in closed.totals.items():
            for book, total in books.items():
                self.stdout.write(f"{currency}  {book:<12}{format_minor(total, currency):>24}")
        self.stdout.write(f"{closed} is closed.")
