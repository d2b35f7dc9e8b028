"""Billing accounts: who is billed, opened when first needed, and the lock under which money moves."""

from collections.abc import Iterable

from django.db import connection

from accounts.models import CreditLine, Membership, Organization
from billing.models import BillingAccount


def account_of(*, organization: Organization) -> BillingAccount:
    """The organization's billing account, opened with its owner's e-mail address when it has none yet.

    One with a credit limit is billed by the month; any other pays from its balance.
    """
    found = BillingAccount.objects.filter(organization=organization).first()
    if found is not None:
        return found
    account, _created = BillingAccount.objects.get_or_create(
        organization=organization, defaults={"email": _owner_email(organization), "mode": _first_mode(organization)}
    )
    return account


def lock_account(*, organization_id: int) -> BillingAccount:
    """The account's row lock: whoever holds it is the only one who moves this organization's money."""
    account_of(organization=Organization.objects.get(pk=organization_id))
    return _locked([organization_id])[0]


def lock_accounts(*, organization_ids: Iterable[int]) -> dict[int, BillingAccount]:
    """The accounts of many organizations by organization id, locked in the order of their ids, opened where missing."""
    wanted = sorted(set(organization_ids))
    with connection.cursor() as cursor:
        cursor.execute(_MISSING, [wanted])
        missing = [organization_id for (organization_id,) in cursor.fetchall()]
    for organization in Organization.objects.filter(pk__in=missing).order_by("pk"):
        account_of(organization=organization)
    return {account.organization_id: account for account in _locked(wanted)}


_MISSING = """
    SELECT wanted.id FROM unnest(%s::bigint[]) AS wanted (id)
    WHERE NOT EXISTS (SELECT 1 FROM billing_billingaccount a WHERE a.organization_id = wanted.id)
"""


def _locked(organization_ids: list[int]) -> list[BillingAccount]:
    return list(
        BillingAccount.objects.select_for_update(no_key=True, of=("self",))
        .select_related("organization")
        .filter(organization_id__in=organization_ids)
        .order_by("pk")
    )


def _first_mode(organization: Organization) -> str:
    has_limit = CreditLine.objects.filter(organization=organization, limit_minor__gt=0).exists()
    return BillingAccount.Mode.CREDIT if has_limit else BillingAccount.Mode.WALLET


def _owner_email(organization: Organization) -> str:
    owner = (
        Membership.objects.filter(organization=organization, role=Membership.Role.OWNER)
        .select_related("user")
        .order_by("joined_at", "pk")
        .first()
    )
    return owner.user.email if owner else ""
