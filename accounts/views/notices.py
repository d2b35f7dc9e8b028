"""Console pages of notices: what one's organization should know, and which of it one wants to be told."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import NoReverseMatch
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts import actions, notices, queries
from accounts.access import OrganizationRequired
from accounts.forms import PreferencesForm
from accounts.middleware import SESSION_KEY
from accounts.models import Delivery
from marketplace.lib import clock

PAGE_SIZE = 20


class Notices(OrganizationRequired, View):
    """The member's notices of this organization, those not read yet first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        page = Paginator(queries.notices_of(self.membership), PAGE_SIZE).get_page(request.GET.get("page"))
        rows = [(delivery, notices.say(delivery.notification)) for delivery in page]
        return render(request, "accounts/notices.html", {"page": page, "rows": rows})


class OpenNotice(OrganizationRequired, View):
    """Where mails and the list lead: marks the notice as read, acts for its organization, goes on to its page."""

    def get(self, request: HttpRequest, key: UUID) -> HttpResponse:
        delivery = _own(request, key)
        actions.mark_read(deliveries=[delivery.pk], at=clock.now())
        notification = delivery.notification
        request.session[SESSION_KEY] = notification.organization_id
        try:
            return redirect(notification.page, *notification.page_args)
        except NoReverseMatch:  # a page that a later release no longer has
            return redirect("accounts:notices")


class ReadNotice(OrganizationRequired, View):
    """Mark one notice as read."""

    http_method_names = ("post",)

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        actions.mark_read(deliveries=[_own(request, key).pk], at=clock.now())
        return redirect("accounts:notices")


class ReadNotices(OrganizationRequired, View):
    """Mark everything as read that the member has not read in this organization."""

    http_method_names = ("post",)

    def post(self, request: HttpRequest) -> HttpResponse:
        unread = queries.unread_notices_of(self.membership).values_list("pk", flat=True)
        actions.mark_read(deliveries=list(unread), at=clock.now())
        return redirect("accounts:notices")


def _own(request: HttpRequest, key: UUID) -> Delivery:
    """The person's own delivery of a notice, of any organization they still belong to; else 404."""
    return get_object_or_404(
        Delivery.objects.select_related("notification"),
        notification__key=key,
        notification__organization__in=request.user.memberships.values("organization"),
        user=request.user,
    )


class Preferences(OrganizationRequired, View):
    """Which notices a person wants in the console and by mail."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return self._page(PreferencesForm(membership=self.membership))

    def post(self, request: HttpRequest) -> HttpResponse:
        form = PreferencesForm(request.POST, membership=self.membership)
        if not form.is_valid():
            return self._page(form, status=422)
        actions.set_notice_preferences(user=request.user, wishes=form.wishes())
        messages.success(request, _("Saved."))
        return redirect("accounts:notice_preferences")

    def _page(self, form: PreferencesForm, status: int = 200) -> HttpResponse:
        context = {"form": form, "verified": queries.email_is_verified(self.request.user)}
        return render(self.request, "accounts/notice_preferences.html", context, status=status)
