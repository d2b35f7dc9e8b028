"""Setting and removing the rules by which a rental stops by itself. Plain forms; without scripts all the same."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from marketplace.lib import clock
from rentals import actions
from rentals.forms import AUTO_STOP_FORMS
from rentals.models import AutoStopRule, Rental
from rentals.views.machine import OneRental, RentalDetail


class AutoStop(RentalDetail):
    """Puts a rule in force; what cannot be read or done is said beside its field, on the same page."""

    verb = "operate"
    http_method_names = ("post",)

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        rental = self.rental(key)
        kind = request.POST.get("kind", "")
        if kind not in AUTO_STOP_FORMS:
            return self.page(rental, status=400)
        form = AUTO_STOP_FORMS[kind](request.POST, organization=self.organization)
        if not form.is_valid():
            return self.page(rental, form, status=422)
        try:
            actions.set_auto_stop(rental_id=rental.pk, kind=kind, actor=request.user, at=clock.now(), **form.figures())
        except actions.RentalRefused as refusal:
            form.add_error(refusal.field if refusal.field in form.fields else None, str(refusal))
            return self.page(self.rental(key), form, status=409)
        messages.success(request, _("The auto-stop rule is in force."))
        return _back(rental)


class RemoveAutoStop(OneRental):
    """Takes a rule away."""

    verb = "operate"
    http_method_names = ("post",)

    def post(self, request: HttpRequest, key: UUID) -> HttpResponse:
        rental = self.rental(key)
        kind = request.POST.get("kind", "")
        if kind not in AutoStopRule.Kind.values:
            raise Http404
        actions.remove_auto_stop(rental_id=rental.pk, kind=kind, actor=request.user, at=clock.now())
        messages.success(request, _("The auto-stop rule was removed."))
        return _back(rental)


def _back(rental: Rental) -> HttpResponse:
    return redirect(f"{reverse('rentals:detail', args=[rental.key])}#auto-stop")
