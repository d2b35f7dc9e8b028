"""The Celery application and its beat table: the whole pipeline on one screen."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.settings")

app = Celery("marketplace")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

# Every entry is a sweep: it finds the rows that are ready for its floor, so a lost message costs one beat and no fact.
# In the data's way: catalogue, orders, provisioning, metering, invoices, Stripe, housekeeping.
SWEEPS = {
    "catalog.fold_changes": 10,
    "catalog.notify_waitlist": 30,
    "orders.expire_holds": 30,
    "orders.expire_quotes": 300,
    "orders.tell_sales": 15,
    "rentals.open_rentals": 5,
    "rentals.convert": 5,
    "rentals.step_due": 2,
    "rentals.cut_windows": 300,
    "rentals.enforce_terms": 60,
    "rentals.tell_of_ending_terms": 600,
    # Each machine is read once a minute; a reading that failed is tried again within it.
    "rentals.sample_utilisation": 20,
    "rentals.enforce_auto_stop": 15,
    "rentals.compare_orphans": 600,
    "rentals.measure_delivery": 900,
    "billing.draft_order_invoices": 10,
    "billing.renew_terms": 600,
    "billing.push_due": 5,
    "billing.apply_stripe_events": 3,
    "billing.settle_expiring": 30,
    "billing.run": 600,
    "billing.settle_usage": 3600,
    "billing.move_checkpoints": 3600,
    "billing.refresh_credit": 60,
    "billing.enforce_arrears": 60,
    "billing.enforce_budgets": 60,
    "billing.sweep_open_invoices": 300,
    "billing.sweep_top_ups": 30,
    "billing.sweep_automatic_top_ups": 60,
    "billing.expire_gifts": 60,
    "billing.credit_term_refunds": 15,
    "billing.sweep_refunds": 10,
    "billing.sweep_credit_notes": 10,
    "billing.tell_of_overdue": 600,
    "billing.remind_of_unpaid": 600,
    "billing.write_exports": 10,
    "billing.expire_exports": 3600,
    "billing.reconcile": 86_400,
    "accounts.send_notices": 15,
}

app.conf.beat_schedule = {
    name: {
        "task": name,
        "schedule": float(seconds),
        # A beat that nobody picked up in time is worthless; the next one asks the same question.
        "options": {"expires": max(seconds, 10)},
    }
    for name, seconds in SWEEPS.items()
}
