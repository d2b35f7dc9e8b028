"""Joining and leaving the waitlist of a sold-out offer."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.generic import View

from accounts.access import OrganizationRequired
from catalog import waitlist
from catalog.models import Offer, Waitlist
from marketplace.lib import clock


class WaitlistForm(forms.Form):
    units = forms.IntegerField(
        label=gettext_lazy("Units"), min_value=1, max_value=waitlist.MOST_UNITS, initial=1, localize=False
    )


class JoinWaitlistView(OrganizationRequired, View):
    """The question how many units are waited for, on a page of its own: where a visitor comes back to after login."""

    verb = "order"

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        return self._page(self._offer(slug), WaitlistForm())

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        offer, form = self._offer(slug), WaitlistForm(request.POST)
        if self.switched or not form.is_valid():
            return self._page(offer, form, status=409 if self.switched else 422)
        try:
            waitlist.join(
                offer=offer,
                organization=self.organization,
                user=request.user,
                units=form.cleaned_data["units"],
                at=clock.now(),
            )
        except waitlist.WaitlistRefused as refusal:
            return self._page(offer, form, status=409, refusal=refusal)
        messages.success(request, _("You are on the waitlist. We tell you when enough units are free."))
        return redirect("catalog:offer", offer.slug)

    def _offer(self, slug: str) -> Offer:
        offers = Offer.objects.on_sale().filter(gpu_model__isnull=False).select_related("gpu_model", "region")
        return get_object_or_404(offers, slug=slug)

    def _page(self, offer: Offer, form: WaitlistForm, *, status: int = 200, **more: object) -> HttpResponse:
        context = {"offer": offer, "form": form, "switched": self.switched, **more}
        return render(self.request, "catalog/waitlist.html", context, status=status)


class LeaveWaitlistView(OrganizationRequired, View):
    http_method_names = ("post",)
    verb = "order"

    def post(self, request: HttpRequest, key: UUID) -> HttpResponseRedirect:
        entry = Waitlist.objects.filter(key=key, organization=self.organization).select_related("offer").first()
        if entry is None:
            raise Http404
        if waitlist.leave(key=key, organization=self.organization, at=clock.now()):
            messages.success(request, _("You are no longer on the waitlist."))
        return redirect("catalog:offer", entry.offer.slug)
