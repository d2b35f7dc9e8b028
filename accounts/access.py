"""Gates in front of views: signed in, member of an organization, role allowed."""

from django.contrib.auth.mixins import AccessMixin
from django.core.exceptions import PermissionDenied
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from accounts.permissions import can


class OrganizationRequired(AccessMixin):
    """Signed in, with an organization, and allowed to do `verb` in it. `self.organization` is the plain object.

    Views look objects up through `self.organization`, so another organization's object is a 404.
    """

    verb = "view"

    def dispatch(self, request, *args, **kwargs):
        if not request.user.is_authenticated:
            return self.handle_no_permission()
        if not request.membership:
            # The provider's own people work at the desk and are members of nothing.
            if request.user.is_staff:
                return redirect("admin:index")
            raise PermissionDenied(_("You belong to no organization. Ask an owner of yours to add you."))
        if not can(request.membership, self.verb):
            raise PermissionDenied
        self.membership = request.membership
        self.organization = self.membership.organization
        return super().dispatch(request, *args, **kwargs)

    @property
    def switched(self) -> bool:
        """Whether the form was opened while the person worked in another organization: a tab may have switched."""
        opened_in = self.request.POST.get("acting_for", "")
        return bool(opened_in) and opened_in != str(self.organization.key)
