"""Questions about invoices and money that pages ask."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from accounts.models import CreditLine, Organization
from billing.actions import owed_minor, unbilled_minor
from billing.models import Invoice


def invoices_of(organization: Organization) -> QuerySet[Invoice]:
    """The organization's issued invoices, newest first, with what a list shows; a draft is nobody's document yet."""
    return (
        Invoice.objects.filter(organization=organization)
        .exclude(status=Invoice.Status.DRAFT)
        .select_related("order", "organization")
        .order_by("-issued_at", "-pk")
    )


def unpaid_invoices_of(organization: Organization) -> QuerySet[Invoice]:
    """What is to be paid, the first due first."""
    return invoices_of(organization).filter(status__in=Invoice.UNPAID).order_by("due_at", "pk")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an organization stands, in minor units of its currency, worked out at one moment."""

    currency: str
    limit_minor: int
    owed_minor: int
    """Outstanding on issued usage invoices."""
    unbilled_minor: int
    """Used and on no invoice yet."""
    committed_minor: int
    """Kept ready for running hourly machines."""
    frozen: bool

    @property
    def used_minor(self) -> int:
        return self.owed_minor + self.unbilled_minor

    @property
    def headroom_minor(self) -> int:
        """What a new hourly order may still commit."""
        return 0 if self.frozen else max(self.limit_minor - self.used_minor - self.committed_minor, 0)


def standing_of(organization: Organization, *, at: datetime) -> Standing:
    """The credit line with its use up to `at`."""
    line = CreditLine.objects.get(organization=organization)
    return Standing(
        currency=organization.currency,
        limit_minor=line.limit_minor,
        owed_minor=owed_minor(organization=organization),
        unbilled_minor=max(unbilled_minor(organization=organization, at=at), 0),
        committed_minor=line.committed_minor,
        frozen=line.standing != CreditLine.Standing.GOOD,
    )
