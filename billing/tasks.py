"""Sweeps of billing: each finds the rows that are ready, so a lost message costs one beat and no fact."""

from celery import shared_task

from billing import actions, events, ledger
from billing.actions import auto_renewing, exporting
from billing.actions.autotopup import sweep_automatic
from marketplace.lib import clock

# A message that waited longer is worthless: the sweep has asked again meanwhile.
STALE = 60


@shared_task(name="billing.draft_order_invoices")
def draft_order_invoices() -> None:
    """Orders that wait for payment get their invoice, and each goes straight on to Stripe."""
    for invoice in actions.draft_order_invoices(at=clock.now()):
        push.apply_async(kwargs={"invoice_id": invoice.pk}, expires=STALE)


@shared_task(name="billing.renew_terms")
def renew_terms() -> None:
    """Extend terms that renew themselves, where the balance pays for it."""
    auto_renewing.renew_terms(at=clock.now())


@shared_task(name="billing.push_due")
def push_due() -> None:
    """One message an invoice, so that several workers share a month's end. A doubled message finds the lease taken."""
    for invoice_id in actions.due_for_push(at=clock.now()):
        push.apply_async(kwargs={"invoice_id": invoice_id}, expires=STALE)


@shared_task(name="billing.push")
def push(*, invoice_id: int) -> None:
    actions.push(invoice_id=invoice_id, at=clock.now())


@shared_task(name="billing.apply_stripe_events")
def apply_stripe_events() -> None:
    events.apply_waiting(at=clock.now())


@shared_task(name="billing.run")
def run() -> None:
    """Cut usage, draft and issue months that ended; pushing has its own sweep."""
    actions.run_billing(at=clock.now(), pushing=False)


@shared_task(name="billing.settle_usage")
def settle_usage() -> None:
    """Prepaid organizations pay what they used since the last time."""
    actions.settle_usage(at=clock.now())


@shared_task(name="billing.move_checkpoints")
def move_checkpoints() -> None:
    ledger.move_checkpoints()


@shared_task(name="billing.refresh_credit")
def refresh_credit() -> None:
    actions.refresh_all(at=clock.now())


@shared_task(name="billing.enforce_arrears")
def enforce_arrears() -> None:
    """Balances below zero: run on, suspend, keep, tell, delete, and let go on once they are settled."""
    actions.enforce_arrears(at=clock.now())


@shared_task(name="billing.enforce_budgets")
def enforce_budgets() -> None:
    """Write down what budgets' months have cost, tell of crossings, stop what they say."""
    actions.enforce_budgets(at=clock.now())


@shared_task(name="billing.remind_of_unpaid")
def remind_of_unpaid() -> None:
    """Remind customers with a credit line of invoices that are late."""
    actions.remind_of_unpaid(at=clock.now())


@shared_task(name="billing.tell_of_overdue")
def tell_of_overdue() -> None:
    """Tell of invoices that were not paid in time."""
    actions.tell_of_overdue(at=clock.now())


@shared_task(name="billing.settle_expiring")
def settle_expiring() -> None:
    actions.settle_expiring(at=clock.now())


@shared_task(name="billing.sweep_open_invoices")
def sweep_open_invoices() -> None:
    actions.sweep_open_invoices(at=clock.now())


@shared_task(name="billing.credit_term_refunds")
def credit_term_refunds() -> None:
    """What ended terms pay back becomes credit notes."""
    actions.credit_term_refunds(at=clock.now())


@shared_task(name="billing.sweep_refunds")
def sweep_refunds() -> None:
    """Refunds that wait are sent, and asked about until Stripe has decided."""
    actions.sweep_refunds(at=clock.now())


@shared_task(name="billing.sweep_credit_notes")
def sweep_credit_notes() -> None:
    """Stripe is told of credit notes."""
    actions.sweep_credit_notes(at=clock.now())


@shared_task(name="billing.sweep_top_ups")
def sweep_top_ups() -> None:
    """Ask about top-ups whose payment nobody told us of."""
    actions.sweep_top_ups(at=clock.now())


@shared_task(name="billing.sweep_automatic_top_ups")
def sweep_automatic_top_ups() -> None:
    """Charge saved cards where a balance fell below its mark."""
    sweep_automatic(at=clock.now())


@shared_task(name="billing.expire_gifts")
def expire_gifts() -> None:
    actions.expire_gifts(at=clock.now())


@shared_task(name="billing.reconcile")
def reconcile() -> None:
    actions.reconcile(at=clock.now())


@shared_task(name="billing.write_exports")
def write_exports() -> None:
    """One message an export, so that several workers share them. A doubled message finds the lease taken."""
    for job_id in exporting.due_exports(at=clock.now()):
        write_export.apply_async(kwargs={"job_id": job_id}, expires=STALE)


@shared_task(name="billing.write_export")
def write_export(*, job_id: int) -> None:
    exporting.run_export(job_id=job_id, at=clock.now(), now=clock.now)


@shared_task(name="billing.expire_exports")
def expire_exports() -> None:
    exporting.expire_exports(at=clock.now())
