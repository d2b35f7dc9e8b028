"""`manage.py reconcile_stripe --days=35`: compare Stripe's books with ours and print every difference."""

from datetime import timedelta

from django.core.management.base import BaseCommand, CommandError, CommandParser

from billing.actions import reconcile
from marketplace.lib import clock


class Command(BaseCommand):
    help = "Compare Stripe's books with ours and keep the differences for finance; exit 1 when they differ."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--days", type=int, default=35, help="how far back (default 35)")

    def handle(self, *, days: int, **options: object) -> None:
        now = clock.now()
        differences = reconcile(at=now + timedelta(minutes=1), since=now - timedelta(days=days))
        for difference in differences:
            self.stdout.write(str(difference))
        if differences:
            raise CommandError(f"{len(differences)} differences")
        self.stdout.write("no difference")
