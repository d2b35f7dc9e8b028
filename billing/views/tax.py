"""The page of the tax profile: who the buyer is on invoices and 发票."""

from __future__ import annotations

from typing import Any

from babel import Locale
from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language, gettext_lazy, to_locale
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.permissions import can
from billing import actions
from billing.models import TaxProfile
from billing.tax import FIELDS, TaxProfileInvalid, checked
from marketplace.lib import clock


def countries() -> list[tuple[str, str]]:
    """Every country and region but mainland China, by its name in the reader's language."""
    names = Locale.parse(to_locale(get_language() or "en")).territories
    found = [(code, name) for code, name in names.items() if len(code) == 2 and code.isalpha() and code not in _NOWHERE]
    return [("", ""), *sorted(found, key=lambda pair: pair[1])]


# Codes of Unicode's that are no place a company sits in, and the mainland.
_NOWHERE = {"CN", "ZZ", "QO", "EU", "EZ", "UN", "XA", "XB"}


class TaxProfileForm(forms.Form):
    """What the tax bureau must know of the buyer. The rules are `billing.tax`'s; a message lands beside its field."""

    kind = forms.ChoiceField(label=gettext_lazy("Kind of buyer"), choices=TaxProfile.Kind, widget=forms.RadioSelect)
    title = forms.CharField(
        label=gettext_lazy("Title on documents"),
        max_length=100,
        help_text=gettext_lazy("The full name on the licence, brackets （） included."),
        widget=forms.TextInput(attrs={"autocomplete": "organization"}),
    )
    tax_id = forms.CharField(
        label=gettext_lazy("Tax number"),
        max_length=40,
        required=False,
        help_text=gettext_lazy(
            "A company's unified social credit code (18 characters); abroad the VAT number, where there is one."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    country = forms.ChoiceField(
        label=gettext_lazy("Country or region"),
        required=False,
        help_text=gettext_lazy("Only for companies outside mainland China."),
    )
    address = forms.CharField(
        label=gettext_lazy("Registered address"),
        max_length=100,
        required=False,
        help_text=gettext_lazy("Stands on special VAT invoices. Address and phone have 100 bytes together."),
    )
    phone = forms.CharField(label=gettext_lazy("Registered phone"), max_length=30, required=False)
    bank = forms.CharField(
        label=gettext_lazy("Bank"),
        max_length=100,
        required=False,
        help_text=gettext_lazy("With the branch. Bank and account have 100 bytes together."),
    )
    bank_account = forms.CharField(
        label=gettext_lazy("Bank account"),
        max_length=40,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    email = forms.CharField(
        label=gettext_lazy("E-mail for documents"),
        max_length=254,
        required=False,
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
    )
    field_order = ("kind", "title", "tax_id", "country", "address", "phone", "bank", "bank_account", "email")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["country"].choices = countries()

    def clean(self) -> dict[str, Any]:
        entered = {name: self.data.get(name, "") for name in FIELDS} | self.cleaned_data
        try:
            return checked(entered)
        except TaxProfileInvalid as refusal:
            for field, problems in refusal.problems.items():
                if field not in self.errors:
                    self.add_error(field, problems)
        return self.cleaned_data


class TaxProfilePage(OrganizationRequired, View):
    """The organization's tax profile: read by whoever sees the bills, written by whoever pays them."""

    verb = "bills"

    def get(self, request: HttpRequest) -> HttpResponse:
        profile = TaxProfile.objects.filter(organization=self.organization).first()
        first = {name: getattr(profile, name) for name in FIELDS} if profile else self._suggested()
        return self._page(TaxProfileForm(initial=first), profile)

    def post(self, request: HttpRequest) -> HttpResponse:
        if not can(self.membership, "pay"):
            return self.handle_no_permission()
        form = TaxProfileForm(request.POST)
        profile = TaxProfile.objects.filter(organization=self.organization).first()
        if self.switched:
            return self._page(form, profile, status=409)
        if not form.is_valid():
            return self._page(form, profile, status=422)
        actions.save_tax_profile(
            organization=self.organization, entered=form.cleaned_data, actor=request.user, at=clock.now()
        )
        messages.success(request, _("Tax profile saved. It stands on invoices issued from now on."))
        return redirect("billing:tax_profile")

    def _suggested(self) -> dict[str, str]:
        return {"kind": TaxProfile.Kind.COMPANY, "title": self.organization.name}

    def _page(self, form: TaxProfileForm, profile: TaxProfile | None, status: int = 200) -> HttpResponse:
        context = {
            "form": form,
            "profile": profile,
            "country": dict(countries()).get(profile.country, "") if profile else "",
            "may_edit": can(self.membership, "pay"),
            "switched": self.switched,
        }
        return render(self.request, "billing/tax_profile.html", context, status=status)
