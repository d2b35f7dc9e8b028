"""`manage.py export invoice_lines november.csv --since=2026-11-01 --until=2026-11-30`: an export of any kind as a file.

The suffix (.csv or .xlsx) says the format. Days are the company's own; both belong to the export.
"""

from datetime import date, datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import translation

from accounts.models import Organization
from billing.exports.catalogue import EXPORTS
from billing.exports.download import SHAPES
from billing.exports.reading import one_moment
from billing.exports.selection import Selection
from billing.exports.to_csv import write_csv
from billing.exports.to_xlsx import write_xlsx
from billing.management.commands.run_billing import instant
from marketplace.lib import clock
from marketplace.lib.money import BILLING_CURRENCIES


class Command(BaseCommand):
    help = "Write an export into a file, of one moment of the books."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", choices=list(EXPORTS))
        parser.add_argument("file", type=Path, help="ends in .csv or .xlsx; must not exist yet")
        parser.add_argument("--since", type=date.fromisoformat, help="the first day")
        parser.add_argument("--until", type=date.fromisoformat, help="the last day")
        parser.add_argument("--at", type=instant, help="the instant receivables are asked for; now when left out")
        parser.add_argument("--organization", help="the ID of one organization")
        parser.add_argument("--currency", choices=BILLING_CURRENCIES, default="")
        parser.add_argument("--language", choices=[code for code, _name in settings.LANGUAGES], default="zh-hans")
        parser.add_argument("--for-machines", action="store_true", help="CSV without a byte order mark")

    def handle(self, *, kind: str, file: Path, language: str, for_machines: bool, **narrowed: object) -> None:
        export, shape = EXPORTS[kind], file.suffix.removeprefix(".")
        if shape not in SHAPES:
            raise CommandError(f"{file}: name it .csv or .xlsx")
        try:
            with file.open("xb") as target, translation.override(language), one_moment() as cursor:
                rows = export.rows(_selection(**narrowed))
                if shape == "csv":
                    machines = for_machines or export.for_machines
                    count = write_csv(export.table, rows, target.write, cursor=cursor, for_machines=machines)
                else:
                    count = write_xlsx(export.table, rows, target, cursor=cursor)
        except FileExistsError:
            raise CommandError(f"{file} exists already") from None
        self.stdout.write(f"{count} rows")


def _selection(
    *,
    since: date | None,
    until: date | None,
    at: datetime | None,
    organization: str | None,
    currency: str,
    **_options: object,
) -> Selection:
    return Selection(
        at=at or clock.now(),
        organization_id=_organization(organization) if organization else None,
        currency=currency,
        since=clock.local_midnight(since, settings.TIME_ZONE) if since else None,
        until=clock.local_midnight(until + timedelta(days=1), settings.TIME_ZONE) if until else None,
    )


def _organization(key: str) -> int:
    try:
        return Organization.objects.get(key=key).pk
    except (Organization.DoesNotExist, ValidationError):
        raise CommandError(f"--organization={key}: no such organization") from None
