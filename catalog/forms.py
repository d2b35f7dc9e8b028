"""The list's filters as a form: its address is its state."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import get_language, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from catalog.queries import TERMS, Facets, OfferFilter

SORTS = [
    ("", _("Recommended")),
    ("price", _("Price, lowest first")),
    ("-price", _("Price, highest first")),
    ("-memory", _("Memory, largest first")),
    ("-bf16", _("BF16 rate, highest first")),
    ("-free", _("Free cards, most first")),
]


class OfferFilterForm(forms.Form):
    """Every field is optional; one that cannot be read gets a message and narrows nothing."""

    q = forms.CharField(label=_("Search"), required=False, max_length=60, strip=True)
    family = forms.ChoiceField(label=_("Family"), required=False)
    vendor = forms.ChoiceField(label=_("Vendor"), required=False)
    memory = forms.TypedChoiceField(label=_("Memory per card"), required=False, coerce=int, empty_value=None)
    size = forms.TypedChoiceField(label=_("Cards per unit"), required=False, coerce=int, empty_value=None)
    region = forms.ChoiceField(label=_("Region"), required=False)
    sort = forms.ChoiceField(label=_("Sort"), required=False, choices=SORTS)
    available = forms.BooleanField(label=_("Available now"), required=False)
    domestic = forms.BooleanField(label=_("Domestic cards only"), required=False)
    term = forms.ChoiceField(required=False, choices=[(term, term) for term in TERMS], widget=forms.HiddenInput)

    def __init__(self, data: Any, facets: Facets) -> None:
        super().__init__(data, auto_id="filter-%s")
        chinese = (get_language() or "").startswith("zh")
        cards = ngettext_lazy("%(count)d card", "%(count)d cards", "count")
        self._choose("family", [(name, name) for name in facets.families])
        self._choose("vendor", [(name, name) for name in facets.vendors])
        self._choose("region", [(code, zh if chinese else en) for code, zh, en in facets.regions])
        self._choose("memory", [(size, _("%(size)d GB or more") % {"size": size}) for size in facets.memories])
        self._choose("size", [(size, cards % {"count": size}) for size in facets.sizes])

    def _choose(self, name: str, choices: list[tuple[Any, Any]]) -> None:
        self.fields[name].choices = [("", _("All")), *choices]  # type: ignore[attr-defined]

    def wanted(self) -> OfferFilter:
        """The filter as far as it could be read."""
        self.full_clean()
        read = {name: value for name, value in self.cleaned_data.items() if value not in (None, "", False)}
        read["text"] = read.pop("q", "")
        return OfferFilter(**read)
