"""Questions about people and organizations, and what they were told."""

from allauth.account.models import EmailAddress
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet

from accounts.models import Delivery, Membership, User
from accounts.notices import kinds_for

# A badge says no more than that there are more.
UNREAD_COUNTED = 100


def email_is_verified(user: User) -> bool:
    """Whether the person has proven that they read the mail of their login address."""
    return EmailAddress.objects.filter(user=user, email__iexact=user.email, verified=True).exists()


def notices_of(membership: Membership) -> QuerySet[Delivery]:
    """What the member was told of this organization and may still see: the unread first, then the newest."""
    unread = ExpressionWrapper(Q(read_at__isnull=True), output_field=BooleanField())
    return (
        _shown_to(membership)
        .select_related("notification")
        .annotate(unread=unread)
        .order_by("-unread", "-notification__created_at", "-pk")
    )


def unread_notices_of(membership: Membership) -> QuerySet[Delivery]:
    """Those the member may see in the console and has not read, in no order."""
    return _shown_to(membership).filter(read_at__isnull=True)


def count_unread(membership: Membership | None) -> int:
    """How many notices wait to be read, counted up to UNREAD_COUNTED; none without a membership. One query."""
    return unread_notices_of(membership)[:UNREAD_COUNTED].count() if membership else 0


def _shown_to(membership: Membership) -> QuerySet[Delivery]:
    return Delivery.objects.filter(
        user=membership.user_id,
        in_app=True,
        notification__organization=membership.organization_id,
        notification__kind__in=kinds_for(membership),
    )
