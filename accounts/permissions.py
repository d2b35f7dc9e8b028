"""What each role of an organization may do. Pure data, read by views, the API and templates alike."""

from accounts.models import Membership

Role = Membership.Role

ALLOWED: dict[str, frozenset[str]] = {
    "view": frozenset(Role.values),
    "order": frozenset({Role.OWNER, Role.ADMIN, Role.ENGINEER}),
    "operate": frozenset({Role.OWNER, Role.ADMIN, Role.ENGINEER}),
    "keys": frozenset({Role.OWNER, Role.ADMIN, Role.ENGINEER}),
    "pay": frozenset({Role.OWNER, Role.ADMIN, Role.FINANCE}),
    "bills": frozenset({Role.OWNER, Role.ADMIN, Role.FINANCE, Role.VIEWER}),
    "manage": frozenset({Role.OWNER, Role.ADMIN}),
}


def can(membership: Membership | None, verb: str) -> bool:
    """Whether this membership's role allows the verb. Raises KeyError for a verb that does not exist."""
    return membership is not None and membership.role in ALLOWED[verb]
