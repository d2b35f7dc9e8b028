"""The organization a person works for, and the switch between theirs."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.middleware import SESSION_KEY


class OrganizationView(OrganizationRequired, View):
    """What the organization is, who belongs to it, and a switch to the person's other organizations."""

    def get(self, request: HttpRequest) -> HttpResponse:
        context = {
            "organization": self.organization,
            "members": self.organization.memberships.select_related("user").order_by("joined_at", "pk"),
            "projects": self.organization.projects.order_by("-is_default", "name"),
            "others": request.user.memberships.exclude(organization=self.organization).select_related("organization"),
        }
        return render(request, "accounts/organization.html", context)


class SwitchOrganizationView(OrganizationRequired, View):
    """Act for another organization the person belongs to."""

    http_method_names = ("post",)

    def post(self, request: HttpRequest, key) -> HttpResponse:
        membership = get_object_or_404(request.user.memberships, organization__key=key)
        request.session[SESSION_KEY] = membership.organization_id
        return redirect("rentals:list")
