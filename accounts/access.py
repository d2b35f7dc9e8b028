"""Gates in front of views: signed in, member of an organization, role allowed."""

from django.contrib.auth.mixins import AccessMixin
from django.core.exceptions import PermissionDenied

from accounts.permissions import can


class OrganizationRequired(AccessMixin):
    """Signed in, with an organization, and allowed to do `verb` in it. `self.organization` is the plain object.

    Views look objects up through `self.organization`, so another organization's object is a 404.
    """

    verb = "view"

    def dispatch(self, request, *args, **kwargs):
        if not request.user.is_authenticated:
            return self.handle_no_permission()
        if not can(request.membership, self.verb):
            raise PermissionDenied
        self.membership = request.membership
        self.organization = self.membership.organization
        return super().dispatch(request, *args, **kwargs)
