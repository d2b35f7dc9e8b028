"""Paid top-ups and invoices of a test, as Stripe's side and ours agree on them."""

import uuid
from datetime import timedelta

from billing import actions, stripe_gateway
from billing.actions.accounts import account_of
from billing.actions.pushing import ensure_customer
from billing.models import Invoice, TopUp
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, rental, used
from tests.billing.stripe_side import pay


def paid_top_up(sandbox, *, amount_minor=50_000, organization=None) -> TopUp:
    """Money that a saved card brought onto the balance."""
    account = account_of(organization=organization or factories.organization())
    customer = ensure_customer(account, version=1)
    top_up = TopUp.objects.create(
        account=account, request_key=str(uuid.uuid4()), amount_minor=amount_minor, currency="CNY", created_at=DECEMBER,
        is_automatic=True,
    )  # fmt: skip
    intent = stripe_gateway.charge_saved(
        topup_key=top_up.key, version=1, amount=amount_minor, currency="CNY", customer=customer,
        payment_method=sandbox.attach_method(customer), description="top-up",
    )  # fmt: skip
    actions.settle_charge(intent=intent, at=DECEMBER)
    top_up.refresh_from_db()
    return top_up


def pushed_invoice(*, organization=None, hours=4) -> Invoice:
    """A month's usage at ¥2.50 an hour, open at Stripe."""
    organization = organization or factories.organization()
    used(rental(organization), NOVEMBER, NOVEMBER + hours * HOUR)
    actions.draft_usage_invoices(at=DECEMBER)
    made = Invoice.objects.get(organization=organization)
    return actions.push(invoice_id=made.pk, at=DECEMBER)


def paid_invoice(**facts) -> Invoice:
    """The same, paid on Stripe's page."""
    made = pushed_invoice(**facts)
    pay(made)
    theirs = stripe_gateway.retrieve_invoice(invoice_id=made.stripe_invoice_id)
    return actions.apply_stripe_invoice(theirs=theirs, at=DECEMBER + timedelta(minutes=1))
