"""`manage.py run_billing --at=2026-12-01T00:00:00+08:00`: the run that beat makes every hour, for any instant."""

from datetime import UTC, datetime

from django.core.management.base import BaseCommand, CommandError, CommandParser

from billing.actions import BillingRun, run_billing
from billing.models import Invoice
from marketplace.lib import clock
from marketplace.lib.money import format_minor


class Command(BaseCommand):
    help = "Cut usage, draft and issue the invoices that are due at an instant, push them to Stripe, and say so."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--at", type=instant, help="ISO instant with its offset; now when left out")
        parser.add_argument("--no-push", action="store_true", help="leave pushing to the workers")

    def handle(self, *, at: datetime | None, no_push: bool, **options: object) -> None:
        now = clock.now()
        if at and at > now:
            self.stderr.write("--at lies ahead: running meters are charged up to its last midnight")
        done = run_billing(at=at or now, now=now, pushing=not no_push)
        for text in report(done):
            self.stdout.write(text)
        if done.usage.failed:
            raise CommandError(f"{len(done.usage.failed)} organizations could not be invoiced; the log says why")


def instant(text: str) -> datetime:
    """An ISO instant in UTC. An offset is required: billing days depend on it."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"--at={text}: not an ISO instant") from None
    if at.tzinfo is None:
        raise CommandError(f"--at={text}: give the offset, such as {text}+08:00 or {text}Z")
    return at.astimezone(UTC)


def report(done: BillingRun) -> list[str]:
    """What the run did, a line a fact."""
    return [
        f"{done.windows} usage windows cut",
        *(f"drafted {line(invoice)}" for invoice in (*done.orders, *done.usage.invoices)),
        *(f"organization {pk}: below the least Stripe collects, carried forward" for pk in done.usage.carried),
        *(f"organization {pk}: failed" for pk in done.usage.failed),
        *(f"pushed  {line(invoice)}" for invoice in done.pushed),
        f"{len(done.orders) + len(done.usage.invoices)} invoices drafted, {len(done.pushed)} pushed",
    ]


def line(invoice: Invoice) -> str:
    """Number, kind, state, amount and Stripe's id."""
    amount = format_minor(invoice.total_minor, invoice.currency)
    stripe_id = f" {invoice.stripe_invoice_id}" if invoice.stripe_invoice_id else ""
    problem = f" ({invoice.push_error})" if invoice.push_error else ""
    return f"{invoice.number} {invoice.kind} {invoice.status} {amount}{stripe_id}{problem}"
