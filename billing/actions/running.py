"""The whole billing run: what beat does every hour and `run_billing --at` does on demand."""

from dataclasses import dataclass, field
from datetime import datetime

from billing.actions.drafting import draft_order_invoices
from billing.actions.months import Drafted, draft_usage_invoices
from billing.actions.pushing import due_for_push, push
from billing.models import Invoice
from rentals import metering


@dataclass
class BillingRun:
    """What one run did."""

    windows: int = 0
    orders: list[Invoice] = field(default_factory=list)
    usage: Drafted = field(default_factory=Drafted)
    pushed: list[Invoice] = field(default_factory=list)


def run_billing(*, at: datetime, now: datetime | None = None, pushing: bool = True) -> BillingRun:
    """Cut usage up to `at`, draft and issue what is due by then, and push everything that waits for Stripe.

    `now` is the present instant by which leases and pauses are kept, where `at` is another one. Twice, in parallel or
    after being killed: the same invoices.
    """
    done = BillingRun(windows=metering.cut_windows(at=at))
    done.orders = draft_order_invoices(at=at)
    done.usage = draft_usage_invoices(at=at)
    if pushing:
        done.pushed = push_due(at=now or at)
    return done


def push_due(*, at: datetime) -> list[Invoice]:
    """One attempt for every invoice that waits for Stripe."""
    return [push(invoice_id=invoice_id, at=at) for invoice_id in due_for_push(at=at)]
