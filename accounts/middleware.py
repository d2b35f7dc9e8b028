"""Which organization a request acts for."""

from django.utils.functional import SimpleLazyObject

from accounts.models import Membership
from accounts.queries import count_unread

SESSION_KEY = "organization"


def current_membership(request) -> Membership | None:
    """The signed-in person's membership in the organization they chose, else in the first they joined."""
    if not request.user.is_authenticated:
        return None
    memberships = list(
        request.user.memberships.select_related("organization", "organization__credit_line").order_by("joined_at", "pk")
    )
    chosen = request.session.get(SESSION_KEY)
    return next((m for m in memberships if m.organization_id == chosen), memberships[0] if memberships else None)


class OrganizationMiddleware:
    """Sets `request.membership`, `request.organization` (falsy for visitors) and `request.unread_notices` (how many).

    None of them costs a query until it is used."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        request.membership = SimpleLazyObject(lambda: current_membership(request))
        request.organization = SimpleLazyObject(lambda: request.membership.organization if request.membership else None)
        request.unread_notices = SimpleLazyObject(lambda: count_unread(request.membership))
        return self.get_response(request)
