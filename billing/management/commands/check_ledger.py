"""`manage.py check_ledger`: prove the books, or name the first wrong row of every broken rule."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from billing import ledger
from marketplace.lib.money import format_minor


class Command(BaseCommand):
    help = (
        "Prove trial balance, balances, invoices and payments against the ledger; ends with an error when one differs."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        for currency, books in ledger.trial_balance().items():
            self.stdout.write(f"{currency}")
            for book, total in books.items():
                self.stdout.write(f"  {book:<12}{format_minor(total, currency):>24}")
        wrong = ledger.check()
        for one in wrong:
            self.stderr.write(str(one))
        if wrong:
            raise CommandError(f"{len(wrong)} {'rule is' if len(wrong) == 1 else 'rules are'} broken")
        self.stdout.write("The books are right.")
