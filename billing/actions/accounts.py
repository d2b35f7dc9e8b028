"""Billing accounts: who is billed, opened when first needed."""

from accounts.models import Membership, Organization
from billing.models import BillingAccount


def account_of(*, organization: Organization) -> BillingAccount:
    """The organization's billing account, opened with its owner's e-mail address when it has none yet."""
    account, _created = BillingAccount.objects.get_or_create(
        organization=organization, defaults={"email": _owner_email(organization)}
    )
    return account


def lock_account(*, organization_id: int) -> BillingAccount:
    """The account's row lock: whoever holds it is the only one who drafts invoices for this organization."""
    organization = Organization.objects.get(pk=organization_id)
    account_of(organization=organization)
    return (
        BillingAccount.objects.select_for_update(no_key=True, of=("self",))
        .select_related("organization")
        .get(organization_id=organization_id)
    )


def _owner_email(organization: Organization) -> str:
    owner = (
        Membership.objects.filter(organization=organization, role=Membership.Role.OWNER)
        .select_related("user")
        .order_by("joined_at", "pk")
        .first()
    )
    return owner.user.email if owner else ""
